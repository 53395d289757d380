"""The order of everything: VMs around their hosts, hosts around each other, and never too many down at once."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.estates import CLUSTER, ESX1, ESX2, estate, guest, host, made, vgpu_device, vm, wants
from support.judging import actions, rules, steps_of, words

from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Lifecycle, Reconfigure
from vsphere_ai.planning.scheduling.step_order import waves
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware

DIRECT = HostGraphics(default_type="shared_direct")
FULL = VmHardware(memory_reservation="full")
DOWN = {"runtime__inMaintenanceMode": True}
GONE = {"runtime__connectionState": "notResponding"}


def machine(number):
    return Target("host", f"esx{number:02d}", f"HostSystem:host-{number}")


def farm(hosts, vms=(), **rolling):
    """Plan shared direct on hosts {number: more facts}, with running VMs {number: host number} outside the playbook."""
    seen = estate(*(host(machine(n), **more) for n, more in hosts.items()),
                  *(guest(vm(n), machine(h)) for n, h in dict(vms).items()))  # fmt: skip
    wanted = wants(DIRECT, rolling=Rolling(**{"evacuate": "power_off", **rolling}))
    return made(seen, {machine(n): wanted for n in hosts if hosts[n] is not IDLE})


IDLE: dict = {"active": "sharedDirect"}


def index(plan):
    return {(p.step.target.name, words([p.step])[0]): i for i, p in enumerate(plan.steps)}


def before(plan, first, second):
    """Tell whether `first` has ended in every order in which the steps may run before `second` starts."""
    steps = {p.id: p for p in plan.steps}
    at = index(plan)
    start, goal = (plan.steps[at[key]].id for key in (first, second))
    todo, seen = [goal], set()
    while todo:
        for earlier in steps[todo.pop()].after:
            if earlier not in seen:
                seen.add(earlier)
                todo.append(earlier)
    return start in seen


# -- VMs around their host


def test_a_vm_outside_the_playbook_goes_off_before_its_host_and_on_after_it_and_is_named():
    plan = farm({1: {}}, {1: 1})
    assert plan.problems == ()
    assert before(plan, ("train-01", "power-off"), ("esx01", "enter-maintenance"))
    assert before(plan, ("esx01", "exit-maintenance"), ("train-01", "power-on"))
    assert words(steps_of(plan, vm(1))) == ["power-off", "power-on"]
    assert plan.impact.outside == (vm(1),)


def test_a_vm_of_the_playbook_is_changed_in_the_same_power_cycle():
    seen = estate(host(ESX1), guest(vm(1), ESX1))
    plan = made(seen, {ESX1: wants(DIRECT), vm(1): wants(FULL)})
    assert words(steps_of(plan, vm(1))) == ["power-off", "reconfigure", "as-planned", "power-on"]
    assert before(plan, ("esx01", "exit-maintenance"), ("train-01", "reconfigure"))
    assert plan.impact.outside == ()


def test_a_vm_that_is_off_is_changed_after_its_host_and_stays_off():
    seen = estate(host(ESX1), guest(vm(1), ESX1, runtime__powerState="poweredOff"))
    plan = made(seen, {ESX1: wants(DIRECT), vm(1): wants(FULL)})
    assert words(steps_of(plan, vm(1))) == ["reconfigure", "as-planned"]
    assert before(plan, ("esx01", "exit-maintenance"), ("train-01", "reconfigure"))


def test_vms_of_other_hosts_do_not_wait():
    seen = estate(host(ESX1), host(ESX2, **IDLE), guest(vm(1), ESX2))
    plan = made(seen, {ESX1: wants(DIRECT), vm(1): wants(FULL)})
    first = waves(plan.steps)[0]
    assert {p.step.target for p in first} == {ESX1, vm(1)}


# -- evacuation


@pytest.mark.parametrize(
    ("evacuate", "pinned", "rule", "cycled"),
    [
        ("refuse", False, "rolling.evacuate", False),
        ("refuse", True, "rolling.evacuate", False),
        ("power_off", False, None, True),
        ("power_off", True, None, True),
        ("vmotion", False, None, False),
        ("vmotion", True, "rolling.pinned", False),
    ],
)
def test_evacuation(evacuate, pinned, rule, cycled):
    devices = (vgpu_device(13000, "grid_a100-40c"),) if pinned else ()
    seen = estate(host(ESX1), host(ESX2), guest(vm(1), ESX1, config__hardware__device=devices))
    plan = made(seen, {ESX1: wants(DIRECT, rolling=Rolling(evacuate=evacuate))})
    assert {(n, r) for n, r in rules(plan) if r.startswith("rolling.")} == ({(vm(1).name, rule)} if rule else set())
    assert plan.impact.power_cycles == ((vm(1),) if cycled else ())


@pytest.mark.parametrize("others", [(), (DOWN,), (GONE,)])
def test_a_vm_that_has_no_host_to_move_to_is_refused(others):
    seen = estate(host(ESX1), *(host(ESX2, **more) for more in others), guest(vm(1), ESX1))
    plan = made(seen, {ESX1: wants(DIRECT, rolling=Rolling(evacuate="vmotion"))})
    assert ("train-01", "rolling.nowhere") in rules(plan)


def test_refuse_names_every_vm_in_the_way_but_not_those_that_are_off():
    seen = estate(host(ESX1), *(guest(vm(n), ESX1) for n in (1, 2)),
                  guest(vm(3), ESX1, runtime__powerState="poweredOff"))  # fmt: skip
    plan = made(seen, {ESX1: wants(DIRECT, rolling=Rolling(evacuate="refuse"))})
    assert rules(plan) == {("train-01", "rolling.evacuate"), ("train-02", "rolling.evacuate")}


@pytest.mark.parametrize("devices", [(), (vgpu_device(13000, "grid_a100-40c"),)])
def test_a_vm_with_changes_of_its_own_goes_off_instead_of_moving(devices):
    seen = estate(host(ESX1), guest(vm(1), ESX1, config__hardware__device=devices))
    plan = made(seen, {ESX1: wants(DIRECT, rolling=Rolling(evacuate="vmotion")), vm(1): wants(FULL)})
    assert not {r for _, r in rules(plan) if r.startswith("rolling.")}
    assert before(plan, ("train-01", "power-off"), ("esx01", "enter-maintenance"))


# -- rolling


def most_down(plan, hosts=(), seed=0):
    """Run the plan in a random order that its edges allow; return the most hosts that were down at once."""
    pick = random.Random(seed)
    left, done, down, most = list(plan.steps), set(), set(hosts), len(set(hosts))
    while left:
        ready = [p for p in left if done.issuperset(p.after)]
        assert ready, "a cycle"
        planned = pick.choice(ready)
        left.remove(planned)
        done.add(planned.id)
        if isinstance(planned.step, Lifecycle):
            if planned.step.action == "enter-maintenance":
                down.add(planned.step.target)
            elif planned.step.action == "exit-maintenance":
                down.discard(planned.step.target)
        most = max(most, len(down))
    return most


@pytest.mark.parametrize(
    ("hosts", "budget", "allowed"),
    [(4, 1, 1), (4, 2, 2), (4, 9, 4), (8, "25%", 2), (9, "25%", 2), (3, "25%", 1), (4, "100%", 4)],
)
def test_no_more_hosts_are_down_than_allowed(hosts, budget, allowed):
    plan = farm({n: {} for n in range(1, hosts + 1)}, max_unavailable=budget)
    assert plan.problems == ()
    assert max(most_down(plan, seed=s) for s in range(20)) == allowed
    assert plan.impact.at_a_time == allowed


def test_the_next_host_waits_until_the_vms_of_the_last_are_back():
    plan = farm({1: {}, 2: {}}, {1: 1, 2: 2})
    assert before(plan, ("train-01", "power-on"), ("esx02", "enter-maintenance"))
    assert before(plan, ("train-01", "power-on"), ("train-02", "power-off"))


@pytest.mark.parametrize("state", [DOWN, GONE])
def test_hosts_that_are_down_already_are_counted(state):
    plan = farm({1: {}, 2: {}, 3: {}, 4: {}}, max_unavailable=2)
    assert plan.impact.at_a_time == 2
    seen = estate(*(host(machine(n)) for n in (1, 2, 3)), host(machine(4), **state))
    wanted = wants(DIRECT, rolling=Rolling(evacuate="power_off", max_unavailable=2))
    plan = made(seen, {machine(n): wanted for n in (1, 2, 3)})
    assert plan.problems == ()
    assert max(most_down(plan, [machine(4)], seed=s) for s in range(20)) == 2


def test_nothing_starts_when_the_budget_is_used_up():
    seen = estate(host(ESX1), host(ESX2, **DOWN))
    plan = made(seen, {ESX1: wants(DIRECT)})
    assert rules(plan) == {("esx01", "rolling.budget")}
    assert "esx02" in plan.problems[0].message


def test_a_target_found_in_maintenance_stays_down_and_counts():
    plan = farm({1: {}, 2: DOWN})
    assert rules(plan) == {("esx01", "rolling.budget")}
    plan = farm({1: {}, 2: DOWN, 3: {}}, max_unavailable=2)
    assert plan.problems == ()
    assert max(most_down(plan, [machine(2)], seed=s) for s in range(20)) == 2


def test_hosts_found_in_maintenance_cost_nothing_more_and_are_done_side_by_side():
    plan = farm({1: DOWN, 2: DOWN})
    assert plan.problems == ()
    assert {p.step.target for p in waves(plan.steps)[0]} == {ESX1, ESX2}
    assert actions(plan, "enter-maintenance") == []


def test_a_third_host_that_is_down_does_not_stop_work_on_those_in_maintenance():
    seen = estate(host(ESX1, **DOWN), host(ESX2, **GONE))
    assert made(seen, {ESX1: wants(DIRECT)}).problems == ()


def test_clusters_go_side_by_side():
    other = "ClusterComputeResource:domain-c2"
    seen = estate(host(ESX1), host(ESX2, parent=other), Facts(other, {"name": "gpu-b", "parent": "Folder:group-h1"}))
    plan = made(seen, {h: wants(DIRECT) for h in (ESX1, ESX2)})
    assert {p.step.target for p in waves(plan.steps)[0]} == {ESX1, ESX2}
    assert other != CLUSTER


@pytest.mark.parametrize("budgets", [(1, 2, 3), (3, 2, 1), (3, 1, 3)])
def test_the_strictest_of_several_budgets_counts(budgets):
    seen = estate(*(host(machine(n)) for n in (1, 2, 3)))
    rollings = {machine(n): Rolling(evacuate="power_off", max_unavailable=b) for n, b in enumerate(budgets, 1)}
    plan = made(seen, {h: wants(DIRECT, rolling=r) for h, r in rollings.items()})
    assert plan.impact.at_a_time == 1
    assert max(most_down(plan, seed=s) for s in range(10)) == 1


def test_changes_without_maintenance_do_not_roll():
    seen = estate(host(ESX1, **IDLE), host(ESX2, **IDLE))
    plan = made(seen, {h: wants(HostGraphics(assignment_policy="consolidation")) for h in (ESX1, ESX2)})
    assert {p.step.target for p in waves(plan.steps)[0]} == {ESX1, ESX2}


# -- properties of any arrangement

FARMS = st.fixed_dictionaries(
    {
        "hosts": st.dictionaries(st.integers(1, 6), st.sampled_from(["up", "maintenance", "idle"]), min_size=1),
        "vms": st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), max_size=6),
        "budget": st.sampled_from([1, 2, 3, "25%", "50%"]),
        "seed": st.integers(0, 9),
    }
)
MORE = {"up": {}, "maintenance": DOWN, "idle": IDLE}


@settings(max_examples=60, deadline=None)
@given(FARMS)
def test_any_farm(drawn):
    hosts = {machine(n): MORE[s] for n, s in drawn["hosts"].items()}
    # a VM does not run on a host in maintenance
    vms = [(vm(i), machine(h), on and drawn["hosts"][h] != "maintenance", inside)
           for i, (h, on, inside) in enumerate(drawn["vms"], 1) if h in drawn["hosts"]]  # fmt: skip
    seen = estate(
        *(host(h, **more) for h, more in hosts.items()),
        *(guest(v, h, runtime__powerState="poweredOn" if on else "poweredOff") for v, h, on, _ in vms),
    )
    rolling = Rolling(evacuate="power_off", max_unavailable=drawn["budget"])
    desired = {h: wants(DIRECT, rolling=rolling) for h in hosts} | {v: wants(FULL) for v, _, _, i in vms if i}
    plan = made(seen, desired)

    ids = [p.id for p in plan.steps]
    assert len(set(ids)) == len(ids)
    for number, planned in enumerate(plan.steps):
        assert set(planned.after) <= set(ids[:number])  # plan order is an order it may run in

    for target in {p.step.target for p in plan.steps}:
        own = words(steps_of(plan, target))
        for once in ("reboot", "enter-maintenance", "exit-maintenance", "power-off", "power-on", "reconfigure"):
            assert own.count(once) <= 1
        assert own.count("enter-maintenance") == own.count("exit-maintenance")
        assert own.count("power-off") == own.count("power-on")
    for v, h, on, inside in vms:
        own = words(steps_of(plan, v))
        assert ("power-off" in own) == (on and (inside or hosts[h] is not IDLE))
        assert ("reconfigure" in own) == inside

    down = [h for h, more in hosts.items() if more is DOWN]
    budget = drawn["budget"]
    allowed = budget if isinstance(budget, int) else max(1, len(hosts) * int(budget[:-1]) // 100)
    if not plan.problems:
        assert most_down(plan, down, drawn["seed"]) <= max(allowed, len(down))
    else:
        assert {r for _, r in rules(plan)} == {"rolling.budget"}
        assert len(down) >= allowed


def test_waves_hold_only_steps_that_wait_for_earlier_waves():
    plan = farm({1: {}, 2: {}}, {1: 1, 2: 2})
    seen: set[str] = set()
    for wave in waves(plan.steps):
        assert all(seen.issuperset(p.after) for p in wave)
        seen |= {p.id for p in wave}
    assert len(seen) == len(plan.steps)


def test_new_devices_of_one_task_have_keys_of_their_own():
    seen = estate(host(ESX1, active="sharedDirect", config__sharedPassthruGpuTypes=("grid_a100-40c",)),
                  guest(vm(1), ESX1))  # fmt: skip
    from vsphere_ai.resources.vgpu import Vgpu

    plan = made(seen, {vm(1): wants(Vgpu(profiles=("grid_a100-40c",) * 3))})
    (step,) = (s for s in steps_of(plan, vm(1)) if isinstance(s, Reconfigure))
    assert len({c["device"]["key"] for c in step.device_changes}) == 3
