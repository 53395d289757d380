"""vCenter's own read-only checks: what is asked, and how the answers are shown."""

from __future__ import annotations

import pytest
from support.estates import ESX1, ESX2, estate, guest, host, made, vm, wants
from support.missions import DESIRED, PROFILE, plain_farm

from vsphere_ai import checks
from vsphere_ai.checks import with_answers
from vsphere_ai.errors import Unreachable
from vsphere_ai.facts import Facts
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


def test_the_reconfigure_and_the_power_on_of_a_vm_are_asked_for():
    plan, of = small()
    answered, calls = asked(plan, of)
    assert calls == [("CheckVmConfig_Task", vm(1).ref, ESX1.ref), ("CheckPowerOn_Task", vm(1).ref, ESX1.ref)]
    assert [(a.check, a.faults, a.warnings, a.note) for a in answered.answers] == [
        ("CheckVmConfig", (), (), ""),
        ("CheckPowerOn", (), (), ""),
    ]


def test_the_spec_that_is_checked_is_the_one_that_is_sent():
    of = plain_farm()
    plan = made(of, DESIRED)
    checker = Checker()
    with_answers(plan, checker, of)
    seen = list(checker.specs.values())
    devices = [c["device"]["_typeName"] for c in seen[0]["deviceChange"]]
    assert devices == ["VirtualPCIPassthrough", "VirtualVmxnet3Vrdma"]
    assert seen[0]["deviceChange"][0]["device"]["backing"]["vgpu"] == PROFILE


def test_power_on_is_not_asked_where_this_plan_changes_the_host():
    of = plain_farm()
    _, calls = asked(made(of, DESIRED), of)
    assert {method for method, _, _ in calls} == {"CheckVmConfig_Task"}
    assert len(calls) == 4
    assert {h for _, _, h in calls} == {ESX1.ref, ESX2.ref}


def test_faults_and_warnings_are_worded():
    result = {
        "error": ({"_typeName": "GenericVmConfigFault", "msg": "no such profile", "reason": "r"},),
        "warning": ({"localizedMessage": "old Tools"}, {"reason": "odd"}, {"_typeName": "MissingFault"}, "text"),
    }
    plan, of = small()
    first, second = asked(plan, of, results=(result,))[0].answers
    assert first.faults == second.faults == ("no such profile",)
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
    monkeypatch.setattr(checks, "MOST", 3)
    of = plain_farm()
    answered, calls = asked(made(of, DESIRED), of)
    assert len(calls) == 3
    assert answered.answers[-1].note == "only the first 3 checks were asked"


def test_tasks_are_followed_together_until_they_end():
    of = plain_farm()
    checker = Checker(states=["running", "running", "success"])
    answered = with_answers(made(of, DESIRED), checker, of)
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
    monkeypatch.setattr(checks, "TIMEOUT", 0.3)
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
