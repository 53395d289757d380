"""The whole plan: deterministic, honest about what it disrupts, and empty when everything is in the desired state."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from support.estates import (
    ESX1,
    ESX2,
    ESX3,
    ON,
    PCI,
    estate,
    guest,
    host,
    made,
    smi,
    vgpu_device,
    vm,
    wants,
)
from support.judging import actions, plan_one, rules, steps_of, words
from support.missions import DESIRED, PROFILE, VMS, finished_farm, plain_farm

import vsphere_ai
from vsphere_ai.model.facts import Estate, ProbeFailure
from vsphere_ai.model.finding import by_target
from vsphere_ai.model.steps import Invoke, Reconfigure
from vsphere_ai.planning.document import digest
from vsphere_ai.planning.planner import check, make_plan, remaining, sort_kinds
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

# -- the mission


def test_one_reboot_per_host_and_one_power_cycle_and_one_task_per_vm():
    plan = made(plain_farm(), DESIRED)
    assert plan.problems == ()
    assert actions(plan, "reboot") == [ESX1, ESX2]
    assert actions(plan, "power-off") == actions(plan, "power-on") == list(VMS[:3])
    assert [p.step.target for p in plan.steps if isinstance(p.step, Reconfigure)] == list(VMS)
    assert plan.impact.reboots == plan.impact.maintenance == (ESX1, ESX2)
    assert plan.impact.power_cycles == VMS[:3]
    assert plan.impact.outside == ()


def test_every_target_that_is_changed_is_read_back():
    plan = made(plain_farm(), DESIRED)
    for target in (ESX1, ESX2, *VMS):
        assert words(steps_of(plan, target)).count("as-planned") == 1


def test_what_is_as_wanted_gives_an_empty_plan():
    plan = made(finished_farm(), DESIRED)
    assert not plan.steps
    assert not plan.problems
    assert plan.changed() == ()
    assert len(plan.items) == 2 * 3 + 4 * 3
    for target, wanted in DESIRED.items():
        assert remaining({target: wanted}, finished_farm(), kinds(), target) == ()


def test_reading_back_names_what_is_left():
    left = remaining(DESIRED, plain_farm(), kinds(), ESX1)
    assert {i.kind for i in left} == {"graphics", "mig", "pvrdma_host"}
    half = Estate(finished_farm().about, {**finished_farm().objects, ESX1.ref: host(ESX1, active="sharedDirect")})
    assert {i.kind for i in remaining(DESIRED, half, kinds(), ESX1)} == {"mig", "pvrdma_host"}


def test_a_farm_that_is_half_done_needs_the_other_half_only():
    done, plain = finished_farm(), plain_farm()
    objects = {**done.objects, ESX2.ref: plain[ESX2.ref], vm(3).ref: plain[vm(3).ref]}
    plan = made(Estate(done.about, objects), DESIRED)
    assert plan.problems == ()
    assert {p.step.target for p in plan.steps} == {ESX2, vm(3), vm(4)}
    assert words(steps_of(plan, vm(4))) == [
        "power-off",
        "power-on",
    ]  # in the desired state, but pinned to the host that reboots
    assert plan.impact.outside == ()


# -- determinism


def test_the_order_of_targets_states_and_facts_does_not_matter():
    reference = made(plain_farm(), DESIRED)
    for seed in range(5):
        mixed = random.Random(seed)
        targets = list(DESIRED)
        mixed.shuffle(targets)
        desired = {t: wants(*mixed.sample(DESIRED[t].states, len(DESIRED[t].states))) for t in targets}
        objects = list(plain_farm().objects.items())
        mixed.shuffle(objects)
        plan = made(Estate(plain_farm().about, dict(objects)), desired)
        assert plan.steps == reference.steps
        assert digest(plan) == digest(reference)


def test_the_digest_does_not_depend_on_hash_seeds():
    tests, package = Path(__file__).parents[1], Path(vsphere_ai.__file__).parents[1]
    code = (
        f"import sys; sys.path[:0] = [{str(tests)!r}, {str(package)!r}]\n"
        "from support.estates import made\nfrom support.missions import DESIRED, plain_farm\n"
        "from vsphere_ai.planning.document import digest\nprint(digest(made(plain_farm(), DESIRED)))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {digest(made(plain_farm(), DESIRED))}


def test_the_digest_says_when_something_else_would_be_done():
    reference = digest(made(plain_farm(), DESIRED))
    assert digest(made(plain_farm(), {ESX1: DESIRED[ESX1]})) != reference
    assert digest(made(finished_farm(), DESIRED)) != reference


# -- forces


def test_kinds_are_visited_after_those_they_look_at():
    order = sort_kinds(kinds())
    assert set(order) == set(kinds())
    for name, kind in kinds().items():
        assert all(order.index(earlier) < order.index(name) for earlier in kind.traits.after)


def test_a_problem_stops_its_own_steps_and_is_reported_with_all_others():
    desired = {
        ESX1: wants(Mig(layout=("3g.20gb",) * 3)),
        ESX2: wants(PvrdmaHost(vmknic="vmk9")),
        vm(1): wants(Vgpu(profiles=("grid_a100-99c",))),
    }
    plan = made(plain_farm(), desired)
    assert {("esx01", "mig.layout"), ("esx02", "pvrdma.vmknic-missing"), ("train-01", "vgpu.profile")} <= rules(plan)
    assert not any(isinstance(p.step, Reconfigure | Invoke) for p in plan.steps)
    assert plan.steps or plan.problems


def test_problems_come_in_a_stable_order_and_once():
    plan = made(plain_farm(), {h: wants(Mig(layout=("3g.20gb",) * 3)) for h in (ESX2, ESX1)})
    assert list(plan.problems) == sorted(set(plan.problems), key=by_target)


def test_a_failed_compatibility_rule_refuses_the_plan():
    old = {"config__product": {"version": "6.7.0", "build": "1"}, "summary__config__product": {"version": "6.7.0"}}
    plan = plan_one(estate(host(ESX1, **old)), ESX1, Mig(mode="enabled"))
    assert any(rule.startswith("esxi.") for _, rule in rules(plan))


def test_what_stays_as_it_is_needs_no_gate():
    done = finished_farm()
    old = host(ESX3, summary__config__product={"version": "6.7.0", "build": "1"}, active="sharedDirect")
    plan = made(Estate(done.about, {**done.objects, ESX3.ref: old}),
                {ESX3: wants(HostGraphics(default_type="shared_direct"))})  # fmt: skip
    assert not plan.steps
    assert not plan.problems
    assert plan.findings == ()


def test_check_looks_at_everything_a_playbook_is_about_changing_or_not():
    findings = check(DESIRED, finished_farm(), kinds())
    assert {f.target for f in findings if f.target} == {ESX1, ESX2, *VMS}


def test_ssh_that_does_not_answer_refuses_the_plan():
    failed = ProbeFailure("ssh.lockdown", "the host is in lockdown mode", "leave lockdown mode")
    plan = plan_one(estate(host(ESX1, probes=dict.fromkeys(smi({}), failed))), ESX1, Mig(mode="enabled"))
    assert ("esx01", "ssh.lockdown") in rules(plan)
    assert plan.steps == ()


@pytest.mark.parametrize("farm", [plain_farm, finished_farm])
@pytest.mark.parametrize(
    ("hardware", "found"),
    [
        (VmHardware(memory_reservation=1024), {"vgpu.memory", "pvrdma.memory"}),
        (VmHardware(memory_reservation="full", firmware="efi"), set()),
        (VmHardware(firmware="bios"), {"vgpu.firmware"}),
        (VmHardware(version=19), set()),
    ],
)
def test_settings_of_one_vm_that_would_undo_each_other_are_refused(farm, hardware, found):
    plan = made(farm(), {**DESIRED, vm(1): wants(hardware, *DESIRED[vm(1)].states[1:])})
    assert {r for n, r in rules(plan) if n == vm(1).name} == found


# -- VMs that could not come back


def with_vm(profile, power="poweredOn", modes=None):
    devices = (vgpu_device(13000, profile),)
    listed = ("grid_a100-10c",) if modes is None else (PROFILE,)
    more = {} if modes is None else {"probes": smi(dict.fromkeys(PCI, modes))}
    return estate(
        host(ESX1, active="sharedDirect", config__sharedPassthruGpuTypes=listed, **more),
        guest(vm(1), ESX1, config__hardware__device=devices, runtime__powerState=power),
    )


@pytest.mark.parametrize(
    ("mode", "profile", "modes", "power", "stranded"),
    [
        ("enabled", "grid_a100-10c", None, "poweredOn", True),
        ("enabled", "grid_a100-10c", None, "poweredOff", False),
        ("disabled", PROFILE, ON, "poweredOn", True),
        ("disabled", PROFILE, ON, "poweredOff", False),
    ],
)
def test_a_vm_that_could_not_power_on_again_is_not_switched_off(mode, profile, modes, power, stranded):
    plan = plan_one(with_vm(profile, power, modes), ESX1, Mig(mode=mode))
    assert rules(plan) == ({(vm(1).name, "power.stranded")} if stranded else set())


def test_a_vm_that_gets_another_profile_in_the_same_plan_comes_back():
    desired = {ESX1: wants(Mig(mode="enabled")), vm(1): wants(Vgpu(profiles=(PROFILE,)))}
    plan = made(with_vm("grid_a100-10c"), desired)
    assert plan.problems == ()
    assert words(steps_of(plan, vm(1))) == ["power-off", "reconfigure", "as-planned", "power-on"]


# -- the estate


def test_a_plan_names_its_playbook_and_vcenter():
    plan = make_plan(DESIRED, plain_farm(), kinds(), "ai-ready.yml")
    assert (plan.playbook, plan.about.api) == ("ai-ready.yml", "7.0.2.0")


def test_nothing_wanted_is_an_empty_plan():
    plan = made(plain_farm(), {})
    assert not plan.steps
    assert not plan.problems


def test_of_a_host_without_a_connection_nothing_else_is_said():
    gone = {"runtime__connectionState": "notResponding", "config__graphicsInfo": (), "hardware__pciDevice": ()}
    wanted = wants(HostGraphics(default_type="shared_direct"), Mig(mode="enabled"))
    plan = made(estate(host(ESX1, probes={}, **gone), host(ESX2)), {ESX1: wanted, ESX2: wanted})
    assert [p.rule for p in plan.problems if p.target == ESX1] == ["host.connected"]
    there = {p.rule for p in made(estate(host(ESX1, probes={}, config__graphicsInfo=())), {ESX1: wanted}).problems}
    assert len(there) > 1
    assert "host.connected" not in there
