"""vCenter's own read-only checks: what is asked, and how the answers are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estates import ESX1, ESX2, estate, guest, host, made, vm, wants
from support.missions import DESIRED, PROFILE, VMS, finished_farm

from vsphere_ai.errors import Unreachable
from vsphere_ai.execution import vcenter_checks
from vsphere_ai.execution.vcenter_checks import with_answers
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.steps import Lifecycle, PowerOn
from vsphere_ai.planning.schedule import PlannedStep
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware

FULL = VmHardware(memory_reservation="full")


class Checker:
    """Answers every check with `results`, or raises; remembers what was asked."""

    def __init__(self, results=None, error=None, there=True, states=("success",)):
        self.asked, self.results, self.error, self.there = [], results, error, there
        self.states, self.specs, self.readings = list(states), {}, 0

    def service(self, name):
        assert name == "vmCompatibilityChecker"
        return "VirtualMachineCompatibilityChecker:1" if self.there else None

    def call(self, ref, method, args=None):
        self.asked.append((method, args["vm"], args["host"]))
        if method == "CheckVmConfig_Task":
            assert args["spec"]["_typeName"] == "VirtualMachineConfigSpec"
            assert "changeVersion" not in args["spec"]
        if self.error:
            raise self.error
        self.specs[f"Task:{len(self.asked)}"] = args.get("spec")
        return f"Task:{len(self.asked)}"

    def read_objects(self, refs, paths):
        self.readings += 1
        assert set(refs) <= self.specs.keys()
        states = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        ends = {"running": {}, "success": {"info.result": self.results},
                "error": {"info.error": {"localizedMessage": "not now"}}}  # fmt: skip
        return {r: Facts(r, {"info.state": states, **ends[states]}) for r in refs if states != "gone"}


def asked(plan, of, **more):
    checker = Checker(**more)
    return with_answers(plan, checker, of, parallel=1), checker.asked


def small():
    of = estate(host(ESX1), guest(vm(1), ESX1))
    return made(of, {vm(1): wants(FULL)}), of


def four():
    """Four VMs that get devices on hosts that are ready: no host is changed, no hardware upgraded."""
    of = finished_farm()
    bare = {v.ref: replace(of[v.ref], properties={**of[v.ref].properties, "config.hardware.device": ()}) for v in VMS}
    of = Estate(of.about, {**of.objects, **bare})
    return made(of, DESIRED), of


def test_the_reconfigure_of_a_vm_is_asked_for_and_not_the_power_on_of_one_that_is_on():
    plan, of = small()
    assert {p.step.action for p in plan.steps if isinstance(p.step, Lifecycle)} == {"power-off", "power-on"}
    answered, calls = asked(plan, of)
    assert calls == [("CheckVmConfig_Task", vm(1).ref, ESX1.ref)]
    assert [(a.check, a.faults, a.warnings, a.note) for a in answered.answers] == [("CheckVmConfig", (), (), "")]


@pytest.mark.parametrize(("power", "times"), [("poweredOn", 0), ("poweredOff", 1), ("suspended", 0)])
def test_the_power_on_of_a_vm_that_is_off_and_stays_as_it_is_is_asked_for(power, times):
    of = estate(host(ESX1), guest(vm(1), ESX1, runtime__powerState=power))
    start = PowerOn(target=vm(1), summary="power on")
    plan = replace(made(of, {}), steps=(PlannedStep("s001", start, ()),))
    assert asked(plan, of)[1] == [("CheckPowerOn_Task", vm(1).ref, ESX1.ref)] * times


def test_nothing_is_asked_that_this_plan_changes_first():
    of = estate(host(ESX1), host(ESX2), guest(vm(1), ESX1), guest(vm(2), ESX2, config__version="vmx-17"))
    upgrade = VmHardware(version=19, memory_reservation="full")
    wanted = {ESX1: wants(HostGraphics(default_type="shared_direct")), vm(1): wants(FULL), vm(2): wants(upgrade)}
    answered, calls = asked(made(of, wanted), of)
    assert calls == []
    assert {(a.target, a.note) for a in answered.answers} == {
        (vm(1), "not asked: this plan changes its host first"),
        (vm(2), "not asked: this plan upgrades the virtual hardware first"),
    }


def test_a_vm_with_a_problem_is_not_asked_about():
    of = estate(host(ESX1), guest(vm(1), ESX1, runtime__powerState="suspended"))
    plan = made(of, {vm(1): wants(FULL)})
    assert {p.rule for p in plan.problems} == {"vm.suspended"}
    assert asked(plan, of)[1] == []


def test_a_refusal_is_a_problem_of_the_plan():
    plan, of = small()
    assert plan.problems == ()
    result = {"error": ({"_typeName": "GenericVmConfigFault", "msg": "no such profile"},)}
    (problem,) = asked(plan, of, results=(result,))[0].problems
    assert (problem.target, problem.rule) == (vm(1), "vcenter.check")
    assert problem.message == "vCenter refuses to change its configuration: no such profile"
    assert asked(plan, of, results=({"warning": ({"msg": "old Tools"},)},))[0].problems == ()


@pytest.mark.parametrize(("power", "problems"), [("poweredOn", 0), ("poweredOff", 1)])
def test_the_power_state_of_a_vm_that_is_off_by_then_is_no_refusal(power, problems):
    of = estate(host(ESX1), guest(vm(1), ESX1, runtime__powerState=power))
    result = {"error": ({"_typeName": "InvalidPowerState", "msg": "(Powered on)"},)}
    answered, calls = asked(made(of, {vm(1): wants(FULL)}), of, results=(result,))
    assert (len(calls), len(answered.problems)) == (1, problems)


def test_the_spec_that_is_checked_is_the_one_that_is_sent():
    plan, of = four()
    checker = Checker()
    with_answers(plan, checker, of)
    seen = list(checker.specs.values())
    devices = [c["device"]["_typeName"] for c in seen[0]["deviceChange"]]
    assert devices == ["VirtualPCIPassthrough", "VirtualVmxnet3Vrdma"]
    assert seen[0]["deviceChange"][0]["device"]["backing"]["vgpu"] == PROFILE


def test_every_vm_is_asked_about_on_its_own_host():
    _, calls = asked(*four())
    assert {method for method, _, _ in calls} == {"CheckVmConfig_Task"}
    assert len(calls) == 4
    assert {h for _, _, h in calls} == {ESX1.ref, ESX2.ref}


def test_faults_and_warnings_are_worded():
    result = {
        "error": ({"_typeName": "GenericVmConfigFault", "msg": "no such profile", "reason": "r"},),
        "warning": ({"localizedMessage": "old Tools"}, {"reason": "odd"}, {"_typeName": "MissingFault"}, "text"),
    }
    plan, of = small()
    (first,) = asked(plan, of, results=(result,))[0].answers
    assert first.faults == ("no such profile",)
    assert first.warnings == ("old Tools", "odd", "MissingFault", "text")


def test_a_check_that_cannot_be_asked_is_a_note_not_a_failure():
    plan, of = small()
    answered, _ = asked(plan, of, error=Unreachable("timed out"))
    assert {a.note for a in answered.answers} == {"could not be asked: timed out"}
    assert {a.faults for a in answered.answers} == {()}


def test_nothing_is_asked_without_a_checker_or_without_steps():
    plan, of = small()
    assert asked(plan, of, there=False) == (plan, [])
    empty = made(of, {})
    assert asked(empty, of) == (empty, [])


def test_a_large_plan_asks_for_its_first_vms_only_and_says_so(monkeypatch):
    monkeypatch.setattr(vcenter_checks, "MOST", 3)
    answered, calls = asked(*four())
    assert len(calls) == 3
    assert answered.answers[-1].note == "only the first 3 checks were asked"


def test_tasks_are_followed_together_until_they_end():
    plan, of = four()
    checker = Checker(states=["running", "running", "success"])
    answered = with_answers(plan, checker, of)
    assert (len(checker.asked), checker.readings) == (4, 3)
    assert [a.target for a in answered.answers] == [vm(n) for n in (1, 2, 3, 4)]
    assert {a.note for a in answered.answers} == {""}


@pytest.mark.parametrize(
    ("states", "note"),
    [
        (["error"], "could not be asked: not now"),
        (["running", "gone"], "could not be asked: vCenter no longer knows the task"),
        (["running"], "could not be asked: no answer within 0.3 s"),
    ],
)
def test_a_task_that_does_not_end_well_says_why(states, note, monkeypatch):
    monkeypatch.setattr(vcenter_checks, "TIMEOUT", 0.3)
    plan, of = small()
    answered, _ = asked(plan, of, states=states)
    assert {a.note for a in answered.answers} == {note}


def test_a_vcenter_that_is_lost_while_its_tasks_are_followed_is_a_note():
    class Lost(Checker):
        def read_objects(self, refs, paths):
            raise Unreachable("gone")

    plan, of = small()
    answered = with_answers(plan, Lost(), of)
    assert {a.note for a in answered.answers} == {"could not be asked: gone"}
