"""Turns: batches, how many at a time, how many may fail, and the health gate at the end of each."""

from __future__ import annotations

import random

import pytest
from pydantic import ValidationError
from support.estates import CLUSTER, DRS, ESX1, ESX2, estate, guest, host, made, vgpu_device, vm, wants
from support.judging import plan_one, rules, steps_of, words

from vsphere_ai.errors import HostUnhealthy, OutcomeUnknown, StepFailed, Unreachable
from vsphere_ai.execution import availability
from vsphere_ai.execution.runner import Runner
from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.records.pending import Pending, closed_by, opened_by
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, EnterMaintenance, Healthy, Lifecycle, Wait
from vsphere_ai.planning.document import plan_document
from vsphere_ai.planning.resume import overlay_pending
from vsphere_ai.report.plans.plan_text import plan_text
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics

DIRECT = HostGraphics(default_type="shared_direct")


def machine(number):
    return Target("host", f"esx{number:02d}", f"HostSystem:host-{number}")


def farm(hosts, vms=(), facts=None, **rolling):
    """Plan shared direct on N hosts, with running VMs {number: host number} outside the playbook."""
    numbers = range(1, hosts + 1)
    seen = estate(*(host(machine(n), **(facts or {}).get(n, {})) for n in numbers),
                  *(guest(vm(n), machine(h)) for n, h in dict(vms).items()))  # fmt: skip
    wanted = wants(DIRECT, rolling=Rolling(**{"evacuate": "power_off", **rolling}))
    return made(seen, {machine(n): wanted for n in numbers})


def sizes(plan):
    (roll,) = plan.impact.rolls
    return [len(batch) for batch in roll.batches]


# -- what a playbook may say


@pytest.mark.parametrize(
    ("given", "read"),
    [(2, (2,)), ("25%", ("25%",)), ((1, "25%"), (1, "25%")), ([1, 2, "100%"], (1, 2, "100%"))],
)
def test_batches_are_a_number_a_share_or_a_list(given, read):
    assert Rolling(serial=given).serial == read
    assert Rolling.model_validate_json(Rolling(serial=given).model_dump_json()).serial == read


@pytest.mark.parametrize(
    "wrong",
    [{"serial": 0}, {"serial": []}, {"serial": [1, "0%"]}, {"serial": "many"}, {"max_fail": -1}, {"max_fail": "101%"},
     {"max_fail": True}, {"settle": "0s"}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValidationError):
        Rolling(**wrong)


# -- vSAN


def test_what_vsan_moves_before_a_window_is_not_known():
    member = {"config__vsanHostConfig__enabled": True}
    down = {**member, "runtime__inMaintenanceMode": True}
    plan = farm(4, facts={1: member, 2: down, 3: {}}, max_unavailable=2)
    asked = [(f.target, f.verdict) for f in plan.findings if f.rule == "rolling.vsan"]
    assert asked == [(machine(1), "unknown")]
    assert not plan.problems


# -- batches


@pytest.mark.parametrize(
    ("hosts", "serial", "found"),
    [
        (5, (), [5]),
        (5, 1, [1, 1, 1, 1, 1]),
        (5, (1, 2), [1, 2, 2]),
        (16, (1, "25%"), [1, 4, 4, 4, 3]),
        (16, (1, "25%", "50%"), [1, 4, 8, 3]),
        (3, "10%", [1, 1, 1]),
        (4, 9, [4]),
    ],
)
def test_the_sizes_of_batches(hosts, serial, found):
    assert sizes(farm(hosts, serial=serial)) == found if serial else [hosts]


def test_where_plays_differ_the_smaller_batch_counts():
    seen = estate(*(host(machine(n)) for n in range(1, 6)))
    serials = {1: (1, 4), 2: (3, 2), 3: (), 4: (), 5: ()}
    plan = made(
        seen,
        {machine(n): wants(DIRECT, rolling=Rolling(evacuate="power_off", **({"serial": s} if s else {})))
         for n, s in serials.items()},
    )  # fmt: skip
    assert sizes(plan) == [1, 2, 2]


def order_of(plan, seed):
    """Run the plan in a random order its edges allow; return (host, begins or ends) as they came."""
    pick = random.Random(seed)
    left, done, came = list(plan.steps), set(), []
    while left:
        planned = pick.choice([p for p in left if done.issuperset(p.after)])
        left.remove(planned)
        done.add(planned.id)
        if isinstance(planned.step, Lifecycle) and planned.step.action == "enter-maintenance":
            came.append((planned.step.target, "begins"))
        elif isinstance(planned.step, Wait) and planned.step.until == "healthy":
            came.append((planned.step.target, "ends"))
    return came


@pytest.mark.parametrize("seed", range(8))
def test_a_batch_begins_when_the_one_before_has_passed_its_gates(seed):
    plan = farm(7, {1: 1, 2: 3}, serial=(1, 2, 4), max_unavailable=3)
    (roll,) = plan.impact.rolls
    came = order_of(plan, seed)
    for earlier, later in zip(roll.batches, roll.batches[1:], strict=False):
        ended = max(came.index((h, "ends")) for h in earlier)
        assert all(came.index((h, "begins")) > ended for h in later)
    out, most = set(), 0
    for who, what in came:
        (out.add if what == "begins" else out.discard)(who)
        most = max(most, len(out))
    assert most <= 3


def test_batches_and_their_pace_are_shown():
    plan = farm(4, serial=(1, 3), max_unavailable=2, max_fail=1)
    text = " ".join(plan_text(plan, "0" * 64, 200).split())
    assert "4 hosts reboot, 2 at a time per cluster" in text
    assert "gpu-a in 2 batches, 1: esx01; 2: esx[02:04]" in text
    assert "no further host is started once more than 1 failed" in text
    (roll,) = plan_document(plan)["impact"]["rolls"]
    assert [[h["name"] for h in b] for b in roll["batches"]] == [["esx01"], ["esx02", "esx03", "esx04"]]
    assert (roll["cluster"], roll["at_a_time"], roll["max_fail"]) == ("gpu-a", 2, 1)


# -- the gate


def test_a_turn_ends_with_a_gate_that_waits_for_the_vms():
    plan = farm(2, {1: 1, 2: 1})
    gate = next(p for p in plan.steps if words([p.step]) == ["healthy"])
    ons = [p.id for p in plan.steps if words([p.step]) == ["power-on"]]
    assert set(ons) <= set(gate.after)
    assert gate.step.target == ESX1
    assert [v.name for v in gate.step.vms] == ["train-01", "train-02"]
    assert gate.step.maintenance is False
    behind = [p for p in plan.steps if p.behind]
    assert {p.step.target for p in behind} == {ESX2}
    assert all(p.behind == (gate.id,) for p in behind)


@pytest.mark.parametrize(("drs", "devices", "stays"), [
    (DRS, (), False),
    (DRS, (vgpu_device(13000, "grid_a100-40c"),), True),
    ({**DRS, "enabled": False}, (), True),
    ({**DRS, "defaultVmBehavior": "manual"}, (), True),
])  # fmt: skip
def test_a_vm_has_to_be_on_its_host_unless_drs_may_have_moved_it(drs, devices, stays):
    cluster = Facts(CLUSTER, {"name": "gpu-a", "configurationEx": {"drsConfig": drs}})
    seen = estate(host(ESX1), guest(vm(1), ESX1, config__hardware__device=devices), cluster)
    gate = steps_of(made(seen, {ESX1: wants(DIRECT)}), ESX1)[-1]
    assert [v.stays for v in gate.vms] == [stays]


def test_a_host_found_in_maintenance_is_expected_there():
    plan = plan_one(estate(host(ESX1, runtime__inMaintenanceMode=True)), ESX1, DIRECT)
    gate = steps_of(plan, ESX1)[-1]
    assert (gate.until, gate.maintenance) == ("healthy", True)


def test_changes_without_maintenance_have_no_gate():
    plan = plan_one(estate(host(ESX1, active="sharedDirect")), ESX1, HostGraphics(assignment_policy="consolidation"))
    assert "healthy" not in words(steps_of(plan, ESX1))
    assert plan.impact.rolls == plan.impact.found == ()


def test_alarms_that_are_red_before_are_named():
    state = {"key": "alarm-1.host-1", "alarm": "Alarm:alarm-1", "overallStatus": "red", "time": "2026-01-01T00:00:00Z"}
    states = (state, {**state, "alarm": "Alarm:alarm-2", "overallStatus": "yellow"})
    plan = plan_one(
        estate(host(ESX1, triggeredAlarmState=states), Facts("Alarm:alarm-1", {"name": "Fan"})), ESX1, DIRECT
    )
    (found,) = plan.impact.found
    assert [a.name for a in found.alarms] == ["Fan"]
    assert "existing red alarm, ignored: esx01: Fan" in plan_text(plan, "0" * 64, 200)


def test_the_gate_is_owed_from_entering_maintenance_on():
    enter = EnterMaintenance(target=ESX1, timeout=60, summary="")
    assert Pending("gate", ESX1) in opened_by(enter, own_ssh=False)
    assert closed_by(Healthy(target=ESX1, summary="")) == (Pending("gate", ESX1),)
    assert closed_by(AsPlanned(target=ESX1, summary="")) == ()


# -- what an earlier attempt has begun


def again(seen, all_pending, targets, looks=(), **rolling):
    from vsphere_ai.planning.planner import PlanContext, make_plan

    owed = overlay_pending(seen, all_pending, looks)
    wanted = wants(DIRECT, rolling=Rolling(**{"evacuate": "power_off", **rolling}))
    return make_plan({t: wanted for t in targets}, owed.estate, kinds(), "", besides=PlanContext(owed.extra))


def test_a_gate_that_is_owed_comes_before_any_further_host():
    done = host(ESX1, active="sharedDirect")
    seen = estate(done, host(ESX2), guest(vm(1), ESX1, runtime__powerState="poweredOff"))
    plan = again(seen, [Pending("gate", ESX1), Pending("off", vm(1))], (ESX1, ESX2))
    assert words(steps_of(plan, ESX1)) == ["healthy"]
    gate = next(p for p in plan.steps if p.step.target == ESX1)
    assert [v.name for v in gate.step.vms] == ["train-01"]
    assert {p.id for p in plan.steps if words([p.step]) == ["power-on"]} <= set(gate.after)
    entry = next(p for p in plan.steps if p.step.target == ESX2)
    assert entry.behind == (gate.id,)


@pytest.mark.parametrize("rebooted", [True, False])
def test_gpus_that_nobody_has_seen_since_the_reboot_are_looked_at(rebooted):
    now = {"active": "sharedDirect"} if rebooted else {}
    seen = estate(host(ESX1, runtime__inMaintenanceMode=True, **now))
    plan = again(seen, [Pending("maintenance", ESX1)], (ESX1,), looks={ESX1.ref})
    done = words(steps_of(plan, ESX1))
    assert done.count("gpus-answer") == 1
    assert ("reboot" in done) is not rebooted
    assert done.index("gpus-answer") < done.index("as-planned") < done.index("exit-maintenance")
    assert (
        "gpus-answer" not in words(steps_of(again(seen, [Pending("maintenance", ESX1)], (ESX1,)), ESX1)) or not rebooted
    )


def test_who_has_begun_goes_first_and_may_be_in_maintenance():
    down = host(machine(4), runtime__inMaintenanceMode=True)
    seen = estate(*(host(machine(n)) for n in (1, 2, 3)), down)
    all_pending = [Pending("maintenance", machine(4)), Pending("gate", machine(4))]
    plan = again(seen, all_pending, [machine(n) for n in (1, 2, 3, 4)])
    (roll,) = plan.impact.rolls
    assert [h.name for h in roll.hosts] == ["esx04", "esx01", "esx02", "esx03"]
    begun = {p.step.target.name: p.step.begun for p in plan.steps if words([p.step]) == ["enter-maintenance"]}
    assert begun == {"esx01": False, "esx02": False, "esx03": False, "esx04": True}


# -- while it runs


class Executor:
    """Remembers which hosts are out of service; raises where a test says so."""

    def __init__(self, failing=None, others=None):
        self.failing, self.did, self.out, self.most = failing or {}, [], set(), 0
        self.others = others or (lambda executor: {})

    def is_so(self, step):
        return False

    def before(self, step):
        return ""

    def was_refused(self, step, error):
        return False

    def do(self, step, say, name=""):
        key = (step.target.name, words([step])[0])
        self.did.append(key)
        if key in self.failing:
            raise self.failing[key]
        if key[1] == "enter-maintenance":
            self.out.add(key[0])
            self.most = max(self.most, len(self.out))
        elif key[1] == "exit-maintenance":
            self.out.discard(key[0])

    def switch_ssh(self, target, *, running):
        pass

    def power_on(self, target, say):
        self.did.append((target.name, "put back"))

    def out_of_service(self, hosts):
        now = {h.ref: "in maintenance mode" for h in hosts if h.name in self.out}
        return now | {machine(n).ref: why for n, why in self.others(self).items()}

    def host_of(self, vm):
        return "elsewhere"

    @property
    def entered(self):
        return [name for name, word in self.did if word == "enter-maintenance"]


def go(plan, failing=None, others=None, emit=lambda event: None):
    executor = Executor(failing, others)
    return Runner(plan, executor, emit).run(), executor


NO = StepFailed("no")


def reason(run, name):
    return next(o.reason for o in run.outcomes if o.planned.step.target.name == name)


def test_a_failed_host_stops_the_next_ones_by_default():
    run, executor = go(farm(3), {("esx01", "UpdateGraphicsConfig"): NO})
    assert executor.entered == ["esx01"]
    assert reason(run, "esx02") == "esx01 failed, and max_fail is 0, so no further host is started"
    assert run.exit_code == 1


@pytest.mark.parametrize(("max_fail", "entered"), [(1, 3), (2, 4), ("50%", 4), ("25%", 3), ("10%", 1)])
def test_as_many_may_fail_as_allowed(max_fail, entered):
    failing = {(f"esx{n:02d}", "UpdateGraphicsConfig"): NO for n in (1, 3)}
    plan = farm(4, serial=1, max_unavailable=4, max_fail=max_fail)
    run, executor = go(plan, failing)
    # two of four fail: the first, and the third when it is reached
    assert len(executor.entered) == entered
    assert run.exit_code == 1


def test_a_failed_host_that_stays_out_of_service_keeps_its_place():
    run, executor = go(farm(3, max_fail=2), {("esx01", "UpdateGraphicsConfig"): NO})
    assert executor.entered == ["esx01"]
    assert reason(run, "esx02") == "esx01 is out of service, and no more hosts may be at once"
    run, executor = go(farm(5, max_fail=2, max_unavailable=2), {("esx01", "UpdateGraphicsConfig"): NO})
    assert sorted(executor.entered) == [f"esx0{n}" for n in range(1, 6)]
    assert executor.most <= 2
    run, executor = go(
        farm(5, max_fail=2, max_unavailable=2), {(f"esx0{n}", "UpdateGraphicsConfig"): NO for n in (1, 2)}
    )
    assert sorted(executor.entered) == ["esx01", "esx02"]


DOWN = "in maintenance mode"


def gone_since(number, after, why=DOWN):
    """One host is out of service once so many others have entered maintenance mode."""
    return lambda executor: {number: why} if len(executor.entered) >= after else {}


@pytest.mark.parametrize("after", [0, 1, 2])
def test_hosts_that_went_out_of_service_since_the_plan_count(after):
    run, executor = go(farm(4), others=gone_since(4, after))
    assert len(executor.entered) == after, "a turn that has begun is brought to its end"
    assert executor.out == set()
    assert run.exit_code == 6
    (failed,) = [o for o in run.outcomes if o.state == "failed"]
    assert failed.error.message == (
        "no further host is started: esx04 is in maintenance mode, and max_unavailable of gpu-a is 1"
    )
    assert reason(run, "esx03") == failed.error.message or failed.planned.step.target.name == "esx03"


def test_with_less_room_fewer_hosts_go_at_once_and_all_have_their_turn():
    said = []
    seen = estate(*(host(machine(n)) for n in range(1, 6)))
    wanted = wants(DIRECT, rolling=Rolling(evacuate="power_off", max_unavailable=2))
    plan = made(seen, {machine(n): wanted for n in range(1, 5)})
    run, executor = go(plan, others=lambda d: {5: DOWN}, emit=said.append)
    assert run.exit_code == 0
    assert sorted(executor.entered) == [f"esx0{n}" for n in range(1, 5)]
    assert executor.most == 1, "esx05 takes the other place"
    assert any("esx05 is in maintenance mode" in e.text for e in said if e.what == "waiting")


def test_a_host_that_is_not_connected_for_a_moment_is_waited_for(monkeypatch):
    looks = []

    def others(executor):
        looks.append(1)
        return {4: "notResponding"} if len(looks) < 3 else {}

    monkeypatch.setattr(availability, "AGAIN", 0.01)
    run, executor = go(farm(4), others=others)
    assert run.exit_code == 0
    assert len(executor.entered) == 4
    monkeypatch.setattr(availability, "PATIENCE", 0.05)
    run, executor = go(farm(4), others=lambda d: {4: "notResponding"})
    assert (run.exit_code, executor.entered) == (6, [])


def test_nothing_is_begun_when_nobody_can_tell_how_the_cluster_is():
    def others(executor):
        raise Unreachable("no answer")

    run, executor = go(farm(2), others=others)
    assert (run.exit_code, executor.did) == (5, [])


def test_another_cluster_goes_on_when_one_has_no_room():
    seen = estate(*(host(machine(n)) for n in (1, 2)), *(host(machine(n), parent="ComputeResource:r-9") for n in (3,)))
    wanted = wants(DIRECT, rolling=Rolling(evacuate="power_off"))
    run, executor = go(made(seen, {machine(n): wanted for n in (1, 3)}), others=lambda d: {2: DOWN})
    assert run.exit_code == 6
    assert executor.entered == ["esx03"]


def test_a_host_whose_answer_was_lost_may_be_out_of_service():
    run, executor = go(farm(3, max_fail=2), {("esx01", "enter-maintenance"): OutcomeUnknown("lost")})
    assert executor.entered == ["esx01"]
    assert run.exit_code == 9


def test_a_failed_vm_counts_for_its_host_which_is_in_service_again():
    failing = {("train-01", "power-on"): NO}
    run, executor = go(farm(2, {1: 1}), failing)
    assert executor.entered == ["esx01"]
    run, executor = go(farm(2, {1: 1}, max_fail=1), failing)
    assert executor.entered == ["esx01", "esx02"]
    assert run.open == ("train-01 is powered off; it was running before",)


def test_the_other_vms_stay_on_when_one_cannot_be_switched_off():
    plan = farm(1, {n: 1 for n in range(1, 13)})
    _, executor = go(plan, {("train-01", "power-off"): NO})
    assert executor.entered == []
    back = {name for name, word in executor.did if word == "put back"}
    assert back == {name for name, word in executor.did if word == "power-off"} - {"train-01"}


@pytest.mark.parametrize("word", ["host-back", "gpus-answer", "healthy", "exit-maintenance"])
def test_an_unhealthy_host_stops_everything_whatever_may_fail(word):
    other = "ClusterComputeResource:domain-c2"
    plan = farm(4, facts={4: {"parent": other}}, serial=1, max_fail=3, max_unavailable=4)
    slow = {("esx01", word): HostUnhealthy("ill"), ("esx04", "enter-maintenance"): HostUnhealthy("ill")}
    run, executor = go(plan, slow)
    assert sorted(executor.entered) in (["esx01", "esx04"], ["esx04"], ["esx01"])
    assert run.exit_code == 6
    assert "is not healthy, so no further host is started" in reason(run, "esx02")


def test_at_most_one_reboot_per_host():
    run, executor = go(farm(6, {n: n for n in range(1, 5)}, serial=(1, 2), max_unavailable=2))
    assert run.exit_code == 0
    rebooted = [name for name, word in executor.did if word == "reboot"]
    assert len(rebooted) == len(set(rebooted)) == 6
    assert executor.most <= 2


# -- where running VMs go


def moving(*others, network=("Network:n1",), drs=DRS, more=None, **guest_facts):
    cluster = {"name": "gpu-a", "configurationEx": {"drsConfig": drs, **(more or {})}}
    lan = Facts("Network:n1", {"name": "lan"})
    seen = estate(host(ESX1, network=("Network:n1",)), *others, Facts(CLUSTER, cluster), lan,
                  guest(vm(1), ESX1, network=network, **guest_facts))  # fmt: skip
    return made(seen, {ESX1: wants(DIRECT, rolling=Rolling(evacuate="vmotion"))})


def test_vms_that_move_are_named():
    plan = moving(host(ESX2, network=("Network:n1",)))
    assert (plan.problems, plan.impact.moves, plan.impact.power_cycles) == ((), (vm(1),), ())
    assert "1 VM moves to another host (vMotion by DRS): train-01" in plan_text(plan, "0" * 64, 200)


OVERRIDE = {"key": vm(1).ref, "behavior": "manual"}


@pytest.mark.parametrize(
    ("change", "rule", "words_"),
    [
        ({"network": ("Network:n1", "Network:n2")}, "rolling.nowhere", "does not have the network n2"),
        ({"drs": {**DRS, "enabled": False}}, "rolling.drs", "DRS of gpu-a is off"),
        ({"drs": {**DRS, "defaultVmBehavior": "partiallyAutomated"}}, "rolling.drs", "only recommends"),
        ({"drs": {}}, "rolling.drs", "cannot be read"),
        ({"more": {"drsVmConfig": (OVERRIDE,)}}, "rolling.drs", "its own DRS automation level is manual"),
        ({"more": {"drsVmConfig": ({**OVERRIDE, "enabled": False},)}}, "rolling.drs", "DRS is disabled for it"),
        ({"drs": {**DRS, "enableVmBehaviorOverrides": False}, "more": {"drsVmConfig": (OVERRIDE,)}}, "", ""),
        ({"more": {"drsVmConfig": ({**OVERRIDE, "key": vm(2).ref},)}}, "", ""),
    ],
)
def test_a_vm_that_nobody_would_move_is_refused(change, rule, words_):
    plan = moving(host(ESX2, network=("Network:n1",)), **change)
    assert rules(plan) == ({("train-01", rule)} if rule else set())
    assert not rule or words_ in plan.problems[0].message
    assert plan.impact.moves == (() if rule else (vm(1),))
