"""Worked examples of admission: one host with figures that are known exactly, and every verdict with its fault.

The host has 64 cores, 128 logical processors of 2,500 MHz, 1,024,000 MB for VMs of which 618,400 MB are taken, and
156,000 MHz of which 60,000 are taken.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import estates as make
from support.admission_farm import CLUSTER, HARDWARE, HOST, MB, POOL, RUNNING, STORE, answer, farm, gb, vm
from support.worked_examples import EXAMPLES, WorkedExamples

from vsphere_ai.admission.admit import admit
from vsphere_ai.admission.machine import Bounds, Machine
from vsphere_ai.admission.situation import Situation
from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import observe
from vsphere_ai.resources import kinds

worked = WorkedExamples()


def one_after_another(situation, *machines):
    """Answers for VMs that power on one after another; the situation stays as it is."""
    at, found = situation.copy(), {}
    for machine in machines:
        found[machine.ref] = admit(machine, at.view.estate[HOST], at, "power_on")
        at.arrive(machine, HOST)
    return found


def ha(policy, info=None, *, enabled=True, **more):
    das = {"enabled": True, "admissionControlEnabled": enabled, "admissionControlPolicy": policy}
    return {"configurationEx": {"dasConfig": das}, "summary.admissionControlInfo": info or {}, **more}


QUARTER = {
    "_typeName": "ClusterFailoverResourcesAdmissionControlPolicy",
    "cpuFailoverResourcesPercent": 1,
    "memoryFailoverResourcesPercent": 25,
}
LEFT = {"currentMemoryFailoverResourcesPercent": 29.2, "currentCpuFailoverResourcesPercent": 90}
BIG = {"summary.effectiveMemory": 4_096_000, "summary.effectiveCpu": 640_000}


@worked.rows(
    (1, {}, vm(cpus=128), "yes", ""),
    (2, {}, vm(cpus=129), "no", "NotEnoughLogicalCpus"),
    (3, {"config.hyperThread": {"active": False}}, vm(cpus=96), "no", "NotEnoughCpus"),
    (4, {}, vm(cpus=32, memory_mb=gb(393), reserved_mb=gb(393), overhead_mb=3124), "yes", ""),
    (
        5,
        {},
        vm(cpus=32, memory_mb=gb(394), reserved_mb=gb(394), overhead_mb=3132),
        "no",
        "InsufficientHostMemoryCapacityFault",
    ),
    (
        6,
        {"systemResources.config.memoryAllocation.reservation": None},
        vm(cpus=32, memory_mb=gb(393), reserved_mb=gb(393), overhead_mb=3124),
        "unknown",
        "",
    ),
    (9, {}, vm(memory_mb=gb(64), reserved_mb=gb(32), demands_all_memory=("a vGPU",)), "no", "GenericVmConfigFault"),
    (13, {}, vm(reserved_mhz=100_000), "no", "InsufficientHostCpuCapacityFault"),
    (14, {}, vm(cpus=20, latency_high=True, reserved_mhz=40_000), "no", "InsufficientHostCpuCapacityFault"),
    (14, {}, vm(cpus=20, latency_high=True, reserved_mhz=40_000, threads_per_core=2), "yes", ""),
    (25, {}, vm(version=21), "no", "VirtualHardwareVersionNotSupported"),
    ("newer", {"config.product": {"version": "99.0.0"}}, vm(version=98), "unknown", ""),
    ("disconnected", {"runtime.connectionState": "disconnected"}, vm(), "no", "HostNotConnected"),
)
def the_host_itself(host, machine, verdict, fault):
    told, faults, _ = answer(farm(**host), machine)
    assert told == verdict
    assert faults == ({fault} if fault else set())


@worked(7)
def no_room_for_the_swap_file():
    store = {"summary": {"type": "VMFS", "freeSpace": 400_000 * MB}, "host": ({"key": HOST, "mountInfo": {}},)}
    large = vm(cpus=32, memory_mb=gb(512), datastores=(STORE,), home=STORE, overhead_mb=4158)
    assert answer(farm(store=store), large)[:2] == ("no", {"NoDiskSpace"})
    assert answer(farm(store=store), replace(large, reserved_mb=100_000))[:2] == ("no", {"NoDiskSpace"})
    assert answer(farm(store=store), replace(large, reserved_mb=150_000))[0] == "yes"
    thin = {**store, "summary": {"type": "vsan", "freeSpace": 400_000 * MB}}
    assert answer(farm(store=thin), large)[0] == "yes"


@worked(8)
def two_that_each_fit_do_not_fit_together():
    situation = farm()
    one = vm(cpus=16, memory_mb=gb(200), reserved_mb=gb(200), overhead_mb=1596)
    two = replace(one, ref="VirtualMachine:second", name="second")
    found = one_after_another(situation, one, two)
    assert [found[m.ref].answer for m in (one, two)] == ["yes", "no"]
    assert situation.load(HOST).memory_mb == Bounds(618_400, 618_400), "the situation is as it was"


def pool(reservation, used, *, unreserved, expandable=False, limit=-1):
    allocation = {"reservation": reservation, "limit": limit, "expandableReservation": expandable}
    usage = {"reservationUsed": used * MB, "unreservedForVm": unreserved * MB}
    return {"config": {"memoryAllocation": allocation}, "runtime": {"memory": usage}}


@worked.rows(
    (10, pool(100_000, 90_000, unreserved=10_000), gb(16), "no"),
    (11, pool(100_000, 90_000, unreserved=30_000, expandable=True), gb(16), "yes"),
    (12, pool(0, 0, unreserved=0), 0, "no"),
    ("limit", pool(0, 0, unreserved=90_000, expandable=True, limit=16_000), gb(16), "no"),
)
def resource_pools(own, reserved, verdict):
    machine = vm(reserved_mb=reserved, pool=POOL)
    told, faults, _ = answer(farm(pool=own), machine)
    assert told == verdict
    assert faults == ({"InsufficientMemoryResourcesFault"} if verdict == "no" else set())


def test_what_the_plan_takes_of_a_pool_counts():
    situation = farm(pool=pool(100_000, 60_000, unreserved=40_000))
    first = vm(memory_mb=gb(24), reserved_mb=gb(24), pool=POOL)
    second = replace(first, ref="VirtualMachine:second", name="second")
    found = one_after_another(situation, first, second)
    assert [found[m.ref].answer for m in (first, second)] == ["yes", "no"]


@worked.rows(
    (15, ("MaxVCPUsPerCore", "1"), 60, 8, True, "no"),
    (15, ("MaxVCPUsPerCore", "1"), 60, 8, False, "yes"),
    (16, ("MaxVcpusPerClusterPct", "100"), 63, 2, True, "no"),
    ("within", ("maxvcpuspercore", "2"), 60, 8, True, "yes"),
)
def over_commitment_of_drs(option, running, new, enabled, verdict):
    drs = {"enabled": enabled, "option": ({"key": option[0], "value": option[1]},)}
    situation = farm(cluster={"configurationEx": {"drsConfig": drs}}, running=(replace(RUNNING, cpus=running),))
    assert answer(situation, vm(cpus=new))[0] == verdict


@worked.rows(
    (17, 230_000, True, "no"),
    (18, 120_000, True, "yes"),
    (18, 180_000, True, "unknown"),
    (19, 230_000, False, "yes"),
)
def high_availability_by_percentage(need, enabled, verdict):
    situation = farm(cluster=ha(QUARTER, LEFT, enabled=enabled, **BIG))
    machine = vm(memory_mb=need, reserved_mb=need, overhead_mb=0)
    told, faults, _ = answer(situation, machine)
    assert told == verdict
    assert faults == ({"InsufficientFailoverResourcesFault"} if verdict == "no" else set())


SLOTS = {"_typeName": "ClusterFailoverLevelAdmissionControlPolicy", "failoverLevel": 1}


def slots_of(policy=SLOTS, das=(), **more):
    """Hosts of 9 GHz and 9 GB, 9 and 6, 6 and 6, on which VMs of 2 and 1, 2 and 1, 1 and 2, 1 and 1, 1 and 1 run."""
    sizes = [(2, 1), (2, 1), (1, 2), (1, 1), (1, 1)]
    running = [
        Machine(f"VirtualMachine:{n}", f"v{n}", 1, 1, gb(mem), gb(mem), reserved_mhz=1000 * cpu)
        for n, (cpu, mem) in enumerate(sizes)
    ]
    sized = {"summary.hardware.cpuMhz": 1000, "systemResources.config.cpuAllocation.reservation": 1000}
    sized |= {"systemResources.config.memoryAllocation.reservation": 1024}
    others = [
        Facts(f"HostSystem:{n}", HARDWARE | sized | {
            "name": f"h{n}", "summary.hardware.numCpuCores": cpu + 1, "hardware.memorySize": (gb(mem) + 1024) * MB,
        })
        for n, (cpu, mem) in enumerate([(9, 6), (6, 6)])
    ]  # fmt: skip
    cluster = ha(policy)
    cluster["configurationEx"]["dasConfig"]["option"] = das
    own = {**sized, "summary.hardware.numCpuCores": 10, "hardware.memorySize": gb(10) * MB, **more}
    return farm(cluster=cluster, running=running, objects=others, **own)


def sized(cpu, mem):
    return vm(cpus=1, memory_mb=gb(mem), reserved_mb=gb(mem), reserved_mhz=1000 * cpu, overhead_mb=0)


@worked(20)
def slots_of_the_largest_host_stay_free():
    """A slot has 2 GHz and 2 GB: the hosts have 4, 3 and 3 of them, so 6 without the largest."""
    situation = slots_of()
    new = [replace(sized(1, 1), ref=f"VirtualMachine:new {n}") for n in (1, 2)]
    found = one_after_another(situation, *new)
    assert [found[m.ref].answer for m in new] == ["yes", "no"]
    assert {r.fault for r in found[new[1].ref].refusals} == {"InsufficientFailoverResourcesFault"}
    # what is not known of one host, or how many may fail, leaves it open
    assert answer(slots_of(**{"summary.hardware.cpuMhz": None}), sized(0, 1))[0] == "unknown"
    assert answer(slots_of({"_typeName": SLOTS["_typeName"]}), sized(1, 1))[0] == "unknown"


@worked(21)
def a_large_reservation_makes_every_slot_large():
    """A slot has 2 GHz and 3 GB: 3, 2 and 2, without the largest 4 for 6 VMs, though there is memory."""
    assert answer(slots_of(), sized(1, 3))[:2] == ("no", {"InsufficientFailoverResourcesFault"})
    # advanced options keep slots small: that VM takes two of 1.5 GB
    limited = ({"key": "das.slotMemInMB", "value": "1536"}, {"key": "das.slotCpuInMHz", "value": "1000"})
    assert answer(slots_of(das=limited), sized(1, 3))[0] == "no"
    # and so can a VM without reservation have a large one
    least = ({"key": "das.vmMemoryMinMB", "value": str(gb(3))},)
    assert answer(slots_of(das=least), sized(1, 1))[0] == "no"
    fixed = {**SLOTS, "slotPolicy": {"_typeName": "ClusterFixedSizeSlotPolicy", "cpu": 2000, "memory": gb(2)}}
    assert answer(slots_of(fixed), sized(1, 2))[0] == "yes"
    assert answer(slots_of(fixed), sized(1, 3))[0] == "no"


def test_a_vm_needs_a_slot_that_is_left_on_other_hosts():
    """One host alone covers no failure: every VM that is to power on there is refused, and so is what was on."""
    assert answer(farm(cluster=ha(SLOTS)), vm())[:2] == ("no", {"InsufficientFailoverResourcesFault"})
    off_again = farm(cluster=ha(SLOTS, {"currentFailoverLevel": 0}))
    assert answer(off_again, RUNNING, "power_cycle")[:2] == ("no", {"InsufficientFailoverResourcesFault"})
    assert answer(farm(cluster=ha(SLOTS, {"currentFailoverLevel": 1})), RUNNING, "power_cycle")[0] == "yes"


@pytest.mark.parametrize(("left", "verdict"), [(25, "yes"), (20, "no")])
def test_what_was_on_is_refused_where_ha_keeps_less_than_it_has_to(left, verdict):
    """As after somebody has raised what HA keeps, or a host has failed."""
    info = {"currentMemoryFailoverResourcesPercent": left, "currentCpuFailoverResourcesPercent": 90}
    assert answer(farm(cluster=ha(QUARTER, info, **BIG)), RUNNING, "power_cycle")[0] == verdict


@worked(22)
def a_dedicated_failover_host_powers_nothing_on():
    policy = {"_typeName": "ClusterFailoverHostAdmissionControlPolicy", "failoverHosts": (HOST,)}
    assert answer(farm(cluster=ha(policy)), vm())[:2] == ("no", {"DisallowedOperationOnFailoverHost"})


def rule_of_hosts(*, mandatory, enabled=True, hosts=("HostSystem:elsewhere",), drs=False):
    rule = {
        "_typeName": "ClusterVmHostRuleInfo",
        "name": "licence",
        "enabled": enabled,
        "mandatory": mandatory,
        "vmGroupName": "vms",
        "affineHostGroupName": "hosts",
    }
    groups = ({"name": "vms", "vm": ("VirtualMachine:new",)}, {"name": "hosts", "host": hosts})
    return {"configurationEx": {"rule": (rule,), "group": groups, "drsConfig": {"enabled": drs}}}


@worked.rows(
    (23, "power_on"),
    (23, "power_cycle"),
    (23, "vmotion"),
    (23, "evacuate"),
    (23, "ha_restart"),
)
def a_mandatory_rule_holds_with_drs_off(occasion):
    told, faults, _ = answer(farm(cluster=rule_of_hosts(mandatory=True)), vm(), occasion)
    assert (told, faults) == ("no", {"VmHostAffinityRuleViolation"})
    told, _, rules = answer(farm(cluster=rule_of_hosts(mandatory=False)), vm(), occasion)
    assert told == "yes"
    assert "admission.host-rule" in rules
    told, _, rules = answer(farm(cluster=rule_of_hosts(mandatory=True, enabled=False)), vm(), occasion)
    assert told == "yes"
    assert "admission.host-rule" not in rules
    assert answer(farm(cluster=rule_of_hosts(mandatory=True, hosts=())), vm(), occasion)[0] == "no"


def rule_of_vms(*, mandatory=False, drs=True, excluded=False, apart=True):
    rule = {
        "_typeName": "ClusterAntiAffinityRuleSpec" if apart else "ClusterAffinityRuleSpec",
        "name": "pair",
        "enabled": True,
        "mandatory": mandatory,
        "vm": ("VirtualMachine:new", "VirtualMachine:other"),
    }
    overrides = ({"key": "VirtualMachine:new", "enabled": False},) if excluded else ()
    return {"configurationEx": {"rule": (rule,), "drsConfig": {"enabled": drs}, "drsVmConfig": overrides}}


@worked(24)
def a_rule_between_vms_refuses_where_drs_places():
    assert answer(farm(cluster=rule_of_vms()), vm())[:2] == ("no", {"RuleViolation"})
    for remark in (rule_of_vms(drs=False), rule_of_vms(excluded=True)):
        told, _, rules = answer(farm(cluster=remark), vm())
        assert told == "yes"
        assert "admission.vm-rule" in rules
    assert answer(farm(cluster=rule_of_vms(drs=False, mandatory=True)), vm())[0] == "no"
    assert answer(farm(cluster=rule_of_vms(apart=False)), vm())[0] == "yes", "the other one runs there"


A30, A100 = (0x10DE, 0x20B7), (0x10DE, 0x20F1)


@worked(26)
def dynamic_devices_are_matched_together():
    devices = tuple(
        {"id": f"0000:{bus}:00.0", "vendorId": v, "deviceId": d, "classId": 0x0302, "deviceName": "GPU"}
        for bus, (v, d) in (("3b", A30), ("5b", A100))
    )
    passed = tuple(
        {"id": d["id"], "passthruCapable": True, "passthruEnabled": True, "passthruActive": True} for d in devices
    )
    situation = farm(**{"hardware.pciDevice": devices, "config.pciPassthruInfo": passed})
    either, small = pci.Claim(models=frozenset({A30, A100})), pci.Claim(models=frozenset({A30}))
    locked = vm(reserved_mb=gb(16), window_gb=256, firmware="efi")
    assert answer(situation, replace(locked, claims=(either, small)))[0] == "yes"
    assert answer(situation, replace(locked, claims=(small, small)))[0] == "no"
    assert answer(situation, replace(locked, claims=(pci.Claim("0000:3b:00.0"), small)))[0] == "no"


@worked(27)
def a_running_vm_needs_the_features_that_it_has_seen():
    needed = ({"key": "cpuid.avx512f", "value": "Bool:Min:1"},)
    shown = ({"key": "cpuid.avx512f", "value": "0"},)
    situation = farm(**{"config.maskedFeatureCapability": shown})
    estate = situation.view.estate
    moved = estate["VirtualMachine:new"].having({"runtime.featureRequirement": needed})
    situation = Situation.as_read(View(estate.with_objects([moved])), situation.machines)
    assert answer(situation, vm(), "vmotion")[:2] == ("no", {"FeatureRequirementsNotMet"})
    assert answer(situation, vm(), "power_on")[0] == "yes"


@worked(28)
def a_connected_image_keeps_a_vm_where_its_datastore_is():
    iso = Facts("Datastore:iso", {"name": "isos", "host": ({"key": "HostSystem:elsewhere"},)})
    situation = farm(objects=(iso,))
    drive = vm(remote=(("CD/DVD drive 1", "[isos] linux.iso"),))
    assert answer(situation, drive, "vmotion")[:2] == ("no", {"CannotAccessVmDevice"})
    assert answer(situation, drive, "power_on")[0] == "yes"
    assert answer(situation, vm(), "vmotion")[0] == "yes", "a disconnected drive does not count"


@worked(29)
def a_host_that_enters_maintenance_takes_nothing():
    """`inMaintenanceMode` is false as long as the task runs; at other moments the plan itself has the host out."""
    task = Facts("Task:t", {"info.descriptionId": "HostSystem.enterMaintenanceMode", "info.state": "running"})
    entered, out = farm(objects=(task,), recentTask=("Task:t",)), farm()
    out.down = frozenset({HOST})
    for occasion in ("power_on", "vmotion", "clone"):
        for situation in (entered, out):
            assert answer(situation, vm(), occasion)[:2] == ("no", {"InvalidHostState"})


@worked.rows(
    (30, 50_000, "no"),
    (30, 70_000, "yes"),
)
def more_memory_of_a_running_locked_vm(free, verdict):
    machine = vm(memory_mb=gb(64), reserved_mb=gb(64))
    taken = 1_024_000 - free - machine.memory_need_mb.low
    other = replace(RUNNING, memory_mb=int(taken), reserved_mb=int(taken), overhead_mb=Bounds(0, 0))
    situation = farm(running=(other, machine))
    grown = replace(machine, memory_mb=gb(128), reserved_mb=gb(128))
    assert answer(situation, grown, "reconfigure")[0] == verdict


@worked(31)
def a_gpu_of_equal_sizes_takes_no_other_size():
    """The only GPU has a 20C; in mixed-size mode there is room beside it, but not for a 40C either."""
    device = make.vgpu_device(1000, "grid_a100-20c")
    listed = tuple(f"grid_a100-{size}c" for size in (4, 5, 8, 10, 20, 40))

    def asked(size, mode="sameSize"):
        info = {**make.gpu_info(make.PCI[0], "sharedDirect", (RUNNING.ref,)), "vgpuMode": mode}
        held = Facts(RUNNING.ref, {"name": "other", "runtime.host": HOST, "runtime.powerState": "poweredOn",
                           "config.hardware.device": (device,)})  # fmt: skip
        graphics = make.host(make.ESX1, active="sharedDirect").get("config.graphicsConfig")
        gpus = {
            "config.graphicsInfo": (info,),
            "config.graphicsConfig": graphics,
            "config.sharedPassthruGpuTypes": listed,
            "hardware.pciDevice": (make.pci_device(make.PCI[0], make.A100),),
        }
        running = replace(RUNNING, vgpus=("grid_a100-20c",))
        situation = farm(running=(running,), **gpus)
        estate = situation.view.estate.with_objects([held])
        view = View(estate, observe(estate, kinds()))
        at = Situation(view, situation.machines, situation.running)
        whole = vm(memory_mb=gb(16), reserved_mb=gb(16), vgpus=(f"grid_a100-{size}c",), firmware="efi")
        return answer(at, whole)

    assert asked(40)[:2] == ("no", {"InsufficientGraphicsResourcesFault"})
    assert asked(10)[:2] == ("no", {"InsufficientGraphicsResourcesFault"})
    assert asked(20)[0] == "yes"
    assert asked(40, "mixedSize")[:2] == ("no", {"InsufficientGraphicsResourcesFault"})
    assert asked(10, "mixedSize")[0] == "unknown", "the place of the 20C was not read"


@worked(32)
def drs_does_not_stun_for_longer_than_it_tolerates():
    """91 s and 25 s are more than 100 s together; a limit of the VM itself is nothing that the API shows."""
    times = {"grid_a100-40c": [[10_000, 91], [25_000, 40]], "grid_a100-10c": [[10_000, 25], [25_000, 10]]}
    slow = {name: estimates[:1] for name, estimates in times.items()}

    def asked(estimates, options=(), version="8.0.2", occasion="evacuate", vgpus=("grid_a100-40c", "grid_a100-10c")):
        drs = {"configurationEx": {"drsConfig": {"enabled": True, "option": options}}}
        situation = farm(cluster=drs, **{"query:vgpu profiles": estimates})
        about = replace(situation.view.estate.about, version=version)
        estate = replace(situation.view.estate, about=about)
        at = Situation(View(estate), situation.machines, situation.running)
        found = admit(vm(vgpus=vgpus), estate[HOST], at, occasion)
        return [(r.verdict, r.message) for r in found.reasons if r.rule == "admission.stun-time"]

    assert asked(slow) == [("no", "its vGPUs would stun it for 116 s at 10 Gbit/s, and DRS tolerates 100 s")]
    assert [verdict for verdict, _ in asked(times)] == ["unknown"], "at 25 Gbit/s it is 50 s"
    assert asked(slow, ({"key": "VmDevicesStunTimeTolerated", "value": "120"},)) == []
    assert asked(slow, vgpus=("grid_a100-40c",)) == []
    assert asked(slow, version="8.0.1") == asked(slow, occasion="vmotion") == asked({}) == []


def test_a_datastore_of_another_host_and_a_network_that_is_missing():
    store = {"summary": {"type": "VMFS"}, "host": ({"key": "HostSystem:elsewhere", "mountInfo": {}},)}
    other = Facts("HostSystem:elsewhere", {"name": "other", "parent": CLUSTER, "network": ("Network:n",)})
    situation = farm(store=store, objects=(Facts("Network:n", {"name": "lan"}), other))
    machine = vm(datastores=(STORE,), networks=("Network:n",))
    for occasion in ("power_on", "vmotion", "evacuate", "clone", "cold_move", "ha_restart"):
        told, faults, _ = answer(situation, machine, occasion)
        assert (told, faults) == ("no", {"CannotAccessVmDisk", "CannotAccessNetwork"})


@pytest.mark.parametrize("occasion", ["power_on", "vmotion", "evacuate", "ha_restart"])
def test_a_device_by_its_address_ties_a_vm_to_one_host(occasion):
    machine = vm(reserved_mb=gb(16), claims=(pci.Claim("0000:3b:00.0"),), tied_to="HostSystem:elsewhere")
    _, _, rules = answer(farm(), machine, occasion)
    assert "admission.fixed-device" in rules
    assert "admission.fixed-device" not in answer(farm(), replace(machine, tied_to=HOST), occasion)[2]


def test_what_was_not_read_is_unknown_and_never_zero():
    told, faults, _ = answer(farm(**{"hardware.memorySize": None}), vm())
    assert (told, faults) == ("unknown", set())
    assert answer(farm(), replace(vm(), reserved_mb=None))[0] == "unknown"
    assert answer(farm(**{"summary.hardware.numCpuThreads": None}), vm())[0] == "unknown"


@pytest.mark.parametrize("number", EXAMPLES, ids="{:02}".format)
def test_worked(number):
    assert worked.checks[number]
    for check in worked.checks[number]:
        check()


@pytest.mark.parametrize("check", worked.others.values(), ids=worked.others)
def test_beside_the_examples(check):
    check()
