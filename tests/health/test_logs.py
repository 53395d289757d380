"""Outages and unfamiliar lines: by the limits of their sources, from the side that saw them, one message per rail."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.healthy_vms import NOW, PCI, healthy

from vsphere_ai.health.checks import gpu_events, judge, xid_findings
from vsphere_ai.health.counters import Reading
from vsphere_ai.health.kernel.kernel_log import normal
from vsphere_ai.health.outages import outages_in
from vsphere_ai.health.profile import MEASURES, HealthProfile, HealthyNumber, learned

BOOT = NOW - timedelta(seconds=90_000)


def seen(*, guest=(), host=(), **more):
    observed = replace(healthy(), at=NOW)
    inside = replace(observed.guest, kernel=(*observed.guest.kernel, *guest))
    return replace(observed, guest=inside, host=replace(observed.host, events=tuple(host)), **more)


def rows(observed, profile=None):
    return [(f.rule, f.verdict, f.source, f.target.part) for f in judge(observed, profile or HealthProfile()).findings]


def vob(ago, seconds, nic="vmnic1"):
    start = NOW - ago
    words = ((start, "down"), (start + timedelta(seconds=seconds), "up"))
    stamp = "{:%Y-%m-%dT%H:%M:%S}.464Z: [netCorrelator] 842494494us:"
    return [f"{stamp.format(t)} [vob.net.vmnic.linkstate.{s}] vmnic {nic} linkstate {s}" for t, s in words]


def lines(driver, ago, seconds, text):
    at = (NOW - ago - BOOT).total_seconds()
    return [f"[{at + n * seconds:12.6f}] {driver} 0000:0b:00.0 rdma1: {text} {s}" for n, s in enumerate(("Down", "Up"))]


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("guest", "host", "witness"),
    [
        ([], vob(HOUR, 29), ""),
        ([], vob(HOUR, 31), "host"),
        ([], vob(3 * HOUR, 31), ""),
        ([], [x for n in (9, 6, 3) for x in vob(n * HOUR, 26)], "host"),
        ([], [x for n in (9, 6) for x in vob(n * HOUR, 26)], ""),
        ([], vob(HOUR, 300, "vmnic7"), ""),
        ([], vob(HOUR, 31)[:1], "host"),
        (lines("vmxnet3", HOUR, 45, "NIC Link is"), [], "guest"),
        (lines("mlx5_core", HOUR, 45, "Link"), [], "guest"),
        (lines("mlx5_core", HOUR, 45, "Link"), vob(HOUR, 45), "host"),
    ],
)
def test_outages(guest, host, witness):
    found = rows(seen(guest=guest, host=host))
    assert found == ([("flapping", "fail", witness, "rdma1 over vmnic1")] if witness else [])


def test_a_rail_that_is_down_or_was_found_in_a_log_is_named_once():
    observed = seen(host=vob(HOUR, 45))
    counted = {
        "before": (Reading(NOW - HOUR, "rdma1", {"carrier_changes": 2}),),
        "after": (Reading(NOW, "rdma1", {"carrier_changes": 40}),),
    }
    assert [r[0] for r in rows(replace(observed, **counted))] == ["flapping"]
    assert [r[0] for r in rows(replace(replace(healthy(), at=NOW), **counted))] == ["flapping"]
    down = replace(observed.guest, links=tuple(replace(link, state="DOWN") for link in observed.guest.links))
    assert [r[0] for r in rows(replace(observed, guest=down, **counted))] == ["rdma-link"]


def test_a_wrong_clock_of_the_host_is_named_and_its_times_are_corrected():
    """An XID of now in a log whose clock is three hours behind is no old one."""
    line = f"{NOW - 3 * HOUR:%Y-%m-%dT%H:%M:%S}Z NVRM: Xid (PCI:{PCI[:-2]}): 79, GPU has fallen off the bus."
    observed = replace(healthy(), at=NOW)
    behind = replace(observed, host=replace(observed.host, log=(line,), clock_ahead=-3 * 3600.0))
    (event,) = gpu_events(behind, NOW, 2.0)
    assert event.event.time is not None
    assert abs((event.event.time - NOW).total_seconds()) < 1
    assert gpu_events(replace(behind, host=replace(behind.host, clock_ahead=0.0)), NOW, 2.0) == ()
    assert ("host-clock", "warn", "host", "") in rows(behind)


@pytest.mark.parametrize(("number", "stays"), [(79, True), (54, True), (48, False), (119, False), (94, False)])
def test_an_error_before_the_restart_that_it_asked_for_is_over(number, stays):
    line = f"{NOW - HOUR:%Y-%m-%dT%H:%M:%S}Z NVRM: Xid (PCI:{PCI[:-2]}): {number}, text"
    observed = replace(healthy(), at=NOW)
    host = replace(observed.host, log=(line,))
    for uptime, boot, counts in ((90_000.0, None, True), (600.0, None, stays), (600.0, NOW - HOUR / 2, number == 54)):
        made = replace(observed, guest=replace(observed.guest, uptime=uptime), host=replace(host, booted=boot))
        about = list(xid_findings(gpu_events(made, NOW, 2.0), [made.node], NOW))
        assert bool(about) == counts, (uptime, boot)
        assert all(f.source == "host" for f in about)


def test_an_error_of_an_nvswitch_is_none_of_a_gpu():
    line = "[89990.0] nvidia-nvswitch2: SXid (PCI:0000:85:00.0): {}, {}, Link 33 error"
    for number, severity, verdict in ((11012, "Non-fatal", "info"), (20034, "Fatal", "fail")):
        made = seen(guest=[line.format(number, severity)])
        (one,) = xid_findings(gpu_events(made, NOW, 2.0), [made.node], NOW)
        assert (one.verdict, one.target.part) == (verdict, "NVSwitch 0000:85:00.0")


def test_lines_that_no_healthy_vm_has():
    observed = seen()
    profile = HealthProfile(kernel_log=learned(observed.node, observed.guest).kernel_log)
    assert profile.kernel_log == (normal(observed.guest.kernel[0]),)
    assert rows(seen(guest=["[ 9.1] Linux version 5.15"]), profile) == []
    assert rows(seen(guest=["[ 9.1] docker0: port 1 entered forwarding state"]), profile) == [
        ("kernel-log", "info", "guest", "")
    ]
    assert rows(seen(guest=["[ 9.1] mce: [Hardware Error]: Machine check events logged"]), profile) == [
        ("kernel-log", "warn", "guest", "")
    ]
    fatal = "[89990.0] mlx5_core 0000:3b:00.0: unrecoverable hardware error"
    assert [r[:2] for r in rows(seen(guest=[fatal]), profile)] == [("nic-log", "fail")], "once"


@pytest.mark.parametrize(
    "line",
    ["", "down", "[x] [vob.net.vmnic.linkstate.down] vmnic vmnic1", "[ 1.0] vmxnet3 0000:0b:00.0 ens1: NIC Link is Up"],
)
def test_lines_without_a_time_or_a_beginning_are_no_outage(line):
    assert all(not own for own in outages_in([line], BOOT).values())


def test_numbers_of_a_profile_have_a_limit_and_a_side():
    observed = replace(healthy(), at=NOW)
    slow = replace(observed, guest=replace(observed.guest, rates={"roces0f1/1": 25.0}))
    profile = HealthProfile(numbers={"rail_speed": HealthyNumber(typical=100)})
    assert rows(observed, profile) == []
    assert [r[:2] for r in rows(slow, profile)] == [("rail-speed", "fail")]
    hot = replace(observed.host.gpus[PCI], measures={"temperature.gpu": 80.0})
    warm = replace(observed, host=replace(observed.host, gpus={PCI: hot}))
    assert rows(warm, HealthProfile(numbers={"gpu_temperature": HealthyNumber(typical=40, spread=2)})) == [
        ("gpu-temperature", "warn", "host", f"GPU {PCI}")
    ]
    assert MEASURES["gpu_temperature"].limit(HealthyNumber(typical=40, spread=5)) == 60
    with pytest.raises(ValueError, match="no number"):
        HealthProfile(numbers={"speed": HealthyNumber(typical=1)})


def test_a_check_on_trial_is_shown_and_does_not_count():
    observed = seen(host=vob(HOUR, 45))
    health = judge(observed, HealthProfile(shadow=("flapping",)))
    assert health.verdict == "info"
    assert [(f.rule, f.verdict, f.evidence) for f in health.findings] == [("flapping", "info", (("on trial", "fail"),))]
