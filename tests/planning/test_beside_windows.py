"""Power-ons while other hosts of a roll-out are out of service: what vSphere HA keeps free counts at that moment."""

from __future__ import annotations

import pytest
from support.estates import CLUSTER, DRS, ESX1, ESX2, estate, guest, host, made, vm, wants

from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import EnterMaintenance, Healthy, PowerOff, PowerOn
from vsphere_ai.report.plans.plan_text import plan_text
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.tuning import Tuning
from vsphere_ai.resources.vm_hardware import VmHardware

ESX3 = Target("host", "esx03.lab.local", "HostSystem:host-3")
DIRECT = HostGraphics(default_type="shared_direct")
GB, HOSTS = 1024, 3
TOGETHER = Rolling(evacuate="power_off", max_unavailable=2)
SYSTEM = {"systemResources__config__memoryAllocation__reservation": 1}


def farm(kept, *reserved):
    """Three hosts of 100 GB with one VM each, which reserves so many GB; HA keeps `kept` percent free."""
    whole = HOSTS * (100 * GB - 1)
    needs = sum(each * GB for each in reserved)
    policy = {
        "_typeName": "ClusterFailoverResourcesAdmissionControlPolicy",
        "cpuFailoverResourcesPercent": 1,
        "memoryFailoverResourcesPercent": kept,
    }
    das = {"enabled": True, "admissionControlEnabled": True, "admissionControlPolicy": policy}
    shown = {
        "currentMemoryFailoverResourcesPercent": int(100 - 100 * needs / whole),
        "currentCpuFailoverResourcesPercent": 99,
    }
    facts = {
        "configurationEx": {"dasConfig": das, "drsConfig": DRS},
        "summary.admissionControlInfo": shown,
        "summary.effectiveMemory": whole,
        "summary.effectiveCpu": HOSTS * 150_000,
    }
    homes = (ESX1, ESX2, ESX3)
    return estate(
        Facts(CLUSTER, {"name": "gpu-a", "parent": "Folder:group-h1", **facts}),
        *(host(h, hardware__memorySize=100 * GB << 20, **SYSTEM) for h in homes),
        *(
            guest(vm(n), home, config__memoryAllocation__reservation=each * GB,
                  config__initialOverhead__initialMemoryReservation=1 << 20)
            for n, (home, each) in enumerate(zip(homes, reserved, strict=True), 1)
        ),
    )  # fmt: skip


def at(plan, kind, target):
    return next(n for n, p in enumerate(plan.steps) if isinstance(p.step, kind) and p.step.target == target)


def waits_for(plan, later, earlier):
    """Whether a step comes after another one in every order in which they may be carried out."""
    ids = {p.id: p for p in plan.steps}
    todo, goal = [plan.steps[later].id], plan.steps[earlier].id
    while todo:
        known = ids[todo.pop()]
        if known.id == goal:
            return True
        todo += known.after
    return False


@pytest.mark.parametrize(("kept", "at_a_time"), [(30, 2), (40, 1)])
def test_hosts_go_one_after_the_other_where_ha_has_no_room_for_what_powers_on_beside_another(kept, at_a_time):
    """With one host out 130 of 200 GB are taken: 35 % are left; with all in service 170 of 300: 43 %."""
    wanted = wants(DIRECT, rolling=TOGETHER)
    plan = made(farm(kept, 40, 40, 90), {ESX1: wanted, ESX2: wanted})
    assert not plan.problems
    (roll,) = plan.impact.rolls
    assert roll.at_a_time == at_a_time
    apart = waits_for(plan, at(plan, EnterMaintenance, ESX2), at(plan, Healthy, ESX1))
    assert apart == (at_a_time == 1)
    shown = "1 host at a time, not 2: it could not power on again" in plan_text(plan, "")
    assert shown == (at_a_time == 1)


@pytest.mark.parametrize(("kept", "waits"), [(15, False), (40, True)])
def test_a_vm_on_another_host_is_changed_once_no_host_is_out_where_ha_has_no_room_before(kept, waits):
    """With one host out 160 of 200 GB are taken, its VM being off; with all in service 170 of 300."""
    wanted = {ESX1: wants(DIRECT, rolling=TOGETHER), vm(3): wants(Tuning(cpus=16))}
    plan = made(farm(kept, 10, 70, 90), wanted)
    assert not plan.problems
    assert waits_for(plan, at(plan, PowerOff, vm(3)), at(plan, Healthy, ESX1)) == waits
    assert at(plan, PowerOn, vm(3)) > at(plan, PowerOff, vm(3))


def test_what_ha_has_no_room_for_in_any_case_is_refused_as_such():
    plan = made(farm(60, 40, 40, 90), {vm(3): wants(Tuning(cpus=16)), ESX1: wants(DIRECT, rolling=TOGETHER)})
    assert {p.rule for p in plan.problems} == {"admission.ha"}
    assert not plan.impact.rolls[0].why


def grown(here, reserved_gb):
    """A plan in which DRS empties the first host while the VM of the second one is changed to reserve so much."""
    states = (Tuning(cpus=16), VmHardware(memory_reservation=reserved_gb * GB))
    return made(here, {ESX1: wants(DIRECT, rolling=Rolling(evacuate="vmotion")), vm(2): wants(*states)})


@pytest.mark.parametrize(("reserved_gb", "first"), [(30, False), (50, True)])
def test_a_vm_whose_memory_drs_could_take_while_it_is_off_is_changed_before_the_window(reserved_gb, first):
    """60 GB leave the first host: 90 of 100 are taken where the VM reserves 30; with 50 it finds no memory again."""
    plan = grown(farm(1, 60, 20, 10), reserved_gb)
    assert not plan.problems
    assert waits_for(plan, at(plan, EnterMaintenance, ESX1), at(plan, PowerOn, vm(2))) == first
    assert ("changed before the first window: DRS may move VMs" in plan_text(plan, "")) == first


def test_where_only_memory_of_a_vm_that_is_off_has_room_for_what_drs_moves_the_plan_is_refused():
    plan = grown(farm(1, 60, 20, 90), 50)
    assert {p.rule for p in plan.problems} == {"rolling.nowhere"}
    assert not grown(farm(1, 60, 20, 90), 30).problems
