"""Worked examples of admission: hosts, VMs and policies with the arithmetic of each, and what the lab refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyVmomi import vim
from support.worked_examples import EXAMPLES, WorkedExamples

from vsphere_ai.lab import admission
from vsphere_ai.lab.admission import Occasion, case_of
from vsphere_ai.lab.build import build
from vsphere_ai.lab.managed.vm_tasks import power
from vsphere_ai.lab.managed.vm_tasks.reconfigure import changed_config
from vsphere_ai.lab.scenario_file import parse

worked = WorkedExamples()
HOST = "cpu_cores: 64, cpu_mhz: 2500, memory_gb: 1024, system_memory_mb: 24576, system_cpu_mhz: 4000"
"""64 cores of 2,500 MHz with 128 threads; 1,024,000 MB and 156,000 MHz for VMs."""
LOAD = "{name: load, host: h, power: on, cpus: 4, memory_gb: 600, memory_reservation_locked: true, overhead_mb: 4000,"
LOAD += " cpu_reservation_mhz: 60000}"
"""Leaves 405,600 MB and 96,000 MHz."""


def farm_of(vms, *, host="", cluster="", more="", load=LOAD):
    listed = "\n".join(f"  - {each}" for each in (load, *vms) if each)
    text = f"name: x\nclusters: [{{name: c{cluster}}}]\nhosts:\n  - {{name: h, cluster: c, {HOST}{host}}}\n{more}"
    return build(parse(f"{text}vms:\n{listed}\n", "x.yml"), "")


def vm(name="v", **fields):
    values = {"host": "h", "cpus": 32, "memory_gb": 64, **fields}
    return f"{{name: {name}, {', '.join(f'{key}: {value}' for key, value in values.items())}}}"


def mo(farm, name):
    kinds = (vim.VirtualMachine, vim.HostSystem, vim.ClusterComputeResource, vim.ResourcePool)
    return next(each for kind in kinds for each in farm.store.of(kind) if each["name"] == name)


def refused(farm, name="v", host="h", occasion=Occasion.POWER_ON, *, by_drs=False):
    case = case_of(farm, mo(farm, name), mo(farm, host), occasion, by_drs=by_drs)
    return list(admission.refusals(case))


def named(farm, *args, **more):
    return [type(fault).__name__.rpartition(".")[2] for fault in refused(farm, *args, **more)]


def on(farm, name, host="h"):
    power.power_on_now(farm, mo(farm, name), mo(farm, host), "test")


LOCKED = {"memory_reservation_locked": "true"}


@worked.rows(
    (1, {"cpus": 128}, "", []),
    (2, {"cpus": 129}, "", ["NotEnoughLogicalCpus"]),
    (3, {"cpus": 96}, ", hyperthreading: false", ["NotEnoughCpus"]),
    (4, {"memory_gb": 393, "overhead_mb": 3124, **LOCKED}, "", []),
    (5, {"memory_gb": 394, "overhead_mb": 3132, **LOCKED}, "", ["InsufficientHostMemoryCapacityFault"]),
    # what the product may not know, the hardware does
    (6, {"memory_gb": 393, "overhead_mb": 3124, **LOCKED}, ", shows_system_resources: false", []),
    (13, {"cpu_reservation_mhz": 100000}, "", ["InsufficientHostCpuCapacityFault"]),
    (14, {"cpus": 20, "latency": "high", "cpu_reservation_mhz": 40000, **LOCKED}, "", ["GenericVmConfigFault"]),
    (
        14,
        {"cpus": 20, "latency": "high", "cpu_reservation_mhz": 40000, "simultaneous_threads": 2, **LOCKED},
        "",
        [],
    ),
    (25, {"hardware": 21}, ", version: 8.0.1", ["VirtualHardwareVersionNotSupported"]),
)
def one_vm_on_one_host(fields, host, wanted):
    assert named(farm_of([vm(**fields)], host=host)) == wanted


def test_the_figures_are_in_the_faults():
    (logical,) = refused(farm_of([vm(cpus=129)]))
    assert (logical.numCpuDest, logical.numCpuVm) == (128, 129)
    (cores,) = refused(farm_of([vm(cpus=96)], host=", hyperthreading: false"))
    assert (cores.numCpuDest, cores.numCpuVm) == (64, 96)
    (memory,) = refused(farm_of([vm(memory_gb=394, overhead_mb=3132, **LOCKED)]))
    assert (memory.unreserved >> 20, memory.requested >> 20) == (405_600, 406_588)
    (mhz,) = refused(farm_of([vm(cpu_reservation_mhz=100_000)]))
    assert (mhz.unreserved, mhz.requested) == (96_000, 100_000)


@worked(7)
def a_swap_file_needs_room():
    stores = "datastores: [{name: vmfs, type: VMFS, capacity_gb: 2000, free_gb: 391}]\n"  # 400,384 MB
    big = {"cpus": 64, "memory_gb": 512, "overhead_mb": 4158, "datastore": "vmfs", "disk_used_gb": 0}
    farm = farm_of([vm(**big), vm("w", **big, memory_reservation_mb=100_000)], more=stores)
    assert named(farm) == ["NoDiskSpace"]
    assert named(farm, "w") == ["NoDiskSpace"], "424,288 MB are still more than 400,384"
    less = farm_of([vm("w", **big, memory_reservation_mb=200_000)], more=stores)
    before = mo_store(less, "vmfs")["summary"].freeSpace
    on(less, "w")
    assert before - mo_store(less, "vmfs")["summary"].freeSpace == (524_288 - 200_000) << 20
    power.power_off_now(less, mo(less, "w"), "test")
    assert mo_store(less, "vmfs")["summary"].freeSpace == before


def mo_store(farm, name):
    return farm.named[f"datastore:{name}"]


@worked(8)
def two_vms_that_fit_each_do_not_fit_both():
    both = {"cpus": 16, "memory_gb": 200, "overhead_mb": 1596, **LOCKED}
    farm = farm_of([vm(**both), vm("w", **both)])
    assert (named(farm), named(farm, "w")) == ([], [])
    on(farm, "v")
    assert named(farm, "w") == ["InsufficientHostMemoryCapacityFault"]


GPU = ', nvidia_driver: 535.54.06, gpus: [{pci: "0000:3b:00.0", board: a100-40gb, graphics_type: sharedDirect}]'


@worked(9)
def a_vgpu_needs_all_memory_reserved_beside_any_other_reason():
    fields = {"memory_gb": 64, "memory_reservation_mb": 32768, "vgpu": "[grid_a100x-10c]", "cpus": 129}
    assert named(farm_of([vm(**fields)], host=GPU)) == ["NotEnoughLogicalCpus", "GenericVmConfigFault"]
    assert "sched.mem.min" in refused(farm_of([vm(**fields)], host=GPU))[-1].faultMessage[-1].message


POOLED = {"cpus": 4, "memory_gb": 16, "overhead_mb": 152, "pool": "p"}
USED = (
    "{name: used, host: h, power: on, cpus: 4, memory_gb: 100, memory_reservation_mb: 89900, overhead_mb: 100, pool: p}"
)


def pool_farm(vms, pool, load=""):
    return farm_of(vms, cluster=f", pools: [{{path: p, {pool}}}]", load=load)


@worked(10)
def a_fixed_pool_gives_what_it_has():
    farm = pool_farm([USED, vm(**POOLED, **LOCKED)], "memory_reservation_mb: 100000, memory_expandable: false")
    (fault,) = refused(farm)
    assert type(fault) is vim.fault.InsufficientMemoryResourcesFault
    assert (fault.unreserved, fault.requested) == (10_485_760_000, 17_339_252_736)
    shown = mo(farm, "p")["runtime"].memory
    assert (shown.reservationUsed, shown.unreservedForVm) == (90_000 << 20, 10_000 << 20)


@worked(11)
def an_expandable_pool_takes_of_the_one_above():
    other = "{name: rest, host: h, power: on, cpus: 4, memory_gb: 900, memory_reservation_mb: 904000, overhead_mb: 0}"
    farm = pool_farm([USED, other, vm(**POOLED, **LOCKED)], "memory_reservation_mb: 100000")
    root = mo(farm, "Resources")
    assert root["runtime"].memory.unreservedForVm == 20_000 << 20
    assert named(farm) == []
    on(farm, "v")
    assert root["runtime"].memory.unreservedForVm == 13_464 << 20


@worked(12)
def a_pool_with_nothing_runs_no_vm():
    farm = pool_farm([vm(**POOLED)], "memory_expandable: false")
    (fault,) = refused(farm)
    assert type(fault) is vim.fault.InsufficientMemoryResourcesFault
    assert (fault.unreserved, fault.requested) == (0, 152 << 20)


@worked.rows(
    (15, ', drs_options: {MaxVCPUsPerCore: "1"}', 64, 60, 8, ["NumVirtualCpusExceedsLimit"]),
    (15, ', drs: "off", drs_options: {MaxVCPUsPerCore: "1"}', 64, 60, 8, []),
    (15, ', drs_options: {MAXVCPUSPERCORE: "2"}', 64, 60, 8, []),
    (16, ', drs_options: {MaxVcpusPerClusterPct: "100"}', 12, 11, 2, ["NumVirtualCpusExceedsLimit"]),
    (16, ', drs_options: {MaxVcpusPerClusterPct: "100"}', 12, 11, 1, []),
)
def drs_keeps_to_its_over_commitment(cluster, cores, before, cpus, wanted):
    running = vm("r", cpus=before).replace("host: h", "host: h, power: on")
    text = f"name: x\nclusters: [{{name: c{cluster}}}]\n"
    text += f"hosts: [{{name: h, cluster: c, cpu_cores: {cores}, threads: 128}}]\n"
    farm = build(parse(f"{text}vms:\n  - {running}\n  - {vm(cpus=cpus)}\n", "x.yml"), "")
    assert named(farm) == wanted


HA = ", ha: {admission_control: percentage, cpu_percent: 25, memory_percent: 25}"


def ha_farm(*needs, ha=HA):
    """Four hosts of 1,024,000 MB whose VMs need 2,900,000 MB; others to be powered on."""
    hosts = f"  - {{name: 'g[1:3]', cluster: c, {HOST}}}\n"
    reserved = "cpus: 4, memory_gb: 900, memory_reservation_mb: 725000, overhead_mb: 0"
    big = [f"{{name: b-{host}, host: {host}, power: on, {reserved}}}" for host in ("h", "g1", "g2", "g3")]
    vms = [vm(f"v{n}", memory_gb=900, memory_reservation_mb=n, overhead_mb=0) for n in needs]
    return farm_of([*big, *vms], cluster=ha, more=hosts, load="")


@worked(17, 18, 19)
def a_percentage_is_kept_for_a_failover():
    farm = ha_farm(230_000, 120_000, 180_000)
    assert named(farm, "v230000") == ["InsufficientFailoverResourcesFault"], "23.58 % are left"
    assert named(farm, "v120000") == [], "26.27 %"
    assert named(farm, "v180000") == ["InsufficientFailoverResourcesFault"], "24.80 %: the lab does not round up"
    shown = mo(farm, "c")["summary"].admissionControlInfo
    assert shown.currentMemoryFailoverResourcesPercent == 29
    assert named(ha_farm(230_000, ha=", ha: true"), "v230000") == []


def slot_farm(*more):
    """Hosts of 9 GHz and 9 GB, 9 and 6, 6 and 6; five VMs of 2/1, 2/1, 1/2, 1/1 and 1/1 GHz and GB that run."""
    sizes = {"h1": (9, 9), "h2": (9, 6), "h3": (6, 6)}
    hosts = "".join(
        f"  - {{name: {name}, cluster: c, cpu_cores: {ghz}, cpu_mhz: 1000, memory_gb: {gb}, system_memory_mb: 0, "
        "system_cpu_mhz: 0}\n"
        for name, (ghz, gb) in sizes.items()
    )
    needs = [(2, 1, "h1", "on"), (2, 1, "h1", "on"), (1, 2, "h2", "on"), (1, 1, "h2", "on"), (1, 1, "h3", "on"), *more]
    vms = "".join(
        f"  - {{name: s{n}, host: {host}, power: {state}, cpus: 1, memory_gb: {gb}, memory_reservation_locked: true, "
        f"overhead_mb: 0, cpu_reservation_mhz: {ghz * 1000}}}\n"
        for n, (ghz, gb, host, state) in enumerate(needs)
    )
    cluster = "clusters: [{name: c, ha: {admission_control: slots, failover_level: 1}}]\n"
    return build(parse(f"name: x\n{cluster}hosts:\n{hosts}vms:\n{vms}", "x.yml"), "")


@worked(20)
def slots_hold_one_vm_more():
    farm = slot_farm((1, 1, "h3", "off"), (1, 1, "h3", "off"))
    assert named(farm, "s5", "h3") == []
    on(farm, "s5", "h3")
    assert named(farm, "s6", "h3") == ["InsufficientFailoverResourcesFault"]


@worked(21)
def one_large_vm_makes_every_slot_large():
    assert named(slot_farm((1, 3, "h1", "off")), "s5", "h1") == ["InsufficientFailoverResourcesFault"]


@worked(22)
def a_failover_host_is_kept():
    more = "  - {name: spare, cluster: c}\n"
    farm = farm_of([vm()], cluster=", ha: {admission_control: hosts, failover_hosts: [spare]}", more=more)
    (fault,) = refused(farm, "v", "spare")
    assert type(fault) is vim.fault.DisallowedOperationOnFailoverHost
    assert named(farm, "v", "h") == []
    assert named(farm, "load", "spare", Occasion.VMOTION) == ["DisallowedOperationOnFailoverHost"]


@worked.rows(
    (23, "mandatory: true", ["VmHostAffinityRuleViolation"]),
    (23, "mandatory: false", []),
    (23, "mandatory: true, enabled: false", []),
)
def a_required_rule_holds_with_drs_off(rule, wanted):
    rules = f', drs: "off", rules: [{{name: r, kind: host-affinity, vms: [v], hosts: [g], {rule}}}]'
    farm = farm_of([vm()], cluster=rules, more="  - {name: g, cluster: c}\n")
    assert named(farm) == wanted


@worked(24)
def vms_apart_bind_drs_and_no_hand():
    rules = ', rules: [{name: apart, kind: anti-affinity, vms: ["a[1:4]"]}]'
    more = "  - {name: 'g[1:2]', cluster: c}\n"
    three = [vm(f"a{n}", host=host).replace("cpus", "power: on, cpus") for n, host in enumerate(("h", "g1", "g2"), 1)]
    farm = farm_of([*three, vm("a4")], cluster=rules, more=more)
    assert [named(farm, "a4", host, by_drs=True) for host in ("h", "g1", "g2")] == [["RuleViolation"]] * 3
    with pytest.raises(vim.fault.RuleViolation):
        power.place(farm, mo(farm, "a4"))
    assert named(farm, "a4") == [], "by hand"
    pinned = farm_of([*three, vm("a4", drs='"off"')], cluster=rules, more=more)
    assert power.place(pinned, mo(pinned, "a4")) is mo(pinned, "h"), "DRS lets it be"


@worked(26)
def dynamic_devices_are_matched_not_taken_in_turn():
    from vsphere_ai.lab.managed.vms.devices_pci import _share_out

    assert _share_out([["a30", "a100"], ["a30"]]) == ["a100", "a30"]
    assert _share_out([["a30"], ["a30"]]) is None


@worked(27)
def a_running_vm_needs_the_features_it_was_shown():
    more = "  - {name: old, cluster: c, cpu: broadwell}\n"
    farm = farm_of([vm()], more=more)
    (fault,) = refused(farm, "load", "old", Occasion.VMOTION)
    assert type(fault) is vim.fault.FeatureRequirementsNotMet
    assert "cpuid.AVX512F" in [each.key for each in fault.featureRequirement]
    assert named(farm, "v", "old") == [], "off it needs none of them"
    masked = farm_of([vm()], cluster=", evc: broadwell", more=more)
    assert named(masked, "load", "old", Occasion.VMOTION) == []


@worked.rows(
    (28, "true", ["CannotAccessVmDevice"]),
    (28, "false", []),
)
def an_image_that_the_target_does_not_reach(connected, wanted):
    more = "  - {name: g, cluster: c}\ndatastores: [{name: isos, hosts: [h]}, {name: vsan-gpu}]\n"
    load = LOAD.replace("cpus: 4", f'cpus: 4, iso: "[isos] tools.iso", iso_connected: {connected}')
    farm = farm_of([], load=load, more=more)
    assert named(farm, "load", "g", Occasion.VMOTION) == wanted


@worked(29)
def a_host_that_enters_maintenance_takes_nothing():
    farm = farm_of([vm()], more="  - {name: g, cluster: c}\n")
    host = mo(farm, "g")
    host.extra["entering"] = object()
    assert host["runtime"].inMaintenanceMode is False
    assert isinstance(refused(farm, "v", "g")[0], vim.fault.InvalidState)
    assert named(farm, "load", "g", Occasion.VMOTION) == ["InvalidHostState"]
    assert named(farm, "v", "g", Occasion.COLD) == ["InvalidHostState"]


@worked.rows(
    (30, 50_000, ["InsufficientHostMemoryCapacityFault"]),
    (30, 70_000, []),
)
def memory_that_grows_is_reserved_too(rest, wanted):
    held = 1_024_000 - (64 << 10) - rest
    load = f"{{name: load, host: h, power: on, memory_gb: 1000, memory_reservation_mb: {held}, overhead_mb: 0}}"
    fields = vm(memory_gb=64, overhead_mb=0, **LOCKED).replace("cpus", "power: on, cpus")
    farm = farm_of([fields], load=load)
    running = mo(farm, "v")
    running["config"].memoryHotAddEnabled = True
    spec = vim.vm.ConfigSpec(memoryMB=128 << 10)
    config, _ = changed_config(farm, running, mo(farm, "h"), spec, powered_on=True)
    case = replace(case_of(farm, running, mo(farm, "h"), Occasion.RECONFIGURE), config=config)
    assert [type(fault).__name__.rpartition(".")[2] for fault in admission.refusals(case)] == wanted


@worked(31)
def a_gpu_of_one_size_takes_no_other():
    fields = {"memory_gb": 16, **LOCKED}
    held = vm("held", vgpu="[grid_a100x-20c]", **fields).replace("cpus", "power: on, cpus")
    window = '{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "128"}'
    farm = farm_of([held, vm(vgpu="[grid_a100x-40c]", extra_config=window, **fields)], host=GPU)
    assert named(farm) == ["InsufficientGraphicsResourcesFault"]


@worked(32)
def drs_does_not_stun_for_longer_than_it_tolerates():
    gpus = ", ".join(
        f'{{pci: "0000:{bus}:00.0", board: a100-80gb, graphics_type: sharedDirect}}' for bus in ("3b", "5e")
    )
    machine = f", version: 8.0.3, nvidia_driver: 550.90.05, gpus: [{gpus}]"
    window = '{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "512"}'
    fields = {"memory_gb": 64, "hardware": 21, "extra_config": window, "vgpu": "[grid_a100dx-80c, grid_a100dx-80c]"}

    def evacuated(option):
        running = vm(**fields, **LOCKED).replace("cpus", "power: on, cpus")
        options = f", drs_options: {{{option}}}" if option else ""
        more = f"  - {{name: g, cluster: c, {HOST}{machine}}}\n"
        farm = farm_of([running], host=machine, cluster=options, more=more, load="")
        return refused(farm, "v", "g", Occasion.EVACUATE, by_drs=True), named(farm, "v", "g", Occasion.VMOTION)

    (fault,), by_hand = evacuated("")
    assert "stun the virtual machine for 194 s, DRS tolerates 100 s" in fault.faultMessage[-1].message
    assert by_hand == []
    assert evacuated('VmDevicesStunTimeTolerated: "200"') == ([], [])


def test_a_host_with_a_gpu_of_each_kind_takes_vms_of_both():
    board = "board: a100-40gb, graphics_type: sharedDirect"
    both = f', nvidia_driver: 535.54.06, gpus: [{{pci: "0000:3b:00.0", {board}, mig: true}}, '
    both += f'{{pci: "0000:5e:00.0", {board}}}]'
    fields = {"memory_gb": 16, **LOCKED}
    vms = [vm(f"m{n}", vgpu="[grid_a100x-3-20c]", **fields) for n in (1, 2, 3)]
    vms += [vm(f"t{n}", vgpu="[grid_a100x-20c]", **fields) for n in (1, 2, 3)]
    farm = farm_of(vms, host=both)
    for name in ("m1", "t1", "m2", "t2"):
        assert named(farm, name) == []
        on(farm, name)
    assert named(farm, "m3") == named(farm, "t3") == ["InsufficientGraphicsResourcesFault"]


def test_a_hole_between_mixed_sizes_is_no_place_for_a_larger_one():
    gpu = ', version: 8.0.3, nvidia_driver: 550.90.05, gpus: [{pci: "0000:3b:00.0", board: l40-48gb, '
    gpu += "graphics_type: sharedDirect, vgpu_mode: mixedSize}]"
    fields = {"memory_gb": 16, "hardware": 21, **LOCKED}
    vms = [vm(f"s{n}", vgpu="[nvidia_l40-12c]", **fields) for n in (1, 2, 3, 4)]
    farm = farm_of([*vms, vm(vgpu="[nvidia_l40-24c]", **fields)], host=gpu)
    for name in ("s1", "s2", "s3", "s4"):
        on(farm, name)
    for name in ("s1", "s3"):  # 24 GB are free, in two halves that do not touch
        power.power_off_now(farm, mo(farm, name), "test")
    assert named(farm) == ["InsufficientGraphicsResourcesFault"]
    power.power_off_now(farm, mo(farm, "s2"), "test")
    assert named(farm) == []


@pytest.mark.parametrize("number", EXAMPLES, ids="{:02}".format)
def test_worked(number):
    assert worked.checks[number]
    for check in worked.checks[number]:
        check()
