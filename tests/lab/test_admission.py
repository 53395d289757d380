"""Admission over the API: what is refused with which fault, what vCenter shows of it, and that both agree."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl
from support.farm import option

from vsphere_ai.lab import admission

pytestmark = pytest.mark.lab

FARM = """
name: admission
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02, guest_seconds: 0.05}
vcenter: {version: 8.0.3}
clusters:
  - name: a
    swap: hostLocal
    pools:
      - path: lean
        memory_reservation_mb: 10000
        memory_limit_mb: 20000
        memory_expandable: true
        cpu_reservation_mhz: 4000
        cpu_expandable: false
    ha: {admission_control: percentage, cpu_percent: 20, memory_percent: 20}
  - {name: slots, drs: "off", ha: {admission_control: slots}}
switches: [{name: dvs, port_groups: [{name: lan}]}, {name: dvs2, port_groups: [{name: rare}]}]
datastores:
  - {name: vsan-gpu}
  - {name: local1, type: VMFS, hosts: [esx1.lab.local], capacity_gb: 500, free_gb: 100}
  - {name: fast2, type: VMFS, hosts: [esx2.lab.local], capacity_gb: 200, free_gb: 60}
hosts:
  - name: esx1.lab.local
    cluster: a
    version: 8.0.3
    memory_gb: 256
    system_memory_mb: 6144
    nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}, {name: vmnic1, pci: "0000:18:00.1", switch: dvs2}]
  - name: esx2.lab.local
    cluster: a
    version: 8.0.3
    memory_gb: 256
    system_memory_mb: 6144
    swap_datastore: fast2
    nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}]
  - {name: "slot[1:2].lab.local", cluster: slots, version: 8.0.3, hyperthreading: false, shows_system_resources: false}
vms:
  - {name: plain, host: esx1.lab.local, network: lan, memory_gb: 16, power: on}
  - {name: rare, host: esx1.lab.local, network: rare, memory_gb: 16, power: on}
  - {name: local, host: esx1.lab.local, network: lan, memory_gb: 16, datastore: local1, power: on}
  - {name: drive, host: esx1.lab.local, network: lan, memory_gb: 16, iso: client, power: on}
  - {name: thirsty, host: esx2.lab.local, network: lan, memory_gb: 210}
  - {name: lean-1, host: esx1.lab.local, network: lan, memory_gb: 15, memory_reservation_locked: true, pool: lean}
  - {name: lean-2, host: esx1.lab.local, network: lan, memory_gb: 8, memory_reservation_locked: true, pool: lean}
  - {name: busy, host: esx1.lab.local, network: lan, memory_gb: 1, cpu_reservation_mhz: 5000, pool: lean}
  - {name: old, host: esx1.lab.local, network: lan, memory_gb: 8, firmware: bios, tools: running}
  - {name: slot-vm, host: slot1.lab.local, memory_gb: 8, memory_reservation_locked: true, power: on}
"""


@pytest.fixture
def soap(make_lab, new_client):
    return new_client(make_lab(FARM))


def migrate(soap, vm, host):
    soap.wait(soap.vm(vm).MigrateVM_Task(host=soap.host(host), priority="defaultPriority"))


def reconfigure(soap, vm, **fields):
    soap.wait(soap.vm(vm).ReconfigVM_Task(vim.vm.ConfigSpec(**fields)))


def power_on(soap, vm):
    soap.wait(soap.vm(vm).PowerOnVM_Task())


def refused(fault, call, *args, **more):
    with pytest.raises(fault) as caught:
        call(*args, **more)
    assert type(caught.value) is fault
    return caught.value


def test_every_requirement_says_when_it_is_asked_and_where_it_comes_from():
    found = admission.every_requirement()
    assert len({each.name for each in found}) == len(found) >= 20
    for each in found:
        assert each.occasions, each.name
        assert each.faults.__module__.startswith("vsphere_ai.lab.admission.requirements."), each.name
        assert each.faults.__doc__, each.name
    # a restart by HA passes no admission control of vCenter; nothing but these is asked of a VM that stays off, whose
    # files an encrypted one leaves unreadable to a host without its key
    off = {each.name for each in found if admission.Occasion.COLD in each.occasions}
    assert off == {"host_state", "hardware_version", "datastores", "encryption"}
    unchecked = {each.name for each in found if each.group is admission.CheckTests.NONE}
    assert unchecked == {
        "host_rules", "vm_rules", "swap", "drs_overcommitment", "failover", "gpu_places", "stun_time",
    }  # fmt: skip


def test_ancestry_of_the_faults():
    resources = vim.fault.InsufficientResourcesFault
    for kind in (
        vim.fault.InsufficientCpuResourcesFault,
        vim.fault.InsufficientMemoryResourcesFault,
        vim.fault.InsufficientFailoverResourcesFault,
        vim.fault.InsufficientGraphicsResourcesFault,
        vim.fault.NumVirtualCpusExceedsLimit,
        vim.fault.InsufficientHostMemoryCapacityFault,
    ):
        assert issubclass(kind, resources)
    assert issubclass(vim.fault.NotEnoughLogicalCpus, vim.fault.NotEnoughCpus)
    assert issubclass(vim.fault.NotEnoughCpus, vim.fault.VmConfigFault)
    assert issubclass(vim.fault.InvalidHostState, vim.fault.InvalidState)
    assert issubclass(vim.fault.CannotAccessVmDisk, vim.fault.CannotAccessVmComponent)
    assert issubclass(vim.fault.AffinityConfigured, vim.fault.MigrationFault)
    assert issubclass(vim.fault.DisallowedOperationOnFailoverHost, vmodl.RuntimeFault)


def test_what_only_the_source_has_keeps_a_running_vm(soap):
    network = refused(vim.fault.CannotAccessNetwork, migrate, soap, "rare", "esx2")
    assert network.backing == "rare"
    refused(vim.fault.CannotAccessVmConfig, migrate, soap, "local", "esx2")
    drive = refused(vim.fault.DisallowedMigrationDeviceAttached, migrate, soap, "drive", "esx2")
    assert type(drive.fault) is vim.fault.RemoteDeviceNotSupported
    migrate(soap, "plain", "esx2")
    soap.wait(soap.vm("local").PowerOffVM_Task())
    refused(vim.fault.CannotAccessVmConfig, migrate, soap, "local", "esx2")
    soap.wait(soap.vm("drive").PowerOffVM_Task())
    migrate(soap, "drive", "esx2")


SERIAL, PARALLEL, FLOPPY = (
    getattr(vim.vm.device, f"Virtual{name}") for name in ("SerialPort", "ParallelPort", "Floppy")
)
NOWHERE = vim.fault.DisallowedMigrationDeviceAttached


@pytest.mark.parametrize(
    ("device", "backing", "fault"),
    [
        (SERIAL, SERIAL.DeviceBackingInfo(deviceName="/dev/char/serial/uart0"), NOWHERE),
        (SERIAL, SERIAL.URIBackingInfo(serviceURI="telnet://:7001", direction="server"), NOWHERE),
        (SERIAL, SERIAL.URIBackingInfo(serviceURI="x", direction="client", proxyURI="telnet://vspc:13370"), None),
        (SERIAL, SERIAL.FileBackingInfo(fileName="[local1] local/serial.log"), vim.fault.CannotAccessVmDevice),
        (PARALLEL, PARALLEL.DeviceBackingInfo(deviceName="/dev/parport0"), NOWHERE),
        (FLOPPY, FLOPPY.DeviceBackingInfo(deviceName="/dev/fd0"), NOWHERE),
        (FLOPPY, FLOPPY.ImageBackingInfo(fileName="[local1] local/driver.flp"), vim.fault.CannotAccessVmDevice),
    ],
)
@pytest.mark.parametrize("connected", [True, False])
def test_what_a_connected_drive_or_port_uses_keeps_a_running_vm(soap, device, backing, fault, connected):
    if isinstance(backing, vim.vm.device.VirtualDevice.FileBackingInfo):
        backing.datastore = next(s for s in soap.vm("local").datastore if s.name == "local1")
    label, connect = vim.Description(label="Thing 1", summary=""), vim.vm.device.VirtualDevice.ConnectInfo
    link = connect(startConnected=connected, connected=connected, allowGuestControl=True)
    added = device(key=-1, deviceInfo=label, backing=backing, connectable=link)
    soap.wait(soap.vm("plain").PowerOffVM_Task())
    reconfigure(soap, "plain", deviceChange=[vim.vm.device.VirtualDeviceSpec(operation="add", device=added)])
    power_on(soap, "plain")
    if fault is not None and connected:
        refused(fault, migrate, soap, "plain", "esx2")
        soap.wait(soap.vm("plain").PowerOffVM_Task())
    migrate(soap, "plain", "esx2")


def test_a_swap_file_goes_where_the_host_keeps_its_own(soap):
    store = soap.find(vim.Datastore, "fast2")
    assert store.summary.multipleHostAccess is False
    migrate(soap, "plain", "esx2")
    assert store.summary.freeSpace == (60 - 16) << 30, "vMotion makes it on the host-local datastore"
    soap.wait(soap.vm("plain").PowerOffVM_Task())
    assert store.summary.freeSpace == 60 << 30
    # 80 GB find no room there: the directory of the VM is on vSAN, where a swap file is thin
    power_on(soap, "thirsty")
    assert store.summary.freeSpace == 60 << 30
    assert soap.host("esx2").config.localSwapDatastore == store


def test_a_pool_bounds_what_its_vms_reserve_together(soap):
    pool = soap.find(vim.ResourcePool, "lean")
    assert pool.config.memoryAllocation.reservation == 10_000
    power_on(soap, "lean-1")
    held = 15 << 10
    overhead = soap.vm("lean-1").config.initialOverhead.initialMemoryReservation >> 20
    assert pool.runtime.memory.reservationUsedForVm == (held + overhead) << 20
    left = pool.runtime.memory.unreservedForVm >> 20
    assert left == 20_000 - held - overhead, "its limit, not what the cluster has"
    fault = refused(vim.fault.InsufficientMemoryResourcesFault, power_on, soap, "lean-2")
    assert fault.unreserved >> 20 == left
    fault = refused(vim.fault.InsufficientCpuResourcesFault, power_on, soap, "busy")
    assert (fault.unreserved, fault.requested) == (4000, 5000)


def test_ha_stops_a_larger_reservation_and_an_evacuation(soap):
    cluster = soap.find(vim.ClusterComputeResource, "a")
    policy = cluster.configurationEx.dasConfig.admissionControlPolicy
    assert (policy.cpuFailoverResourcesPercent, policy.autoComputePercentages) == (20, False)
    power_on(soap, "thirsty")
    whole = vim.ResourceAllocationInfo(reservation=210 << 10)
    reconfigure(soap, "thirsty", memoryAllocation=whole)
    before = cluster.summary.admissionControlInfo.currentMemoryFailoverResourcesPercent
    assert before == int(100 - 100 * _held(soap, cluster) / _capacity(cluster))
    reconfigure(soap, "plain", memoryAllocation=vim.ResourceAllocationInfo(reservation=16 << 10))
    # 226 GB are no 80 % of what one of the two hosts has
    task = soap.host("esx1").EnterMaintenanceMode_Task(1)
    with pytest.raises(vim.fault.Timedout):
        soap.wait(task)
    found = cluster.ClusterEnterMaintenanceMode([soap.host("esx2")])
    kinds = {type(fault) for each in found.fault.faultsByVm for fault in each.fault}
    assert kinds == {vim.fault.InsufficientFailoverResourcesFault}


def _held(soap, cluster):
    vms = [vm for host in cluster.host for vm in host.vm if vm.runtime.powerState == "poweredOn"]
    needs = [
        vm.config.memoryAllocation.reservation + (vm.config.initialOverhead.initialMemoryReservation >> 20)
        for vm in vms
    ]
    return sum(needs)


def _capacity(cluster):
    return cluster.summary.effectiveMemory


def test_slots_are_shown_as_they_are_counted(soap):
    cluster = soap.find(vim.ClusterComputeResource, "slots")
    info = cluster.RetrieveDasAdvancedRuntimeInfo()
    need = (8 << 10) + (soap.vm("slot-vm").config.initialOverhead.initialMemoryReservation >> 20)
    assert (info.slotInfo.memoryMB, info.slotInfo.cpuMHz) == (need, 32)
    assert (info.usedSlots, info.totalGoodHosts) == (1, 2)
    assert info.totalSlots == sum(each.slots for each in info.hostSlots)
    assert cluster.summary.admissionControlInfo.currentFailoverLevel == 1
    assert {h.runtime.dasHostState.state for h in cluster.host} == {"master", "connectedToMaster"}


def test_what_a_host_shows_is_what_is_judged_by(soap):
    host, other = soap.host("esx1"), soap.host("slot1")
    kept = host.systemResources.config.memoryAllocation.reservation
    assert (host.hardware.memorySize >> 20) - kept == (256 << 10) - 6144
    cluster = soap.find(vim.ClusterComputeResource, "a")
    assert cluster.summary.effectiveMemory == 2 * ((256 << 10) - 6144)
    assert cluster.resourcePool.config.memoryAllocation.limit == cluster.summary.effectiveMemory
    assert other.systemResources is None, "a face that does not show it"
    assert (host.config.hyperThread.active, other.config.hyperThread.active) == (True, False)
    assert other.summary.hardware.numCpuThreads == other.hardware.cpuInfo.numCpuCores == 64
    assert host.capability.maxSupportedVcpus == 768
    assert cluster.configurationEx.vmSwapPlacement == "hostLocal"
    vm = soap.vm("plain")
    shown = {each.key for each in host.config.maskedFeatureCapability}
    assert {each.key for each in vm.runtime.featureRequirement} == shown
    assert [each.key for each in soap.vm("thirsty").runtime.offlineFeatureRequirement] == ["cpuid.LM"]
    assert not soap.vm("thirsty").runtime.featureRequirement
    assert vm.config.memoryAllocation.overheadLimit > vm.config.initialOverhead.initialMemoryReservation >> 20


def test_a_vm_of_bios_that_is_switched_to_efi_never_comes_up(soap):
    vm = soap.vm("old")
    power_on(soap, "old")
    assert vm.guest.toolsRunningStatus == "guestToolsRunning"
    soap.wait(vm.PowerOffVM_Task())
    reconfigure(soap, "old", firmware="efi")
    power_on(soap, "old")
    assert (vm.runtime.powerState, vm.guest.toolsRunningStatus) == ("poweredOn", "guestToolsNotRunning")
    spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(host=soap.host("esx1")), powerOn=True)
    soap.wait(vm.PowerOffVM_Task())
    made = soap.wait(vm.CloneVM_Task(vm.parent, "copy", spec))
    soap.until(lambda: made.runtime.powerState == "poweredOn")
    assert made.guest.toolsRunningStatus == "guestToolsNotRunning", "its disks were installed with BIOS too"


def test_a_clone_that_is_to_be_powered_on_succeeds_where_its_power_on_fails(soap):
    vm = soap.vm("thirsty")
    more = vim.vm.ConfigSpec(memoryMB=400 << 10, memoryReservationLockedToMax=True)
    where = vim.vm.RelocateSpec(host=soap.host("esx2"))
    spec = vim.vm.CloneSpec(location=where, powerOn=True, config=more)
    made = soap.wait(vm.CloneVM_Task(vm.parent, "large", spec))
    soap.until(lambda: [task.info.state for task in made.recentTask if task.info.descriptionId] == ["error"])
    assert made.runtime.powerState == "poweredOff"
    assert type(made.recentTask[0].info.error) is vim.fault.InsufficientHostMemoryCapacityFault


def test_memory_that_a_host_has_not_is_not_reserved_while_a_vm_runs(soap):
    big = vim.ResourceAllocationInfo(reservation=16 << 10)
    reconfigure(soap, "plain", memoryAllocation=big)
    power_on(soap, "thirsty")
    reconfigure(soap, "thirsty", extraConfig=[option("note", "kept")])
    soap.wait(soap.vm("thirsty").PowerOffVM_Task())
    reconfigure(soap, "thirsty", memoryMB=250 << 10)  # all that the host has for VMs, without the overhead
    power_on(soap, "thirsty")
    lacking = vim.fault.InsufficientHostMemoryCapacityFault
    refused(lacking, reconfigure, soap, "thirsty", memoryReservationLockedToMax=True)
    assert soap.vm("thirsty").config.memoryReservationLockedToMax is False


def test_advice_changes_nothing(soap):
    cluster = soap.find(vim.ClusterComputeResource, "a")
    spec = vim.cluster.PlacementSpec(vm=soap.vm("plain"), placementType="relocate", hosts=[soap.host("esx2")])
    (found,) = cluster.PlaceVm(spec).recommendations
    assert found.action[0].targetHost == soap.host("esx2")
    spec.vm = soap.vm("rare")
    assert type(cluster.PlaceVm(spec).drsFault.faultsByVm[0].fault[0]) is vim.fault.CannotAccessNetwork
    manager = soap.content.overheadMemoryManager
    overhead = soap.vm("plain").config.initialOverhead.initialMemoryReservation
    assert manager.LookupVmOverheadMemory(soap.vm("plain"), soap.host("esx1")) == overhead
    assert soap.host("esx1").QueryMemoryOverheadEx(soap.vm("plain").config) == overhead
    assert cluster.FindRulesForVm(soap.vm("plain")) == []
    assert cluster.GetResourceUsage().memCapacityMB == cluster.summary.effectiveMemory
    assert soap.calls() == []
