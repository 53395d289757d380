"""History of health, learning from a set, and findings about the estate: on VMs as both witnesses show them."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from support.healthy_vms import NOW, PCI, healthy

from vsphere_ai.app.training.health.checked import HealthResult
from vsphere_ai.app.training.health.history import HealthHistory, last_checks
from vsphere_ai.app.training.health.learn import of_observed
from vsphere_ai.errors import UsageError
from vsphere_ai.health.checks import gpu_events, judge, xid_findings
from vsphere_ai.health.counters import readings_of
from vsphere_ai.health.estate import shared
from vsphere_ai.health.finding import COMMON, STEP, evidence_of
from vsphere_ai.health.kernel.kernel_log import KernelEvent
from vsphere_ai.health.kernel.xid_rules import GpuEvent
from vsphere_ai.health.profile import HealthProfile


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))


def event(gpu, number, ago, *, boot=0, place="", uuid="", vm="v"):
    return GpuEvent(gpu, KernelEvent("xid", "", number=number, time=NOW - ago, place=place), vm, boot, uuid=uuid)


def test_checks_at_the_same_time_lose_nothing():
    """Each began before any other wrote."""
    histories = [HealthHistory("vc") for _ in range(24)]
    vms = [healthy(n) for n in range(24)]

    def keep(n):
        counted = replace(vms[n], after=readings_of({"/sys/class/net/rdma1/carrier_changes": n}, NOW))
        guest = replace(counted.guest, counters={"/sys/class/net/rdma1/carrier_changes": n})
        histories[n].keep([replace(counted, guest=guest)], [event(f"esx {n}", 79, timedelta(hours=1))], NOW, {})

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(keep, range(24)))
    later = HealthHistory("vc")
    assert {e.gpu for e in later.before([])} == {f"esx {n}" for n in range(24)}
    after = NOW + timedelta(seconds=60)
    values = [later.readings(o.node.vm, 90_000.0, after)[0].values["carrier_changes"] for o in vms]
    assert values == list(range(24))
    assert HealthHistory("other").before([]) == []


def test_the_record_has_what_the_last_check_saw():
    """First its GPU fails; then the VM is another one, on another GPU, and the next check sees nothing."""
    vm = healthy(1)
    for new, xids in (([event(f"esx001 {PCI}", 79, timedelta(0), vm=vm.node.vm)], (79,)), ([], ())):
        later = NOW + timedelta(seconds=60 * (not new))
        counted = replace(vm, after=readings_of({"/sys/class/net/rdma1/carrier_changes": 1}, later))
        HealthHistory("vc").keep([counted], new, later, {})
        assert last_checks("vc")[vm.node.vm].xids == xids
    assert HealthHistory("vc").before([]), "it is kept for what repeats"


def test_an_error_of_before_counts_for_what_repeats_only():
    history = HealthHistory("vc")
    where = f"esx001 {PCI}"
    history.keep([], [event(where, 79, timedelta(hours=5))], NOW, {})
    node = healthy(1).node
    assert list(xid_findings(HealthHistory("vc").before([]), [node], NOW)) == []
    new = [event(where, 13, timedelta(minutes=1), place="GPC 1, TPC 2")]
    history.keep([], [event(where, 13, timedelta(hours=9), place="GPC 1, TPC 2")], NOW, {})
    (found,) = xid_findings([*HealthHistory("vc").before(new), *new], [node], NOW)
    assert (found.verdict, evidence_of(found, STEP)) == ("fail", "service_required")
    assert list(xid_findings(HealthHistory("vc").before(new), [node], NOW - timedelta(days=1))) == []


def test_restarts_are_counted_though_boot_times_waver_and_a_replaced_gpu_begins_anew():
    where, boots = f"esx001 {PCI}", [1_000_000, 1_000_020, 1_090_000, 1_180_000]
    for n, boot in enumerate(boots):
        HealthHistory("vc").keep([], [event(where, 95, timedelta(hours=40 - 10 * n), boot=boot, uuid="GPU-a")], NOW, {})
    new = [event(where, 95, timedelta(minutes=1), boot=boots[-1], uuid="GPU-a")]
    (found,) = xid_findings([*HealthHistory("vc").before(new), *new], [healthy(1).node], NOW)
    assert "came back after 2 restarts" in found.message
    other = [replace(new[0], uuid="GPU-b")]
    (found,) = xid_findings([*HealthHistory("vc").before(other), *other], [healthy(1).node], NOW)
    assert "came back" not in found.message


def test_idle_begins_anew_after_work():
    later = [NOW + timedelta(hours=n) for n in range(4)]
    for when, busy in zip(later, (False, False, True, False), strict=True):
        HealthHistory("vc").keep([], [], when, {"v": busy})
        since = HealthHistory("vc").idle_since("v")
        assert since == {0: NOW, 1: NOW, 2: None, 3: later[3]}[later.index(when)]


# -- learning


def test_a_profile_of_a_set_leaves_out_what_differs_and_keeps_the_spread():
    chance = random.Random(7)
    vms = []
    for n in range(20):
        made = replace(healthy(n), at=NOW)
        gpu = replace(
            made.host.gpus[PCI], measures={"temperature.gpu": 40 + chance.gauss(0, 1), "clocks.max.sm": 1410.0}
        )
        vms.append(replace(made, host=replace(made.host, gpus={PCI: gpu})))
    vms[3] = replace(vms[3], guest=replace(vms[3].guest, packages={"torch": "1.0"}))
    vms[4] = replace(vms[4], host=replace(vms[4].host, gpus={PCI: replace(vms[4].host.gpus[PCI], ecc_uncorrected=2)}))
    slow = replace(vms[5].host.gpus[PCI], measures={"temperature.gpu": 41.0, "clocks.max.sm": 1000.0})
    vms[5] = replace(vms[5], host=replace(vms[5].host, gpus={PCI: slow}))
    learned = of_observed(vms)
    assert set(learned.left_out) == {"trn-0003", "trn-0004"}
    clock, heat = learned.profile.numbers["gpu_clock"], learned.profile.numbers["gpu_temperature"]
    assert (clock.typical, clock.spread, clock.vms) == (1410, 0, 17), "without the slow one"
    assert 0.4 < heat.spread < 2
    found = {vm.node.vm: {f.rule for f in judge(vm, learned.profile).findings} for vm in vms}
    assert {vm: checks for vm, checks in found.items() if checks} == {
        "trn-0003": {"versions"}, "trn-0004": {"ecc"}, "trn-0005": {"gpu-clock"},
    }  # fmt: skip
    again = HealthProfile.model_validate(learned.profile.model_dump())
    assert again == learned.profile


def test_a_fault_that_all_share_is_not_learned():
    bad = []
    for n in range(6):
        made = healthy(n)
        bad.append(replace(made, host=replace(made.host, gpus={PCI: replace(made.host.gpus[PCI], ecc_uncorrected=2)})))
    with pytest.raises(UsageError) as refused:
        of_observed(bad)
    assert refused.value.rule == "health.learn"
    two = [healthy(1), replace(healthy(2), guest=replace(healthy(2).guest, cuda="13.0"))]
    with pytest.raises(UsageError, match="differ in cuda"):
        of_observed(two)


# -- the estate


def judged(count, failing, *, hosts=250, skip=()):
    vms = []
    for n in range(count):
        made = healthy(n)
        made = replace(made, node=replace(made.node, host=f"esx{n % hosts:03d}"))
        if n < failing:
            made = replace(made, guest=replace(made.guest, failures={"kernel": "not allowed"}))
        vms.append(judge(made, HealthProfile(skip=skip)))
    return vms


@pytest.mark.parametrize(
    ("count", "failing", "hosts", "common"),
    [
        (10, 6, 250, True),
        (10, 5, 250, False),
        (4, 2, 250, False),
        (4, 3, 250, True),
        (10, 10, 1, False),
        (100, 51, 9, True),
    ],
)
def test_what_most_vms_have_is_one_finding_and_accuses_none(count, failing, hosts, common):
    vms, estate = shared(judged(count, failing, hosts=hosts), 0.5)
    assert len(estate) == common
    said = [f for vm in vms for f in vm.findings]
    assert all(bool(evidence_of(f, COMMON)) == common and f.verdict == "unknown" for f in said)
    assert len(said) == failing, "a VM with it is not said to be well"
    assert shared(judged(count, failing, hosts=hosts), 1.0)[1] == ()


def test_what_one_vm_has_beside_it_is_its_own():
    vms = judged(10, 9)
    one = replace(healthy(0), error="no address")
    vms[0] = judge(one, HealthProfile())
    found, (about,) = shared(vms, 0.5)
    assert about.rule == "kernel-log"
    assert [(f.rule, evidence_of(f, COMMON)) for f in found[0].findings] == [("ssh", "")]


def test_what_only_the_log_of_the_host_has_is_its_finding():
    line = f"{NOW - timedelta(minutes=5):%Y-%m-%dT%H:%M:%S}Z NVRM: Xid (PCI:{PCI[:-2]}): 48, DBE"
    made = healthy(1)
    made = replace(made, host=replace(made.host, log=(line,)))
    (found,) = xid_findings(gpu_events(made, NOW, 2.0), [made.node], NOW)
    assert (found.source, evidence_of(found, STEP)) == ("host", "reset_gpu")


def test_a_vm_with_a_common_cause_is_named_once():
    result = HealthResult("vc", *shared(judged(10, 9), 0.5))
    about, *own = result.findings
    assert [(path, text) for path, text in about.evidence if "not allowed" in text], "the VMs are named as evidence"
    assert [(f.target.name, f.verdict) for f in own] == [(result.vms[9].node.vm, "pass")]
    assert {vm.verdict for vm in result.vms[:9]} == {"unknown"}, "none of them is said to be well"
