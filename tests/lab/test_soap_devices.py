"""Devices of a VM: vGPU and PVRDMA, and what the product refuses."""

import pytest
from pyVmomi import vim, vmodl
from support.farm import (
    DEV,
    PCI,
    device_spec,
    devices_of,
    full_gpu_spec,
    option,
    pvrdma,
    ready,
    reconfigure,
    vgpu,
)


def test_vgpu_add_power_on_and_remove(soap):
    ready(soap, "esx02")
    vm = soap.vm("train-04")
    macs = [n.macAddress for n in devices_of(vm, DEV.VirtualEthernetCard)]
    version = vm.config.changeVersion
    reconfigure(soap, vm, changeVersion=version, **full_gpu_spec())
    assert vm.config.changeVersion != version
    device = devices_of(vm, PCI)[0]
    assert (device.key, device.backing.vgpu, device.deviceInfo.label) == (13000, "grid_a100-40c", "PCI device 0")
    assert vm.config.memoryAllocation.reservation == vm.config.hardware.memoryMB
    assert [n.macAddress for n in devices_of(vm, DEV.VirtualEthernetCard)] == macs
    soap.wait(vm.PowerOnVM_Task())
    with pytest.raises(vim.fault.InvalidPowerState):
        reconfigure(soap, vm, deviceChange=[device_spec(device, "remove")])
    soap.wait(vm.PowerOffVM_Task())
    change = [device_spec(device, "remove"), device_spec(vgpu("grid_a100-20c"))]
    reconfigure(soap, vm, deviceChange=change)
    assert [d.backing.vgpu for d in devices_of(vm, PCI)] == ["grid_a100-20c"]


def test_reconfigure_refusals(soap):
    vm = soap.vm("train-04")
    stale = vm.config.changeVersion
    reconfigure(soap, vm, annotation="x")
    nic = devices_of(vm, DEV.VirtualVmxnet3)[0]
    ghost = DEV.VirtualVmxnet3(key=4999, backing=nic.backing)
    cases = [
        ({"changeVersion": stale, "annotation": "y"}, vim.fault.ConcurrentAccess),
        ({"deviceChange": [device_spec(vgpu("grid_h100-80c"))]}, vim.fault.InvalidDeviceBacking),
        ({"deviceChange": [device_spec(ghost, "remove")]}, vim.fault.InvalidDeviceSpec),
        ({"deviceChange": [device_spec(ghost, "edit")]}, vim.fault.InvalidDeviceSpec),
        ({"deviceChange": [device_spec(vgpu("grid_a100-4c", -n)) for n in range(1, 6)]}, vim.fault.TooManyDevices),
        ({"firmware": "coreboot"}, vmodl.fault.InvalidArgument),
        ({"version": "vmx-19"}, vmodl.fault.InvalidArgument),
        ({"memoryAllocation": vim.ResourceAllocationInfo(reservation=1 << 30)}, vmodl.fault.InvalidArgument),
        ({"npivWorldWideNameOp": "generate"}, vmodl.fault.NotSupported),
    ]
    now = vm.config.changeVersion
    for spec, fault in cases:
        with pytest.raises(fault):
            reconfigure(soap, vm, **spec)
    assert vm.config.changeVersion == now
    assert soap.calls() == [("train-04", "ReconfigVM_Task")]


def test_pvrdma_rules(soap):
    rdma = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    uplink = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvs-rdma-DVUplinks")
    vm = soap.vm("train-04")
    reconfigure(soap, vm, deviceChange=[device_spec(pvrdma(rdma, deviceProtocol="rocev2"))])
    adapter = devices_of(vm, DEV.VirtualVmxnet3Vrdma)[0]
    assert (adapter.key, adapter.deviceProtocol, adapter.deviceInfo.label) == (4001, "rocev2", "Network adapter 2")
    assert adapter.macAddress.startswith("00:50:56:")
    assert adapter.backing.port.portKey
    assert rdma in vm.network
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(vm.PowerOnVM_Task())
    reconfigure(soap, vm, memoryReservationLockedToMax=True)
    soap.wait(vm.PowerOnVM_Task())
    plain = pvrdma(rdma)
    plain.backing = DEV.VirtualEthernetCard.NetworkBackingInfo(deviceName="VM Network")
    odd = soap.vm("odd-01")
    off = soap.vm("train-04")
    soap.wait(off.PowerOffVM_Task())
    for machine, device, fault in (
        (off, pvrdma(uplink), vim.fault.InvalidDeviceBacking),
        (off, plain, vim.fault.InvalidDeviceBacking),
        (off, pvrdma(rdma, deviceProtocol="rocev3"), vim.fault.InvalidDeviceSpec),
        (odd, plain, vim.fault.InvalidDeviceBacking),
    ):
        with pytest.raises(fault):
            reconfigure(soap, machine, deviceChange=[device_spec(device)])
    edited = devices_of(off, DEV.VirtualVmxnet3Vrdma)[0]
    mac = edited.macAddress
    edited.deviceProtocol, edited.macAddress = "rocev1", None
    reconfigure(soap, off, deviceChange=[device_spec(edited, "edit")])
    now = devices_of(off, DEV.VirtualVmxnet3Vrdma)[0]
    assert (now.deviceProtocol, now.macAddress, now.deviceInfo.label) == ("rocev1", mac, "Network adapter 2")


@pytest.mark.parametrize(
    ("leave_out", "fault"),
    [
        ("memoryReservationLockedToMax", vim.fault.GenericVmConfigFault),
        ("extraConfig", vim.fault.GenericVmConfigFault),
        ("efi", vim.fault.GenericVmConfigFault),
    ],
)
def test_a_full_vgpu_needs_reservation_mmio_and_efi(soap, leave_out, fault):
    ready(soap, "esx02")
    vm, spec = soap.vm("train-04"), full_gpu_spec()
    spec.pop(leave_out, None)
    if leave_out == "efi":
        spec["firmware"] = "bios"
    reconfigure(soap, vm, **spec)
    with pytest.raises(fault, match="DevicePowerOn"):
        soap.wait(vm.PowerOnVM_Task())
    assert vm.runtime.powerState == "poweredOff"


def test_no_graphics_resource_before_the_host_is_shared_direct(soap):
    vm = soap.vm("train-04")
    reconfigure(soap, vm, **full_gpu_spec())
    with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault, match="graphics resource"):
        soap.wait(vm.PowerOnVM_Task())
    checker = soap.content.vmCompatibilityChecker
    results = soap.wait(checker.CheckPowerOn_Task(vm))
    assert len(results) == 3
    assert all(r.error for r in results)
    assert ("train-04", "PowerOnVM_Task") not in soap.calls()


def test_two_whole_gpus_for_one_vm(soap):
    ready(soap, "esx02")
    vm, spec = soap.vm("train-04"), full_gpu_spec()
    spec["deviceChange"] = [device_spec(vgpu("grid_a100-40c", -n)) for n in (1, 2)]
    reconfigure(soap, vm, **spec)
    assert [d.deviceInfo.label for d in devices_of(vm, PCI)] == ["PCI device 0", "PCI device 1"]
    with pytest.raises(vim.fault.GenericVmConfigFault):  # 2 x 40 GB want a window of 256 GB
        soap.wait(vm.PowerOnVM_Task())
    reconfigure(soap, vm, extraConfig=[option("pciPassthru.64bitMMIOSizeGB", "256")])
    soap.wait(vm.PowerOnVM_Task())
    assert all(i.vm == [vm] for i in soap.host("esx02").config.graphicsInfo)
    other = soap.vm("train-03")  # went down with the forced reboot
    reconfigure(soap, other, **full_gpu_spec())
    with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
        soap.wait(other.PowerOnVM_Task())


def test_several_fractions_for_one_vm_are_refused_before_8_0(soap):
    ready(soap, "esx02")
    vm = soap.vm("train-04")
    change = [device_spec(vgpu("grid_a100-20c", -n)) for n in (1, 2)]
    reconfigure(soap, vm, memoryReservationLockedToMax=True, deviceChange=change)
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(vm.PowerOnVM_Task())


def test_more_pvrdma_adapters_than_the_hardware_version_has(soap):
    group = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    vm = soap.vm("train-04")
    two = [device_spec(pvrdma(group, -n)) for n in (1, 2)]
    with pytest.raises(vim.fault.TooManyDevices):
        reconfigure(soap, vm, deviceChange=two)
    soap.wait(vm.UpgradeVM_Task("vmx-19"))
    reconfigure(soap, vm, deviceChange=two)
    macs = [d.macAddress for d in devices_of(vm, DEV.VirtualEthernetCard)]
    assert len(set(macs)) == 3


def test_a_nic_may_be_added_while_the_vm_runs(soap):
    vm = soap.vm("train-01")
    nic = devices_of(vm, DEV.VirtualVmxnet3)[0]
    group = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    port = vim.dvs.PortConnection(switchUuid=group.config.distributedVirtualSwitch.uuid, portgroupKey=group.key)
    backing = DEV.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    reconfigure(soap, vm, deviceChange=[device_spec(DEV.VirtualVmxnet3(key=-1, backing=backing))])
    added = next(d for d in devices_of(vm, DEV.VirtualVmxnet3) if d.key != nic.key)
    assert added.connectable.connected
    with pytest.raises(vim.fault.InvalidPowerState):
        reconfigure(soap, vm, deviceChange=[device_spec(pvrdma(group))])
