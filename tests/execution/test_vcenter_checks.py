"""vCenter's own read-only checks: what is asked, and how the answers are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estates import ESX1, ESX2, ESX3, estate, guest, host, made, vm, wants
from support.missions import DESIRED, PROFILE, VMS, finished_farm

from vsphere_ai.admission.admit import every_requirement
from vsphere_ai.admission.oracles import ORACLES
from vsphere_ai.app.project.explanations import explain
from vsphere_ai.connect.wire.plain import privilege_of
from vsphere_ai.errors import Denied, Unreachable
from vsphere_ai.execution import vcenter_checks
from vsphere_ai.execution.vcenter_checks import with_answers
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.steps import EnterMaintenance, Lifecycle, Migrate, PowerOn
from vsphere_ai.planning.check_privileges import for_checks
from vsphere_ai.planning.moves.rolling import Roll
from vsphere_ai.planning.scheduling.schedule import Impact
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware

CHECKER = "vmCompatibilityChecker"
FULL = VmHardware(memory_reservation="full")


class Checker:
    """Answers every check with `results`, or raises; remembers what was asked."""

    def __init__(self, results=None, error=None, there=True, states=("success",)):
        self.asked, self.results, self.error, self.there = [], results, error, there
        self.states, self.specs, self.readings = list(states), {}, 0

    def service(self, name):
        assert name in (CHECKER, "vmProvisioningChecker")
        return "VirtualMachineCompatibilityChecker:1" if self.there else None

    def call(self, ref, method, args=None):
        self.asked.append((method, args.get("vm", ref), args["host"]))
        if method == "ClusterEnterMaintenanceMode":
            if self.error:
                raise self.error
            return self.results
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


def remarks(plan):
    found = [f for f in plan.findings if f.rule in ("vcenter.admits", "vcenter.unanswered")]
    return [(f.target.name if f.target else "", f.rule, f.message) for f in found]


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
        (vm(1), "skipped: this plan changes its host first"),
        (vm(2), "skipped: this plan upgrades the virtual hardware first"),
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


def test_nothing_is_asked_without_steps():
    plan = made(small()[1], {})
    assert asked(plan, small()[1]) == (plan, [])


def test_a_vcenter_without_a_checker_is_a_remark():
    plan, of = small()
    answered, calls = asked(plan, of, there=False)
    assert calls == []
    assert remarks(answered) == [
        ("", "vcenter.unanswered", "CheckVmConfig gave no answer about train-01: this vCenter has no " + CHECKER)
    ]


def test_a_large_plan_asks_for_its_first_vms_only_and_says_so(monkeypatch):
    monkeypatch.setattr(vcenter_checks, "MOST", 3)
    answered, calls = asked(*four())
    assert len(calls) == 3
    assert answered.answers[-1].note == "only the first 3 checks were asked"
    ((_, rule, message),) = remarks(answered)
    assert (rule, message) == (
        "vcenter.unanswered", "CheckVmConfig gave no answer about train-04: only the first 3 checks were asked"
    )  # fmt: skip


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


# -- power-on, beside the requirements


def power_on(**more):
    """A VM that is off and powers on as it is, on a host with 128 threads."""
    of = estate(host(ESX1), guest(vm(1), ESX1, runtime__powerState="poweredOff", **more))
    plan = replace(made(of, {}), steps=(PlannedStep("s001", PowerOn(target=vm(1), summary="power on"), ()),))
    return plan, of


def fault(name):
    return ({"error": ({"_typeName": name, "msg": "as it is"},)},)


def refused_by(plan, rule, message="no"):
    return replace(plan, problems=(Finding.problem(vm(1), rule, message, ""),))


def test_a_fault_that_nothing_foresees_refuses_the_plan_and_says_so():
    plan, of = power_on()
    answered, _ = asked(plan, of, results=fault("VmHostAffinityRuleViolation"))
    (problem,) = answered.problems
    assert (problem.target, problem.rule) == (vm(1), "vcenter.check")
    assert problem.message == (
        "vCenter refuses to power it on on esx01: as it is (VmHostAffinityRuleViolation); "
        "what was read does not show why"
    )


def test_a_fault_that_a_requirement_of_the_plan_foresees_is_no_difference():
    plan, of = power_on(config__hardware__numCPU=200)
    answered, calls = asked(refused_by(plan, "admission.vcpus"), of, results=fault("NotEnoughLogicalCpus"))
    assert len(calls) == 1, "what a requirement refuses is asked about"
    assert [p.rule for p in answered.problems] == ["admission.vcpus"]
    assert remarks(answered) == []


def test_another_fault_beside_that_of_a_requirement_is_a_problem_too():
    plan, of = power_on(config__hardware__numCPU=200)
    answered, _ = asked(refused_by(plan, "admission.vcpus"), of, results=fault("FeatureRequirementsNotMet"))
    assert [p.rule for p in answered.problems] == ["admission.vcpus", "vcenter.check"]


def test_a_fault_of_things_as_they_stand_that_the_plan_removes_first_is_no_difference():
    plan, of = power_on(config__hardware__numCPU=200)  # no requirement refuses the plan, which changes that before
    answered, _ = asked(plan, of, results=fault("NotEnoughLogicalCpus"))
    assert (answered.problems, remarks(answered)) == ((), [])
    assert answered.answers[0].faults == ("as it is",), "it is shown all the same"


def test_a_yes_to_what_a_requirement_refuses_is_a_remark_and_the_refusal_stands():
    plan, of = power_on(config__hardware__numCPU=200)
    answered, _ = asked(refused_by(plan, "admission.vcpus"), of, results=({},))
    assert [p.rule for p in answered.problems] == ["admission.vcpus"]
    ((name, rule, message),) = remarks(answered)
    assert (name, rule) == ("train-01", "vcenter.admits")
    assert message.startswith("vCenter would power it on on esx01, and what was read refuses it: ")
    assert "200" in message


@pytest.mark.parametrize(
    ("rule", "cpus"),
    [("admission.vm-rule", 200), ("admission.vcpus", 8)],
    ids=["what no test of the check is about", "what only the plan's other steps make impossible"],
)
def test_a_yes_that_says_nothing_of_the_reason_is_no_remark(rule, cpus):
    plan, of = power_on(config__hardware__numCPU=cpus)
    answered, _ = asked(refused_by(plan, rule), of, results=({},))
    assert remarks(answered) == []
    assert len(answered.problems) == 1


# -- moves and evacuations


def rolling(evacuate="vmotion", at_a_time=1, off=()):
    """Two hosts that enter maintenance mode one after the other, each with a VM that DRS moves."""
    of = estate(host(ESX1), host(ESX2), host(ESX3), guest(vm(1), ESX1), guest(vm(2), ESX2))
    roll = Roll("a", ((ESX1, ESX2),), at_a_time, members=(ESX1, ESX2, ESX3))
    enter = [EnterMaintenance(target=h, summary="enter", timeout=10, evacuate=evacuate) for h in (ESX1, ESX2)]
    steps = tuple(PlannedStep(f"s{n}", step, ()) for n, step in enumerate(enter))
    impact = Impact(moves=(vm(1), vm(2)), rolls=(roll,), maintenance=(ESX1, ESX2), power_cycles=off)
    return replace(made(of, {}), steps=steps, impact=impact), of


def emptied(*hosts):
    return tuple({"action": ({"type": "HostMaintenanceV1", "target": h.ref},)} for h in hosts)


def kept(*vms, name="DrsDisabledOnVm"):
    return {"faultsByVm": tuple({"vm": v.ref, "fault": ({"_typeName": name, "msg": "kept"},)} for v in vms)}


ALONE = [("ClusterEnterMaintenanceMode", "ClusterComputeResource:domain-c1", (h.ref,)) for h in (ESX1, ESX2)]


def test_a_dry_run_is_asked_for_the_hosts_that_are_out_together():
    assert asked(*rolling(), results={"recommendations": emptied(ESX1, ESX2)})[1] == ALONE
    both = asked(*rolling(at_a_time=2), results={"recommendations": emptied(ESX1, ESX2)})[1]
    assert [hosts for _, _, hosts in both] == [(ESX1.ref, ESX2.ref)]
    assert asked(*rolling("power_off"))[1] == []


def test_dry_runs_take_no_place_of_the_checks(monkeypatch):
    monkeypatch.setattr(vcenter_checks, "MOST", 1)
    plan, of = rolling()
    of = estate(*of.objects.values(), guest(vm(3), ESX3, runtime__powerState="poweredOff"))
    start = PlannedStep("s9", PowerOn(target=vm(3), summary="power on"), ())
    calls = asked(replace(plan, steps=(*plan.steps, start)), of, results=())[1]
    assert [method for method, _, _ in calls] == ["ClusterEnterMaintenanceMode", "CheckPowerOn_Task"]


def test_hosts_that_vcenter_would_empty_are_no_difference():
    answered, _ = asked(*rolling(at_a_time=2), results={"recommendations": emptied(ESX1, ESX2)})
    assert (answered.problems, remarks(answered)) == ((), [])
    assert [(a.target, a.check) for a in answered.answers] == [
        (v, "ClusterEnterMaintenanceMode") for v in (vm(1), vm(2))
    ]


def test_a_vm_that_keeps_its_host_from_maintenance_refuses_the_plan():
    results = {"recommendations": emptied(ESX1), "fault": kept(vm(2))}
    (problem,) = asked(*rolling(at_a_time=2), results=results)[0].problems
    assert (problem.target, problem.rule) == (vm(2), "vcenter.check")
    assert "off its host for maintenance mode on esx02: kept (DrsDisabledOnVm)" in problem.message


def test_a_vm_that_is_not_moved_may_keep_a_host_as_well():
    plan, of = rolling()
    of = estate(*of.objects.values(), guest(vm(3), ESX1))
    results = {"recommendations": emptied(ESX2), "fault": kept(vm(3))}
    assert {(p.target, p.rule) for p in asked(plan, of, results=results)[0].problems} == {(vm(3), "vcenter.check")}


def test_a_dry_run_that_counts_vms_which_are_off_by_then_decides_nothing():
    answered, _ = asked(*rolling(at_a_time=2, off=(vm(2),)), results={"fault": kept(vm(1))})
    assert answered.problems == ()
    (first, *_) = remarks(answered)
    assert first[1] == "vcenter.unanswered"
    assert "train-01: kept (DrsDisabledOnVm); it counts train-02 as now" in first[2]


@pytest.mark.parametrize("more", [{"results": {}}, {"error": Denied("no permission: Host.Config.Maintenance")}])
def test_a_dry_run_without_an_answer_is_a_remark_and_no_yes(more):
    plan, of = rolling(at_a_time=2)
    nowhere = refused_by(plan, "rolling.nowhere")
    answered, _ = asked(nowhere, of, **more)
    assert [p.rule for p in answered.problems] == ["rolling.nowhere"]
    assert {rule for _, rule, _ in remarks(answered)} == {"vcenter.unanswered"}
    assert len(remarks(answered)) == 1, "said once"


def test_a_host_that_vcenter_would_empty_and_the_plan_not_is_a_remark():
    plan, of = rolling(at_a_time=2)
    answered, _ = asked(refused_by(plan, "rolling.nowhere"), of, results={"recommendations": emptied(ESX1, ESX2)})
    assert [(name, rule) for name, rule, _ in remarks(answered)] == [("train-01", "vcenter.admits")]
    later = refused_by(rolling()[0], "rolling.nowhere")
    later = replace(later, problems=(replace(later.problems[0], target=vm(2)),))
    assert remarks(asked(later, of, results={"recommendations": emptied(ESX1, ESX2)})[0]) == [], "moves come before"


def test_moves_of_the_run_are_asked_about_from_where_the_vm_is():
    of = estate(host(ESX1), host(ESX2), host(ESX3), guest(vm(1), ESX1), guest(vm(2), ESX2))

    def migrate(number, source, to):
        return Migrate(target=vm(number), summary="move", source=source.ref, to=to.ref, timeout=10)

    reboot = EnterMaintenance(target=ESX1, summary="enter", timeout=10)
    steps = [migrate(1, ESX1, ESX2), reboot, migrate(1, ESX2, ESX3), migrate(2, ESX2, ESX1)]
    plan = replace(made(of, {}), steps=tuple(PlannedStep(f"s{n}", s, ()) for n, s in enumerate(steps)))
    answered, calls = asked(plan, of, results=fault("CannotUseNetwork"))
    assert calls == [("CheckMigrate_Task", vm(1).ref, ESX2.ref)]
    assert [(p.target, p.rule) for p in answered.problems] == [(vm(1), "vcenter.check")]
    assert "to move it on esx02: as it is (CannotUseNetwork)" in answered.problems[0].message
    assert [a.note for a in answered.answers][1:] == ["skipped: this plan changes it or one of the hosts first"] * 2


def test_equal_questions_are_asked_once():
    plan, of = power_on()
    plan = replace(plan, steps=(*plan.steps, replace(plan.steps[0], id="s002")))
    answered, calls = asked(plan, of)
    assert len(calls) == 1
    assert len({(a.target, a.check) for a in answered.answers}) == 1


def test_an_admission_rule_that_a_check_leaves_out_exists():
    ids = {r.id for r in every_requirement()}
    assert {rule for oracle in ORACLES for rule in oracle.misses} <= ids


def test_what_asking_takes_is_named_for_doctor():
    plan, of = rolling(at_a_time=2)
    assert {(n.ref, n.privilege) for n in for_checks(plan, of, privilege_of)} == {
        ("ClusterComputeResource:domain-c1", "System.View"),
        (ESX1.ref, "Host.Config.Maintenance"),
        (ESX2.ref, "Host.Config.Maintenance"),
    }
    assert [*for_checks(*small(), privilege_of)] == []


@pytest.mark.parametrize("rule", ["vcenter.check", "vcenter.admits", "vcenter.unanswered"])
def test_each_difference_is_explained(rule):
    (found,) = explain(rule)
    assert (found.page, bool(found.text[0])) == ("docs/admission.md", True)
    assert dict(found.parts[1].pairs).keys() == {o.name for o in ORACLES}


# -- beside what an interrupted run has out of service


@pytest.mark.parametrize(
    ("out", "left"), [((), {1, 2, 3, 4}), ((vm(2),), {3, 4}), ((ESX1,), {3, 4}), ((ESX2,), {1, 2})]
)
def test_what_a_run_has_out_of_service_is_not_asked_about_nor_what_is_on_its_host(out, left):
    plan, of = four()
    checker = Checker()
    answered = with_answers(plan, checker, of, out=out)
    assert {ref for _, ref, _ in checker.asked} == {vm(n).ref for n in left}
    unasked = {a.target for a in answered.answers if "out of service" in a.note}
    assert unasked == {vm(n) for n in (1, 2, 3, 4) if n not in left}
