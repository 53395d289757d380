"""Counters as rates: nothing below a limit is found, and all above it; resets and short times are no rate."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.healthy_vms import healthy

from vsphere_ai.health import counters
from vsphere_ai.health.answers import replays_in
from vsphere_ai.health.checks import judge
from vsphere_ai.health.counters import LIMITS, LinkOutage, Reading, findings, link_problem, readings_in, readings_of
from vsphere_ai.health.profile import HealthProfile

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def rise(counter, by, seconds, start=10**9):
    before = Reading(NOW, "mlx5_0", {counter: start})
    return findings(before, Reading(NOW + timedelta(seconds=seconds), "mlx5_0", {counter: start + by}))


@pytest.mark.parametrize("counter", LIMITS)
def test_each_limit(counter):
    for limit in LIMITS[counter]:
        seconds = max(limit.per, 10)
        most = int(limit.most * seconds / limit.per) if limit.per else 0
        (found,) = rise(counter, most + 1, seconds)
        assert found.counter == counter
        worse = [f for f in rise(counter, most, seconds) if f.limit == limit]
        assert not worse
    assert rise(counter, 0, 3600) == ()


@pytest.mark.parametrize(
    ("counter", "by", "seconds", "severity"),
    [
        ("link_downed", 1, 10, "fail"),
        ("symbol_error", 1, 10, None),
        ("symbol_error", 101, 10, "warn"),
        ("symbol_error", 121, 3600, "fail"),
        ("symbol_error", 120, 3600, None),
        ("link_error_recovery", 1, 10, None),
        ("carrier_changes", 3, 60, "warn"),
        ("port_xmit_discards", 1001, 10, "warn"),
        ("port_xmit_discards", 900, 10, None),
        ("port_rcv_data", 10**12, 10, None),
    ],
)
def test_rates(counter, by, seconds, severity):
    assert [f.limit.verdict for f in rise(counter, by, seconds)] == ([severity] if severity else [])


def test_a_counter_that_was_reset_is_no_rise():
    assert rise("link_downed", -5, 60) == ()


def test_readings_that_are_too_near_or_of_two_ports_are_refused():
    with pytest.raises(ValueError, match="no rate"):
        rise("link_downed", 1, 9)
    with pytest.raises(ValueError, match="two ports"):
        findings(Reading(NOW, "mlx5_0", {}), Reading(NOW + timedelta(60), "mlx5_1", {}))


@given(
    st.dictionaries(st.sampled_from(sorted(LIMITS)), st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))),
    st.integers(10, 10**5),
)
def test_a_longer_time_for_the_same_rise_is_never_worse(values, seconds):
    before = Reading(NOW, "m", {k: a for k, (a, _) in values.items()})
    after = {k: a + b for k, (a, b) in values.items()}
    short = findings(before, Reading(NOW + timedelta(seconds=seconds), "m", after))
    long = findings(before, Reading(NOW + timedelta(seconds=seconds * 10), "m", after))
    assert {f.counter for f in long} <= {f.counter for f in short}


def outage(hours_ago, seconds):
    down = NOW - timedelta(hours=hours_ago)
    return LinkOutage(down, down + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("outages", "words"),
    [
        ([], ""),
        ([outage(1, 30), outage(2, 30)], ""),
        ([outage(1, 30), outage(2, 30), outage(3, 25)], "3 times"),
        ([outage(1, 30), outage(2, 30), outage(3, 24)], ""),
        ([outage(1, 30), outage(2, 30), outage(13, 30)], ""),
        ([LinkOutage(NOW - timedelta(minutes=5), None)], "down since"),
        ([LinkOutage(NOW - timedelta(minutes=3), None)], ""),
    ],
)
def test_flaps_and_drops(outages, words):
    said = link_problem(outages, NOW)
    assert (words in said) if words else not said


@pytest.mark.parametrize(
    ("generation", "lanes", "allowed"), [(1, 16, 3), (3, 16, 8), (4, 16, 16), (5, 16, 31), (6, 1, 4)]
)
def test_pcie_replays(generation, lanes, allowed):
    assert counters.pcie_replays_allowed(generation, lanes) == allowed


def test_an_unknown_pcie_generation_is_refused():
    with pytest.raises(ValueError, match="generation 9"):
        counters.pcie_replays_allowed(9, 16)


def test_a_card_with_fewer_ports_than_its_peers_is_not_cabled():
    assert counters.uncabled({"mlx5_0": 1, "mlx5_1": 1, "mlx5_2": 0}) == ("mlx5_2",)
    assert counters.uncabled({"mlx5_0": 0}) == ()


def test_a_listing_of_counters_is_read_by_port():
    base = "/sys/class/infiniband"
    listing = [f"{base}/mlx5_0/ports/1/counters/link_downed:2",
               f"{base}/mlx5_0/ports/2/hw_counters/rnr_nak_retry_err:0",
               f"{base}/mlx5_0/ports/1/counters/symbol_error:N/A", "grep: permission denied", "", "a:1"]  # fmt: skip
    found = readings_in(listing, NOW)
    assert [(r.device, r.port, dict(r.values)) for r in found] == [
        ("mlx5_0", 1, {"link_downed": 2}), ("mlx5_0", 2, {"rnr_nak_retry_err": 0}),
    ]  # fmt: skip


@given(st.lists(st.text(max_size=80)))
def test_any_listing_is_read(lines):
    readings_in(lines, NOW)


@pytest.mark.parametrize(
    ("rise", "seconds", "found"), [(16, 10, 0), (17, 10, 1), (32, 120, 0), (33, 120, 1), (-5, 60, 0)]
)
def test_pcie_replays_of_a_whole_gpu(rise, seconds, found):
    """16 lanes of generation 4: 16 per minute."""
    observed = healthy(passthrough=True)
    gpu = replace(observed.guest.gpus[0], pcie=(4, 4, 16, 16))
    path = f"/gpu/{gpu.bus}/pcie_replays"
    before, after = (readings_of({path: n}, NOW + timedelta(seconds=s)) for n, s in ((100, 0), (100 + rise, seconds)))
    observed = replace(observed, guest=replace(observed.guest, gpus=(gpu,)), before=before, after=after)
    assert [f.rule for f in judge(observed, HealthProfile()).findings] == ["pcie-replay"] * found


def test_replays_in_real_listings():
    fixtures = Path(__file__).parents[1] / "gpu" / "fixtures" / "xml"
    read = {p.stem: replays_in(p.read_text("utf-8")) for p in fixtures.glob("*.xml")}
    assert all(path.startswith("/gpu/0000:") for found in read.values() for path in found)
    assert sum(map(bool, read.values())) >= 3
    assert replays_in('<gpu id="00000000:02:00.0"><replay_counter>N/A</replay_counter></gpu>') == {}
