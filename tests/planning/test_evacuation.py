"""VMs with vGPUs on hosts that enter maintenance mode: which of them move, where to, and in which order."""

from __future__ import annotations

import random

import pytest
from support import raising
from support.acting import VM, Server, do, lifecycle
from support.estates import (
    ESX1,
    ESX2,
    OFF,
    ON,
    PCI,
    gpu_info,
    guest,
    host,
    smi,
    vgpu_device,
    vm,
    wants,
)
from support.gpu_moves import DRS, HALF, WHOLE, about, farm, gpu_host, gpu_vm, machine, moves, rolled
from support.judging import rules
from support.seeds import by_level, cases

from vsphere_ai.capacity.solve import solve
from vsphere_ai.compat.vgpu_vmotion import Stun, not_opted_in, stun, stun_times
from vsphere_ai.errors import Conflict, StepFailed
from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import Lifecycle, Reconfigure, RunningVm, Step, Wait
from vsphere_ai.planning.moves import vgpu_moves
from vsphere_ai.planning.moves.evacuation import why_pinned
from vsphere_ai.planning.planner import PlanContext, make_plan
from vsphere_ai.resources import kinds
from vsphere_ai.resources.vm_hardware import VmHardware


def does(plan, target, action):
    return [
        p for p in plan.steps if isinstance(p.step, Lifecycle) and (p.step.target, p.step.action) == (target, action)
    ]


def behind(plan, first, second):
    """Tell whether one planned step cannot start before the other has ended."""
    steps, todo, seen = {p.id: p for p in plan.steps}, [second.id], set()
    while todo:
        for earlier in steps[todo.pop()].after:
            if earlier not in seen:
                seen.add(earlier)
                todo.append(earlier)
    return first.id in seen


# -- what moves


@pytest.mark.parametrize(
    ("device", "pinned"),
    [
        ({"_typeName": "VirtualVmxnet3Vrdma"}, ""),
        ({"_typeName": "VirtualVmxnet3"}, ""),
        ({"_typeName": "VirtualSriovEthernetCard"}, "SR-IOV"),
        ({"_typeName": "VirtualPCIPassthrough", "backing": {"_typeName": "VirtualPCIPassthroughDeviceBackingInfo"}},
         "passthrough device"),
        ({"_typeName": "VirtualPCIPassthrough", "backing": {"_typeName": "VirtualPCIPassthroughDynamicBackingInfo"}},
         "passthrough device"),
        ({**vgpu_device(1, HALF), "deviceGroupInfo": {"groupInstanceKey": 1}}, "device group"),
    ],
)  # fmt: skip
def test_devices_that_pin_a_vm_on_every_version(device, pinned):
    seen = farm(gpu_host(1), guest(vm(1), ESX1, config__hardware__device=(device,)))
    assert pinned in why_pinned(seen, vm(1), ESX1)
    assert bool(why_pinned(seen, vm(1), ESX1)) == bool(pinned)


@pytest.mark.parametrize(
    ("server", "moves"),
    [
        (about("7.0.2"), False),
        (about("7.0.3", "20051472"), False),
        (about("7.0.3", "20051473"), True),
        (about("8.0.0"), True),
        (about("9.0.0"), True),
    ],
)
def test_vgpus_move_from_7_0_u3f_on(server, moves):
    seen = farm(gpu_host(1, [1]), gpu_vm(1, 1), about=server)
    assert (why_pinned(seen, vm(1), ESX1) == "") == moves


@pytest.mark.parametrize(
    ("device", "host_says", "moves"),
    [(True, True, True), (True, None, True), (None, True, True), (False, True, False), (True, False, False),
     (None, None, False)],
)  # fmt: skip
def test_device_and_host_have_to_support_it(device, host_says, moves):
    caps = () if host_says is None else ({"vgpu": HALF.upper(), "migrateSupported": host_says},)
    seen = farm(gpu_host(1, [1], config__sharedGpuCapabilities=caps), gpu_vm(1, 1))
    backing = seen[vm(1).ref].get("config.hardware.device")[0]["backing"]
    if device is None:
        del backing["migrateSupported"]
    else:
        backing["migrateSupported"] = device
    assert (why_pinned(seen, vm(1), ESX1) == "") == moves


@pytest.mark.parametrize(
    ("version", "option", "by_drs", "moves"),
    [
        ("7.0.3", None, False, False),
        ("7.0.3", "-1", False, True),
        ("7.0.3", "600", False, False),
        ("8.0.0", None, False, False),
        ("8.0.1", None, False, True),
        ("8.0.1", None, True, False),
        ("8.0.1", "-1", True, True),
        ("8.0.2", None, True, True),
        ("9.0.0", None, False, True),
    ],
)
def test_opting_in_by_version(version, option, by_drs, moves):
    options = () if option is None else ({"key": "VgpuMMAutomationTimeoutSecs", "value": option},)
    seen = farm(gpu_host(1), about=about(version), drs={**DRS, "option": options})
    assert (not_opted_in(seen, ESX1, by_drs=by_drs) == "") == moves


def test_the_switch_of_vcenter():
    seen = (gpu_host(1, [1]), gpu_host(2), gpu_vm(1, 1))
    assert rules(rolled(farm(*seen, hot=False), [1])) == {("train-01", "rolling.hotmigrate")}
    assert moves(rolled(farm(*seen), [1])) == [("train-01", "esx01", "esx02")]


@pytest.mark.parametrize("drs", [{**DRS, "enabled": False}, {**DRS, "defaultVmBehavior": "manual"}, None])
def test_drs_is_not_needed(drs):
    seen = farm(gpu_host(1, [1]), gpu_host(2), gpu_vm(1, 1), drs=drs)
    assert moves(rolled(seen, [1])) == [("train-01", "esx01", "esx02")]


def test_nothing_moves_where_the_play_does_not_say_so():
    seen = farm(gpu_host(1, [1]), gpu_host(2), gpu_vm(1, 1))
    plan = rolled(seen, [1], evacuate="refuse")
    assert rules(plan) == {("train-01", "rolling.evacuate")}
    assert moves(plan) == []
    assert plan.impact.power_cycles == ()


# -- where to


def test_turn_by_turn_a_vm_may_move_again():
    seen = farm(gpu_host(1, [1]), gpu_host(2, [2]), gpu_host(3), gpu_vm(1, 1, WHOLE), gpu_vm(2, 2, WHOLE))
    plan = rolled(seen, [1, 2, 3])
    assert not plan.problems
    assert moves(plan) == [
        ("train-01", "esx01", "esx03"),
        ("train-02", "esx02", "esx01"),
        ("train-01", "esx03", "esx02"),
    ]
    assert plan.impact.power_cycles == plan.impact.moves == ()
    order = [p for p in plan.steps if isinstance(p.step, Lifecycle) and p.step.action == "migrate"]
    assert [p.step.to for p in order] == [f"HostSystem:host-{n}" for n in (3, 1, 2)]
    for move, number in zip(order, (1, 2, 3), strict=True):
        (enter,) = does(plan, machine(number), "enter-maintenance")
        assert behind(plan, move, enter)


def test_no_host_is_a_target_while_it_is_down():
    full = [gpu_vm(n, n, WHOLE) for n in (1, 2)]
    seen = farm(gpu_host(1, [1]), gpu_host(2, [2]), gpu_host(3), gpu_host(4), *full)
    plan = rolled(seen, [1, 2, 3, 4], max_unavailable=2)
    assert not plan.problems, plan.problems
    order = {machine(n): n for n in (1, 2, 3, 4)}
    assert all(abs(order[m.source] - order[m.target]) >= 2 for m in plan.impact.migrations)
    tight = farm(gpu_host(1, [1]), gpu_host(2), gpu_vm(1, 1, WHOLE))
    plan = rolled(tight, [1, 2], max_unavailable=2)
    assert not plan.problems
    assert plan.impact.rolls[0].at_a_time == 1, "each host takes the VM of the other one"


OTHER_DRIVER = {"probes": smi({PCI[0]: OFF}, driver="550.90.05")}
OTHER_GPU = {"hardware__pciDevice": host(ESX1, device=0x20B1).get("hardware.pciDevice")[:1]}
NO_CAPABILITY = {"config__sharedGpuCapabilities": ({"vgpu": HALF, "migrateSupported": False},)}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (OTHER_DRIVER, "another NVIDIA host driver branch (R550, here R535)"),
        (OTHER_GPU, "has GPUs of another kind"),
        (NO_CAPABILITY, "its host driver does not support vMotion of it"),
        ({"runtime__inMaintenanceMode": True}, "nowhere to move"),
        ({"config__graphicsInfo": (gpu_info(PCI[0], "shared"),)}, "no GPU in Shared Direct mode"),
        ({"probes": smi({PCI[0]: ("Enabled", "Enabled")}), "config__sharedPassthruGpuTypes": ()}, "grid_a100-20c"),
    ],
)
def test_hosts_that_do_not_take_it(more, words):
    plan = rolled(farm(gpu_host(1, [1]), gpu_host(2, **more), gpu_vm(1, 1)), [1])
    (problem,) = (p for p in plan.problems if p.rule != "rolling.budget")
    assert problem.target == vm(1)
    assert words in problem.message


def test_a_driver_that_cannot_be_read_is_not_taken_to_be_alike():
    unread = {"probes": {}, "software": ()}
    plan = rolled(farm(gpu_host(1, [1]), gpu_host(2, **unread), gpu_vm(1, 1)), [1])
    assert "(unknown, here R535)" in plan.problems[0].message


def test_hosts_whose_instances_were_not_read_are_asked_for():
    mig = {"probes": {}, "config__sharedPassthruGpuTypes": ("grid_a100-3-20c",), "software": (
        {"name": "NVIDIA-AIE_ESXi_7.0.2_Driver", "version": "535.54.06-1OEM.702.0.0.17630552"},)}  # fmt: skip
    seen = farm(gpu_host(1, [1], **mig), gpu_host(2, **mig), gpu_vm(1, 1, "grid_a100-3-20c"))
    plan = rolled(seen, [1])
    assert rules(plan) == {("train-01", "rolling.no-slot")}
    assert "what stands on its GPUs is not known" in plan.problems[0].message
    assert plan.impact.unread == (ESX2,)


def test_vgpus_that_have_room_in_no_order_are_not_moved():
    """The 3g has to come before both 2g, and the VM that has it asks for its 2g first."""
    types = ("grid_a100-2-10c", "grid_a100-3-20c")
    mig = {"config__sharedPassthruGpuTypes": types}
    standing = [(0, "2g.10gb", 14, 3, "0:2"), (0, "2g.10gb", 14, 5, "2:2"), (0, "3g.20gb", 9, 1, "4:4")]
    full = gpu_host(1, [1, 2], probes=smi({PCI[0]: ON}, standing), **mig)
    seen = farm(full, gpu_host(2, probes=smi({PCI[0]: ON}), **mig), gpu_vm(1, 1, *types), gpu_vm(2, 1, types[0]))
    plan = rolled(seen, [1])
    assert rules(plan) == {("train-01", "rolling.no-slot"), ("train-02", "rolling.no-slot")}
    assert "in no order in which the VMs arrive" in plan.problems[0].message
    assert moves(plan) == []


def test_a_host_whose_vms_go_off_later_takes_none():
    """It takes them where its window comes first, unless its own VMs have its GPUs again by then."""
    desired = {ESX1: wants(rolling=Rolling(evacuate="vmotion")), ESX2: wants(rolling=Rolling(evacuate="power_off"))}
    work = {h: [Step(target=h, summary="work", needs_maintenance=True)] for h in desired}

    def plan(*facts):
        return make_plan(desired, farm(*facts), kinds(), "test.yml", besides=PlanContext(work))

    possible = plan(gpu_host(1, [1]), gpu_host(2), gpu_vm(1, 1))
    assert not possible.problems
    assert possible.impact.rolls[0].hosts == (ESX2, ESX1)
    full = plan(gpu_host(1, [1]), gpu_host(2, [2]), gpu_vm(1, 1), gpu_vm(2, 2, WHOLE))
    assert "powers its own VMs off later" in full.problems[0].message


# -- around it


def any_farm(chance):
    """Some hosts in a cluster, not all alike, each with up to two VMs that have vGPUs; and how they are taken out."""
    hosts, number, facts = chance.randint(2, 9), 0, []
    for host_number in range(1, hosts + 1):
        profiles = chance.choice([(), (HALF,), (HALF, HALF), (WHOLE,), (HALF,), ()])
        own = range(number + 1, number + 1 + len(profiles))
        number += len(profiles)
        more = {
            "network": ("Network:a", "Network:b")[: chance.choice((1, 2, 2, 2))],
            "runtime.inMaintenanceMode": chance.random() < 0.08,
            "probes": smi({PCI[0]: OFF}, driver=chance.choice(("535.183.01",) * 5 + ("550.54.16",))),
            "config__sharedGpuCapabilities": chance.choice(((),) * 4 + (({"vgpu": HALF, "migrateSupported": False},),)),
        }
        facts.append(gpu_host(host_number, own, **more))
        for n, profile in zip(own, profiles, strict=True):
            networks = ("Network:a", "Network:b")[: chance.choice((0, 1, 1, 2))]
            state = chance.choice(("poweredOn",) * 9 + ("poweredOff",))
            facts.append(gpu_vm(n, host_number, profile, network=networks, runtime__powerState=state))
    left_out = chance.choice((0, 0, 1, 2))
    how = {"max_unavailable": chance.choice((1, 1, 1, 2, 3)), **chance.choice(({}, {}, {"serial": (1, 2)}))}
    return farm(*facts), range(1, hosts + 1 - min(left_out, hosts - 1)), how


@pytest.mark.parametrize("seed", cases(15, 60))
def test_moves_are_those_of_a_search_over_all_hosts(monkeypatch, seed):
    """A plan is the same whether each window looks at every host, or at the first of those that are alike."""
    seen, hosts, how = any_farm(random.Random(seed))
    quick = rolled(seen, hosts, **how)
    monkeypatch.setattr(vgpu_moves._Sequence, "_first_fit", lambda *_: None)
    assert rolled(seen, hosts, **how) == quick


def test_most_moves_take_no_search_over_all_hosts(monkeypatch):
    searched, moved = [], 0
    monkeypatch.setattr(vgpu_moves, "solve", lambda *given: searched.append(given) or solve(*given))
    monkeypatch.setattr(vgpu_moves, "_searched", lambda tried, _hosts: tried(frozenset()))
    for seed in cases(20, 60):
        seen, hosts, how = any_farm(random.Random(seed))
        before = len(searched)
        plan = rolled(seen, hosts, **how)
        if plan.problems:  # every order of the windows was tried
            del searched[before:]
        moved += len(moves(plan))
    searches = [demands for _, demands in searched if any(d.hosts for d in demands)]
    assert moved > by_level(20, 60)
    assert len(searches) < moved / 2


def test_the_seconds_of_all_devices_are_added():
    seen = farm(gpu_host(1, [1]), gpu_host(2))
    assert stun(stun_times(seen), [HALF, HALF]) == (Stun(10_000, 50), Stun(25_000, 20))
    assert stun(stun_times(seen), [HALF, WHOLE]) == (Stun(10_000, 74),)
    assert stun(stun_times(seen), [HALF, "grid_a100-5c"]) == stun(stun_times(seen), []) == ()
    plan = rolled(farm(gpu_host(1, [1]), gpu_host(2), gpu_vm(1, 1)), [1])
    assert plan.impact.migrations[0].stun == (Stun(10_000, 25), Stun(25_000, 10))


def test_a_vm_goes_off_only_for_what_needs_it_off():
    seen = farm(gpu_host(1, [1, 2]), gpu_host(2), gpu_vm(1, 1), gpu_vm(2, 1))
    running = Step(target=vm(1), summary="a change while it runs")
    plan = rolled(seen, [1], vms={vm(2): wants(VmHardware(memory_reservation="full"))}, extra=[running])
    assert [name for name, _, _ in moves(plan)] == ["train-01"]
    assert plan.impact.power_cycles == (vm(2),)
    (move,), (off,) = does(plan, vm(1), "migrate"), does(plan, vm(2), "power-off")
    assert behind(plan, move, off)  # nothing goes off before the others have found a place


def test_a_vm_that_gets_devices_is_not_moved_to_where_they_may_be_missing():
    seen = farm(gpu_host(1, [1]), gpu_host(2), gpu_vm(1, 1))
    change = {"operation": "add", "device": {"_typeName": "VirtualVmxnet3"}}
    added = Reconfigure(target=vm(1), summary="add an adapter", device_changes=(change,))
    plan = rolled(seen, [1], extra=[added])
    assert (moves(plan), plan.impact.power_cycles) == ([], (vm(1),))


def test_the_gate_wants_moved_vms_running_anywhere():
    plan = rolled(farm(gpu_host(1, [1]), gpu_host(2), gpu_vm(1, 1)), [1])
    (gate,) = (p.step for p in plan.steps if isinstance(p.step, Wait) and p.step.until == "healthy")
    assert gate.vms == (RunningVm(vm(1).ref, "train-01", stays=False),)


GONE = {"runtime.host": "HostSystem:host-9", "runtime.powerState": "poweredOn"}
THERE = {"runtime.host": ESX1.ref, "runtime.powerState": "poweredOn"}
MOVE = lifecycle("migrate", VM, source=ESX1.ref, to=ESX2.ref, timeout=60)


def test_a_move_asks_for_the_host_it_was_placed_on():
    server = Server(THERE, {**THERE, "runtime.host": ESX2.ref})
    do(MOVE, server)
    assert server.calls == [(VM.ref, "MigrateVM_Task", {"host": ESX2.ref, "priority": "defaultPriority"}, 60.0)]


@pytest.mark.parametrize("now", [GONE, {**THERE, "runtime.powerState": "poweredOff"}])
def test_a_vm_that_has_left_or_is_off_is_left_alone(now):
    server = Server(now)
    do(MOVE, server)
    assert server.calls == []


def test_a_move_that_moved_nothing_is_no_success():
    with raising.refused(StepFailed, "step.failed", "train-01"):
        do(MOVE, Server(THERE))


class Hosting(Server):
    """A server whose host has one VM."""

    def __init__(self, facts):
        super().__init__({"runtime.inMaintenanceMode": False})
        self.facts = facts

    def read_objects(self, refs, paths):
        if list(paths) == ["VirtualMachine"]:
            return {VM.ref: Facts(VM.ref, self.facts)}
        if "vm" in paths.get("HostSystem", ()):
            return {ESX1.ref: Facts(ESX1.ref, {"vm": (VM.ref,)})}
        return super().read_objects(refs, paths)


@pytest.mark.parametrize(
    ("power", "device", "refused"),
    [("poweredOn", vgpu_device(1, HALF), True), ("poweredOff", vgpu_device(1, HALF), False),
     ("poweredOn", {"_typeName": "VirtualVmxnet3"}, False)],
)  # fmt: skip
def test_a_vm_that_came_since_planning_is_not_waited_for(power, device, refused):
    server = Hosting({"name": "late", "runtime.host": ESX1.ref, "runtime.powerState": power,
                      "config.hardware.device": (device,)})  # fmt: skip
    enter = lifecycle("enter-maintenance", ESX1, timeout=60, evacuate="vmotion")
    if refused:
        with raising.refused(Conflict, "object.changed", "late"):
            do(enter, server)
        assert server.calls == []
    else:
        do(enter, server)
        assert [method for _, method, *_ in server.calls] == ["EnterMaintenanceMode_Task"]
