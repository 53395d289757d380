"""Tables of perftest in their layouts, and rails that are slower than the others."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.benchmarks.perftest import RailRate, judged_rails, parse_perftest, rounds_of_neighbours

DASHES = "-" * 87
PREAMBLE = f"""\
{DASHES}
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_3
 Number of qps   : 1\t\tTransport type : IB
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 3
{DASHES}
 local address: LID 0000 QPN 0x0087 PSN 0x5e3b2f
{DASHES}
"""
GIGABITS = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
MEGABYTES = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"


def bw_row(size, average):
    return f" {size:<7d}    {5000:<10d}       {average * 1.01:<7.2f}            {average:<7.2f}\t\t   {0.176:<7.6f}"


def test_a_table_in_gigabits():
    text = PREAMBLE + "\n".join([GIGABITS, bw_row(65536, 92.41), bw_row(1 << 20, 96.5), DASHES])
    (run,) = parse_perftest(text.splitlines())
    assert (run.title, run.device, run.link) == ("RDMA_Write BW", "mlx5_3", "Ethernet")
    assert (len(run.rows), run.bandwidth, run.latency) == (2, 96.5, None)


def test_megabytes_are_powers_of_two():
    (run,) = parse_perftest([MEGABYTES, bw_row(65536, 11007.21)])
    assert run.bandwidth == pytest.approx(92.335, abs=0.001)


def test_columns_of_ports_service_levels_and_processor_are_kept_apart():
    ports = f"{GIGABITS}   BW Port1[Gb/sec]   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]"
    (run,) = parse_perftest([ports, bw_row(65536, 190.0) + "   95.1  0.1  94.9  0.1"])
    assert (run.bandwidth, run.rows[0]["BW Port2[Gb/sec]"]) == (190.0, 94.9)
    service = GIGABITS.replace("#bytes ", "#bytes    #sl  ")
    (run,) = parse_perftest([service, " 65536    3           5000           93.00            92.00      0.17"])
    assert (run.bandwidth, run.rows[0]["#sl"]) == (92.0, 3)
    (run,) = parse_perftest([GIGABITS + "    CPU_Util[%]", bw_row(65536, 92.0) + "\t    3.25"])
    assert run.bandwidth == 92.0


def test_latencies():
    head = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    head += "   99% percentile[usec]   99.9% percentile[usec]"
    (run,) = parse_perftest(["  RDMA_Write Latency Test", head, " 2 1000 1.50 7.90 1.55 1.56 0.09 1.70 7.90"])
    assert (run.latency, run.rows[0]["99% percentile[usec]"], run.bandwidth) == (1.55, 1.70, None)
    (run,) = parse_perftest([" #bytes        #iterations       t_avg[usec]  \t", " 2       9000            1.61"])
    assert run.latency == 1.61


def test_runs_and_faults_are_apart():
    one = (PREAMBLE + f"{GIGABITS}\n{bw_row(65536, 92.0)}\n").splitlines()
    failed = [*PREAMBLE.splitlines(), " Completion with error at client", " Failed status 12: wr_id 0 syndrom 0x81"]
    runs = parse_perftest([*one, *failed, *one])
    assert [(r.bandwidth, len(r.faults)) for r in runs] == [(92.0, 0), (None, 2), (92.0, 0)]


@given(st.lists(st.text(max_size=120), max_size=20))
def test_no_text_stops_the_reader(lines):
    parse_perftest([*PREAMBLE.splitlines(), GIGABITS, *lines])


def rules(rates):
    return [(c.rule, c.verdict) for _, c in judged_rails(rates) if c]


def test_a_rail_at_half_speed_is_named_and_noise_is_not():
    rng = random.Random(1)
    rates = [RailRate(f"vm-{vm}", f"rail {rail}", rng.gauss(96.5, 0.8), 100.0) for vm in range(8) for rail in range(8)]
    assert rules(rates) == []
    rates[19] = RailRate("vm-2", "rail 3", 48.4, 100.0)
    (check,) = [c for _, c in judged_rails(rates) if c]
    assert (check.rule, "rail 3 of vm-2" in check.message) == ("rdma.half-speed", True)


def test_all_rails_slow_are_seen_by_their_links_and_missing_ones_are_no_pass():
    assert (
        rules([RailRate("vm-0", f"rail {r}", 40.0, 100.0) for r in range(4)]) == [("rdma.below-line-rate", "warn")] * 4
    )
    missing = [("rdma.not-measured", "unknown")]
    assert rules([RailRate("vm-0", "ens224", None), RailRate("vm-0", "ens225", 90.0)]) == missing
    assert rules([RailRate("vm-0", "ens224", None)]) == missing


@pytest.mark.parametrize("count", range(2, 12))
def test_everyone_is_measured_with_two_neighbours_and_once_per_round(count):
    rounds = rounds_of_neighbours(count)
    assert all(len({end for pair in pairs for end in pair}) == 2 * len(pairs) for pairs in rounds)
    ends = [end for pairs in rounds for pair in pairs for end in pair]
    assert {ends.count(at) for at in range(count)} == {1 if count == 2 else 2}
    assert len(rounds) <= 3
