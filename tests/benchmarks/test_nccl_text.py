"""Tables of nccl-tests: every sample, tables in every layout that has been, and text that is none."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.nccl_tables import FACTORS, Job, Layout, bandwidths, count_of, text_of

from vsphere_ai.benchmarks.nccl import nccl_text
from vsphere_ai.benchmarks.nccl.nccl_checks import inferred_ranks, nccl_checks
from vsphere_ai.benchmarks.nccl.nccl_text import parse_text

SAMPLES = Path(__file__).parent / "samples"


def runs_of(name):
    return parse_text((SAMPLES / f"nccl-{name}.txt").read_text("utf-8").splitlines(keepends=True))


def rules(run, ranks=None):
    return {c.rule for c in nccl_checks(run, ranks)} - {"nccl.transport"}


# sample -> runs, each: collective, rows, ranks by the bandwidths, peak, average, other checks
TABLE = {
    "allgather-2n16g-h100-nocheck-NA": [("all_gather", 10, 16, 71.35, 30.9622, {"nccl.not-validated"})],
    "allgather-2n16g-h100-tcpxo": [("all_gather", 31, 16, 188.90, 53.8932, set())],
    "allreduce-1n8g-h100-tag-output": [("all_reduce", 32, 8, 483.35, 156.742, set())],
    "allreduce-2n16g-a100-efa-srun-prefix": [("all_reduce", 29, 16, 78.33, None, {"nccl.no-end"})],
    "allreduce-2n16g-a100-roce-v2.17.9": [("all_reduce", 4, 16, 189.60, None, set())],
    "allreduce-2n16g-dgxa100-old-error-column": [("all_reduce", 30, 16, 188.70, 53.7098, set())],
    "allreduce-2n16g-h100-tag-output-ellipsis": [("all_reduce", 7, 16, 437.89, 52.9753, {"nccl.average"})],
    "allreduce-2n16g-roce-sriov-old-error-column": [("all_reduce", 29, 16, 22.92, 7.76739, set())],
    "allreduce-2n16g-v2.18.3-fullheader": [("all_reduce", 24, 16, 49.85, 21.0721, set())],
    "allreduce-8n64g-h100-ib": [("all_reduce", 5, 96, 386.56, 373.187, {"nccl.sizes"})],
    "allreduce-azure-v100-a100-nofooter-interleaved": [
        ("all_reduce", 9, 16, 16.32, None, {"nccl.no-end"}),
        ("all_reduce", 9, 16, 189.33, None, {"nccl.no-end"}),
    ],
    "broadcast-2n2g-v100-tcp-old-error-NA": [
        ("broadcast", 1, None, 0.0, None, {"nccl.no-end", "nccl.not-validated", "nccl.warning"}),
    ],
    "diag-built-without-mpi-duplicate-rank0": [(None, 0, None, None, None, {"nccl.no-mpi", "nccl.no-rows"})],
}


def test_the_table_has_every_sample():
    assert {path.name for path in SAMPLES.glob("nccl-*.txt")} == {f"nccl-{name}.txt" for name in TABLE}


@pytest.mark.parametrize("name", TABLE)
def test_a_sample_is_read(name):
    found = []
    for run in runs_of(name):
        ranks = inferred_ranks(run)
        operation = run.collective.name if run.collective else None
        average = run.average.value if run.average else None
        found.append((operation, len(run.rows), ranks.only if ranks else None, run.peak, average, rules(run)))
        assert not run.unread
    assert found == TABLE[name]


@pytest.mark.parametrize("name", TABLE)
def test_every_row_of_a_sample_is_read_and_its_bandwidth_is_as_computed(name):
    lines = (SAMPLES / f"nccl-{name}.txt").read_text("utf-8").splitlines()
    shaped = [line for line in lines if " float " in line]
    runs = runs_of(name)
    assert sum(len(run.rows) for run in runs) == len(shaped)
    for run in runs:
        ranks = inferred_ranks(run)
        for row in run.rows if ranks else ():
            assert len(row.measures) == 2
            for measure in row.measures:
                factor = row.size * run.collective.family.factor(ranks.only) / 1e3
                assert factor / measure.time.high <= measure.busbw.high * (1 + 1e-9)
                assert measure.busbw.low <= factor / measure.time.low * (1 + 1e-9)


def test_the_figures_of_a_row_are_the_printed_ones():
    (run,) = runs_of("allreduce-2n16g-roce-sriov-old-error-column")
    row = run.rows[-1]
    assert (row.size, row.count, row.type, row.redop, row.root) == (2147483648, 536870912, "float", "sum", None)
    assert [(m.time.value, m.algbw.value, m.busbw.value, m.wrong) for m in row.measures] == [
        (175667, 12.22, 22.92, 5e-07),
        (176189, 12.19, 22.85, 5e-07),
    ]
    assert run.has_differences
    assert (run.out_of_bounds, run.bounds_ok) == (0, True)


def test_the_header_and_the_devices_are_read():
    (run,) = runs_of("allreduce-2n16g-v2.18.3-fullheader")
    assert (run.program, run.tests_version, run.nccl_version) == ("all_reduce_perf", "2.18.3", "2.30.3+cuda13.0")
    assert run.header["maxBytes"] == 8589934592
    assert (run.header["iters"], run.header["warmup iters"], run.header["validation"]) == (20, 1, 1)
    assert run.declared_ranks == 16
    assert run.concluded
    last = run.devices[-1]
    assert (last.rank, last.host, last.device, last.pci) == (15, "R6KD-CX8aaS-GPU-15", 7, "0000:f9:00")
    (elided,) = runs_of("allreduce-2n16g-a100-roce-v2.17.9")
    assert (len(elided.devices), elided.declared_ranks) == (4, 16)


def test_the_mixed_up_table_is_not_that_of_its_64_gpus():
    (run,) = runs_of("allreduce-8n64g-h100-ib")
    assert {"nccl.ranks", "nccl.sizes"} <= rules(run, 64)
    assert "nccl.ranks" not in rules(run, 96)


def test_every_process_alone_is_named_with_its_hosts():
    (run,) = runs_of("diag-built-without-mpi-duplicate-rank0")
    check = next(c for c in nccl_checks(run) if c.rule == "nccl.no-mpi")
    assert "2 times, on ip-172-31-20-228, ip-172-31-22-230" in check.message


LAYOUTS = st.builds(
    Layout,
    old=st.booleans(),
    header=st.booleans(),
    title=st.booleans(),
    footer=st.booleans(),
    prefix=st.sampled_from(["", "0: ", " 3: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "vm-01: ", "[n1:7]<stdout>: "]),
    per_iteration=st.booleans(),
    timestamps=st.booleans(),
    checked=st.booleans(),
    devices=st.booleans(),
)


@st.composite
def jobs(draw):
    ranks = draw(st.sampled_from([2, 3, 4, 8, 16, 64, 96]))
    # bandwidths with three digits at the largest size show the ranks
    sizes = sorted({4 * ranks * 2**power for power in draw(st.lists(st.integers(0, 24), max_size=6))})
    speed = draw(st.floats(1e-3, 5e2))
    times = {s: tuple(20 + s / 1e3 / (speed * draw(st.floats(0.9, 1))) for _ in range(2)) for s in sizes}
    return Job(draw(st.sampled_from(sorted(FACTORS))), ranks, times, draw(LAYOUTS))


@settings(max_examples=150, deadline=None)
@given(jobs())
def test_any_table_is_read_back(job):
    runs = parse_text(text_of(job).splitlines())
    if not runs:
        assert not job.times
        return
    (run,) = runs
    assert {row.size: tuple(len(row.measures) * [row.count]) for row in run.rows} == {
        size: (count_of(job, size),) * 2 for size in job.times
    }
    for row in run.rows:
        for measure, time in zip(row.measures, job.times[row.size], strict=True):
            algbw, busbw = bandwidths(job, row.size, time)
            for shown, exact in ((measure.time, time), (measure.algbw, algbw), (measure.busbw, busbw)):
                assert shown.low * (1 - 1e-9) <= exact <= shown.high * (1 + 1e-9)
            assert (measure.wrong is None) is not job.layout.checked
    if job.layout.header and job.layout.devices:
        assert run.declared_ranks == job.ranks
    ranks = inferred_ranks(run)
    assert ranks is None or job.ranks in ranks
    allowed = {"nccl.no-end", "nccl.not-validated", "nccl.no-rows", "nccl.collective"}
    assert rules(run, job.ranks) <= allowed


def test_every_check_is_on_its_page():
    root = Path(__file__).parents[2]
    code = "".join(path.read_text("utf-8") for path in (root / "vsphere_ai" / "benchmarks").rglob("*.py"))
    page = (root / "docs" / "benchmarks.md").read_text("utf-8")
    explained = set(re.findall(r"^\| `(nccl[\w.-]+)` \|", page, re.MULTILINE))
    assert set(re.findall(r'of_run\("(nccl[\w.-]+)"', code)) | {"nccl.run-failed"} == explained


def job(operation="all_reduce", ranks=16, **layout):
    times = {4 * 1024 * ranks * 4**power: (30 + 9.0 * 4**power, 31 + 9.0 * 4**power) for power in range(8)}
    return Job(operation, ranks, times, Layout(**layout))


def test_runs_one_after_the_other_are_apart():
    text = text_of(job()) + "noise\n" + text_of(job(old=True)) + text_of(job("all_gather", header=False, footer=False))
    assert [(r.collective.name, len(r.rows)) for r in parse_text(text.splitlines())] == [
        ("all_reduce", 8),
        ("all_reduce", 8),
        ("all_gather", 8),
    ]


def test_processes_that_write_at_once_are_apart_by_their_prefix():
    texts = [text_of(job("all_reduce", prefix=f"{at}: ")).splitlines() for at in range(3)]
    mixed = [line for lines in zip(*texts, strict=True) for line in lines]
    assert [len(run.rows) for run in parse_text(mixed)] == [8, 8, 8]


def test_a_log_in_the_table_changes_no_row():
    lines = text_of(job()).splitlines()
    noise = "vm-01:4000:4001 [0] NCCL INFO Launch mode Parallel"
    noisy = [each for line in lines for each in (line, noise)]
    assert parse_text(noisy)[0].rows == parse_text(lines)[0].rows


def test_a_row_that_was_written_into_is_counted_not_guessed():
    text = text_of(job()).replace("sum", "vm-01:40 NCCL INFO", 1)
    (run,) = parse_text(text.splitlines())
    assert (len(run.rows), run.unread) == (7, 1)
    assert "nccl.unread" in rules(run)


def test_not_a_number_is_not_a_measurement():
    text = text_of(job())
    row = next(line for line in text.splitlines() if " float " in line)
    cells = row.split()
    (run,) = parse_text(text.replace(row, row.replace(cells[6], "nan", 1)).splitlines())
    assert (len(run.rows), run.unread) == (7, 1)


def test_a_table_of_a_replayed_trace_has_only_the_half_in_place():
    text = text_of(job(timestamps=False))
    lines = [
        " ".join([*line.split()[:5], *line.split()[9:]]) if " float " in line else line for line in text.splitlines()
    ]
    (run,) = parse_text(lines)
    assert [(r.out_of_place, bool(r.in_place)) for r in run.rows] == [(None, True)] * 8


LOG = """\
vm-01:11:12 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB ens192:10.0.0.5<0>
vm-01:11:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
vm-01:11:12 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1
vm-01:11:12 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
"""


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (LOG, {"nccl.rdma", "nccl.no-gpudirect"}),
        (LOG.replace("NET/IB/1", "NET/IB/1/GDRDMA"), {"nccl.rdma"}),
        (LOG.replace("NET/IB/1", "NET/Socket/1"), {"nccl.socket"}),
        (LOG.replace("NET/IB/1", "NET/tcp;ofi_rxm/1"), {"nccl.socket"}),
        (LOG.replace("NET/IB/1", "COLLNET/SHARP/0/GDRDMA comm 0x5 nRanks 16"), {"nccl.rdma"}),
        (LOG.replace("NET/IB/1", "NET/AWS Libfabric/1/GDRDMA"), {"nccl.rdma"}),
        (
            "x NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm\n" + LOG.replace("IB/1", "AWS Libfabric/1"),
            {"nccl.socket"},
        ),
        ("x NCCL INFO NET/Socket : Using [0]ens192:10.0.0.5<0>\n" + LOG, {"nccl.rdma", "nccl.no-gpudirect"}),
        ("x NCCL INFO Using network Socket\n", {"nccl.socket"}),
        (
            "x NCCL INFO NET/IB : No device found.\nx NCCL INFO NET/Socket : Using [0]ens192:10.0.0.5<0>",
            {"nccl.socket"},
        ),
        ("x NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", {"nccl.no-gpudirect"}),
        ("", {"nccl.transport"}),
    ],
)
def test_the_log_says_which_way_the_data_went(log, found):
    text = text_of(job()).replace("NCCL version", log + "NCCL version")
    (run,) = parse_text(text.splitlines())
    assert {c.rule for c in nccl_checks(run)} == found


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ("x NCCL INFO NET/IB : No device found.\nx NCCL INFO Using network Socket\n", set()),
        ("x NCCL INFO Using network Socket\nx NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n", set()),
        ("x NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n", {"nccl.socket"}),
    ],
)
def test_a_run_on_one_node_needs_no_network(log, found):
    text = text_of(job(ranks=8)).replace("NCCL version", log + "NCCL version")
    (run,) = parse_text(text.splitlines())
    assert {c.rule for c in nccl_checks(run)} == found
    cut = [line for line in text.splitlines() if "Rank  0" not in line]
    assert {c.rule for c in nccl_checks(parse_text(cut)[0])} == {"nccl.socket"}


def test_wrong_values_and_failures_fail():
    text = text_of(Job("all_reduce", 8, {32768: (30.0, 31.0)}, wrong=4))
    run, after = parse_text([*text.splitlines(), "vm-01: Test NCCL failure common.cu:958 'unhandled cuda error'"])
    assert rules(run) == {"nccl.wrong"}
    assert rules(after) == {"nccl.error", "nccl.no-rows"}
    (cut,) = parse_text([*text.splitlines()[:12], "vm-01: Test NCCL failure common.cu:958 'unhandled cuda error'"])
    assert "nccl.error" in rules(cut)


def test_an_edited_time_is_found():
    lines = text_of(job()).splitlines()
    at = max(i for i, line in enumerate(lines) if " float " in line)
    time = lines[at].split()[5]
    lines[at] = lines[at].replace(time, f"{float(time) * 1.1:.1f}", 1)
    (run,) = parse_text(lines)
    assert rules(run) == {"nccl.time"}


def test_edited_bandwidths_give_no_number_of_ranks():
    lines = text_of(job(footer=False)).splitlines()
    at = max(i for i, line in enumerate(lines) if " float " in line)
    cells = lines[at].split()
    cells[7] = f"{float(cells[7]) * 0.8:.2f}"
    (run,) = parse_text([*lines[:at], " ".join(cells)])
    assert "nccl.ratio" in rules(run)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=20), st.randoms(use_true_random=False))
def test_no_text_stops_the_reader(lines, rng):
    sample = text_of(job(old=rng.random() < 0.5)).splitlines()
    for line in lines:
        at = rng.randrange(len(sample))
        cut = rng.randrange(1 + len(sample[at]))
        sample[at] = sample[at][:cut] + line + sample[at][cut:]
    for run in parse_text(sample):
        nccl_checks(run, 16)
        assert len(run.rows) <= nccl_text.MAX_ROWS


def test_random_bytes_stop_nothing():
    rng = random.Random(7)
    alphabet = "0123456789 .:#[]<>-eEnNaAfloatRank\x1b\x00\t"
    lines = ("".join(rng.choices(alphabet, k=rng.randrange(300))) for _ in range(3000))
    for run in parse_text(lines):
        nccl_checks(run)


PREFIXES = [
    "[0] ",
    "[default0]:",
    "[trainer3]:",
    "[1,0]<stdout>:",
    "    [1,0]<stdout>: ",
    "[prterun-host-123@1,0]<stdout>: ",
    "[1,0][vm-01:4711]<stdout>:",
    "Sat Feb  1 10:00:00 2025[1,0]<stdout>:",
    "00: ",
    "[pod/launcher-x7k2/nccl] ",
    "launcher-x7k2 nccl ",
    "2025-02-01T10:00:00.123456789Z ",
    "vm-01: ",
    "nccl-1  | ",
    "(Worker pid=1, ip=10.0.0.5) ",
    "> ",
    "\x1b[32m[0]\x1b[0m ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("old", [False, True])
def test_what_stands_before_the_table_does_not_matter(prefix, old):
    (run,) = parse_text(text_of(job(old=old, prefix=prefix, devices=not old)).splitlines())
    (plain,) = parse_text(text_of(job(old=old, devices=not old)).splitlines())
    assert (run.rows, run.devices, run.average, run.header) == (plain.rows, plain.devices, plain.average, plain.header)
    assert len(run.rows) == 8


def test_times_that_run_on_do_not_part_a_table():
    lines = text_of(job()).splitlines()
    stamped = [f"Sat Feb  1 10:00:{at % 60:02d} 2025[1,0]<stdout>:{line}" for at, line in enumerate(lines)]
    assert [len(run.rows) for run in parse_text(stamped)] == [8]
    stamped = [f"2025-02-01T10:00:{at % 60:02d}.5Z {line}" for at, line in enumerate(lines)]
    assert [len(run.rows) for run in parse_text(stamped)] == [8]


OLD_HEAD = "size count type redop root time algbw busbw error time algbw busbw error"


@pytest.mark.parametrize("keys", ["sum  -1", "sum", "-1", ""])
def test_columns_are_counted_from_the_right(keys):
    head = f"# {OLD_HEAD}"
    row = f" 134217728  33554432  float  {keys}  1300.0 103.24 193.58 2e-06 1298.0 103.40 193.88 2e-06"
    (run,) = parse_text([head, row])
    (read,) = run.rows
    assert (read.redop, read.root) == ("sum" if "sum" in keys else "", -1 if "-1" in keys else None)
    assert [m.busbw.value for m in read.measures] == [193.58, 193.88]
    (half,) = parse_text([head, row[: row.index("1300.0")] + row[row.index("1298.0") :]])
    assert [(r.out_of_place, r.in_place.busbw.value) for r in half.rows] == [(None, 193.88)]


def test_bandwidths_that_no_number_of_ranks_gives_and_odd_digits_are_findings():
    row = "134217728 33554432 float sum {} 1300.0 103.24 260.58 0 1298.0 103.40 260.88 0"
    (run,) = parse_text(["# Collective test starting: all_reduce_perf", row.format("-1")])
    assert "nccl.ratio" in rules(run)
    (run,) = parse_text([f"# {OLD_HEAD}", row.format("-1²")])
    assert (run.unread, run.rows) == (1, [])


CAUSE = (
    "vm-01:77:80 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.6<51> with status=12 "
    "opcode=0 len=0 vendor err 129 (Recv) localGid fe80:: hca mlx5_0"
)


def test_a_log_that_has_only_a_failure_is_a_run_that_failed_with_its_cause():
    failure = "vm-01: Test NCCL failure all_reduce.cu:44 'remote process exited or there was a network error'"
    (run,) = parse_text([CAUSE, failure])
    checks = {c.rule: c for c in nccl_checks(run)}
    assert {"nccl.error", "nccl.cause", "nccl.no-rows"} <= set(checks)
    assert "vendor err 129" in checks["nccl.cause"].message
    assert "PFC" in checks["nccl.cause"].remedy
    (run,) = parse_text(["vm-01: Test timeout (600s)"])
    assert "nccl.error" in rules(run)


def test_a_warning_in_a_run_that_ended_well_is_a_warning():
    (run,) = parse_text([*text_of(job()).splitlines()[:-6], CAUSE, *text_of(job()).splitlines()[-6:]])
    assert rules(run) == {"nccl.warning"}


def test_two_ranks_that_send_and_receive_are_read():
    (run,) = parse_text(text_of(job("sendrecv", 2)).splitlines())
    assert rules(run, 2) == set()
    (run,) = parse_text(text_of(job("sendrecv", 2, header=False, title=False, footer=False)).splitlines())
    assert "nccl.ranks" not in rules(run, 2)


def flood(megabytes):
    """Rows, devices, headers, channels and log lines without end."""
    cells = "28.56   36.71   64.24      0    28.37   36.96   64.68      0"
    row = f"     1048576        262144     float     sum      -1    {cells}\n"
    one = [row] * 400 + [f"x NCCL INFO Channel 1 via NET/other{at}/0\n" for at in range(300)]
    one += [f"#  Rank {at} Group 0 Pid 1 on vm device 0 [0000:0f:00] x\n" for at in range(300)]
    one += ["# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) iters: 1\n", "y" * 5000 + "\n"]
    size = sum(map(len, one))
    for at in range(megabytes * 1_000_000 // size):
        yield from one
        yield f"{at}: # nThread 1 nGpus 1 minBytes 8 maxBytes 8\n"


def test_what_is_kept_of_a_flood_is_bounded():
    tracemalloc.start()
    runs = parse_text(flood(12))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(runs) <= nccl_text.MAX_RUNS
    assert sum(len(run.rows) for run in runs) <= nccl_text.MAX_ROWS
    assert sum(run.dropped for run in runs) > 10_000
    assert peak < 100_000_000


@pytest.mark.parametrize("name", TABLE)
def test_every_footer_of_a_sample_is_read(name):
    text = (SAMPLES / f"nccl-{name}.txt").read_text("utf-8")
    printed = {
        words: re.findall(rf"# {words}\s*:\s*(\S+)(?: (OK|FAILED))?", text)
        for words in ("Out of bounds values", "Avg bus bandwidth")
    }
    runs = runs_of(name)
    bounds = [(str(run.out_of_bounds), run.bounds_ok) for run in runs if run.out_of_bounds is not None]
    assert bounds == [(value, verdict == "OK") for value, verdict in printed["Out of bounds values"]]
    averages = [run.average.value for run in runs if run.average]
    assert averages == [float(value) for value, _ in printed["Avg bus bandwidth"]]
    assert [run.concluded for run in runs].count(True) == text.count("Collective test concluded")


def json_line(number: int, line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stdout", "time": f"2026-02-01T10:00:00.{number:09d}Z"})


AROUND = {
    "the number of a line (nl)": lambda n, line: f"{n:6d}  {line}",
    "the number of a line and its file (grep -n)": lambda n, line: f"job.out:{n}:{line}",
    "seconds since the start": lambda n, line: f"[{n * 0.25:9.3f}] {line}",
    "seconds since 1970": lambda n, line: f"{1738400000 + n}.123 {line}",
    "a date without signs": lambda n, line: f"20260201-100000.{n:03d} {line}",
    "a line of the kernel's format": lambda n, line: f"I0201 10:00:{n % 60:02d}.{n:06d} 1234 main.py:12] {line}",
    "a JSON object (Docker)": json_line,
    "an element (mpirun --xml)": lambda n, line: f'<stdout rank="0">{line}&#010;</stdout>',
    "a tag right before a row without blanks": lambda n, line: f"[1,0]<stdout>:{line.lstrip()}",
    "a list of JSON texts (Ansible's stdout_lines)": lambda n, line: f"        {json.dumps(line)},",
    "a byte order mark": lambda n, line: f"\ufeff{line}" if n == 0 else line,
    "the name of a worker": lambda n, line: f"[default0]:{line.lstrip()}",
    "a time and a rank": lambda n, line: f"2026-02-01T10:00:{n % 60:02d}-0500 [prterun-a-1@1,0]<stdout>: {line}",
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ["allreduce-2n16g-v2.18.3-fullheader", "allgather-2n16g-h100-nocheck-NA"])
def test_a_table_is_the_same_whatever_counts_or_holds_its_lines(around, name):
    lines = (SAMPLES / f"nccl-{name}.txt").read_text("utf-8").splitlines()
    (plain,) = parse_text(lines)
    (held,) = parse_text([AROUND[around](number, line) for number, line in enumerate(lines)])
    assert held.rows == plain.rows != []
    assert held.devices == plain.devices
    assert (held.average, held.out_of_bounds) == (plain.average, plain.out_of_bounds)


def test_processes_that_print_by_turns_are_no_counter():
    lines = (SAMPLES / "nccl-allreduce-2n16g-v2.18.3-fullheader.txt").read_text("utf-8").splitlines()
    one, other = parse_text([f"{rank}: {line}" for line in lines for rank in (0, 1)])
    assert one.rows == other.rows == parse_text(lines)[0].rows


@pytest.mark.parametrize("keys", ["float sum -1|float prod -1|half sum -1", "float none 0|float none 1|float none 2"])
def test_sizes_that_begin_again_for_each_operation_type_or_root_are_in_order(keys):
    """-o all, -d all, -r all."""
    cells = "20.0 0.05 0.05 0 20.0 0.05 0.05 0"
    rows = [f"{size} {size // 4} {key} {cells}" for key in keys.split("|") for size in (1024, 2048)]
    (run,) = parse_text([f"# {OLD_HEAD.replace('error', '#wrong')}", *rows])
    assert "nccl.order" not in rules(run)
    (run,) = parse_text([f"# {OLD_HEAD.replace('error', '#wrong')}", rows[1], rows[0]])
    assert "nccl.order" in rules(run)


def test_a_difference_that_rccl_marks_is_read():
    (run,) = parse_text(
        [f"# {OLD_HEAD}", "1048576 262144 float sum -1 42.91 24.44 24.44 1e+00* 46.84 22.39 22.39 0e+00"]
    )
    assert [m.wrong for m in run.rows[0].measures] == [1.0, 0.0]
