"""Network adapters and virtual functions in the lab: what it gives, what it refuses, and what a power-on claims."""

import pytest
from pyVmomi import vim, vmodl
from support.farm import DEV, device_spec, devices_of, pvrdma, reboot, reconfigure

NIC = DEV.VirtualEthernetCard
SRIOV = DEV.VirtualSriovEthernetCard
PF = "0000:5e:00.0"
AUTO = "Automatic-0000:00:00.0"


def on(soap, name, typ=DEV.VirtualVmxnet3, key=-1, **fields):
    group = soap.find(vim.dvs.DistributedVirtualPortgroup, name)
    switch = group.config.distributedVirtualSwitch.uuid
    port = vim.dvs.PortConnection(switchUuid=switch, portgroupKey=group.key)
    return typ(key=key, backing=NIC.DistributedVirtualPortBackingInfo(port=port), **fields)


def sriov(soap, function=AUTO, name="dvpg-rdma", key=-1):
    backing = DEV.VirtualPCIPassthrough.DeviceBackingInfo(
        id=function, deviceId="0", systemId="BYPASS", vendorId=0, deviceName=""
    )
    return on(soap, name, SRIOV, key, sriovBacking=SRIOV.SriovBackingInfo(physicalFunctionBacking=backing))


def functions(host, count, enabled=True, passthrough=False, pci=PF):
    config = vim.host.SriovConfig(id=pci, passthruEnabled=passthrough, sriovEnabled=enabled, numVirtualFunction=count)
    host.configManager.pciPassthruSystem.UpdatePassthruConfig([config])


def info(host, pci=PF):
    return next(i for i in host.config.pciPassthruInfo if i.id == pci)


def seen(host):
    found = info(host)
    return found.sriovEnabled, found.sriovActive, found.numVirtualFunctionRequested, found.numVirtualFunction


# -- virtual functions of a host


def test_functions_are_there_after_a_restart(soap):
    host = soap.host("esx03")
    assert seen(host) == (False, False, 0, 0)
    functions(host, 4)
    functions(host, 4)
    assert seen(host) == (True, False, 4, 0)
    assert host.summary.rebootRequired
    assert soap.calls() == [("esx03.lab.local", "UpdatePassthruConfig")]
    reboot(soap, host)
    assert seen(host) == (True, True, 4, 4)
    assert not host.summary.rebootRequired
    functions(host, 0, enabled=False)
    assert seen(host) == (False, True, 0, 4)


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"count": 17}, vmodl.fault.InvalidArgument),
        ({"count": 0}, vmodl.fault.InvalidArgument),
        ({"count": 4, "pci": "0000:aa:00.0"}, vmodl.fault.InvalidArgument),
        ({"count": 4, "passthrough": True}, vim.fault.HostConfigFault),
    ],
)
def test_what_a_host_refuses(soap, asked, fault):
    host = soap.host("esx03")
    with pytest.raises(fault):
        functions(host, **asked)
    assert soap.calls() == []


def test_nothing_of_a_list_counts_when_one_is_refused(soap):
    host = soap.host("esx03")
    good = vim.host.SriovConfig(id=PF, passthruEnabled=False, sriovEnabled=True, numVirtualFunction=2)
    bad = vim.host.SriovConfig(id="0000:18:00.0", passthruEnabled=False, sriovEnabled=True, numVirtualFunction=99)
    with pytest.raises(vmodl.fault.InvalidArgument):
        host.configManager.pciPassthruSystem.UpdatePassthruConfig([good, bad])
    assert seen(host) == (False, False, 0, 0)


# -- SR-IOV adapters


@pytest.fixture
def two(soap):
    """A VM that is off, on a host with two virtual functions."""
    functions(soap.host("esx02"), 2)
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    reboot(soap, soap.host("esx02"))
    return soap.vm("train-04")


def test_a_power_on_claims_a_function(soap, two):
    other = soap.vm("train-03")
    for vm, count in ((two, 1), (other, 2)):
        cards = [device_spec(sriov(soap, key=-n)) for n in range(1, count + 1)]
        reconfigure(soap, vm, memoryReservationLockedToMax=True, deviceChange=cards)
    soap.wait(two.PowerOnVM_Task())
    with pytest.raises(vim.fault.GenericVmConfigFault, match="power on failed"):
        soap.wait(other.PowerOnVM_Task())
    soap.wait(two.PowerOffVM_Task())
    soap.wait(other.PowerOnVM_Task())
    with pytest.raises(vim.fault.InvalidPowerState):
        reconfigure(soap, other, deviceChange=[device_spec(devices_of(other, SRIOV)[0], "remove")])


def test_the_function_has_to_be_behind_the_port_group(soap, two):
    reconfigure(soap, two, memoryReservationLockedToMax=True, deviceChange=[device_spec(sriov(soap, name="dvpg-lan"))])
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(two.PowerOnVM_Task())


def test_sriov_needs_the_memory_reserved(soap, two):
    reconfigure(soap, two, deviceChange=[device_spec(sriov(soap, PF))])
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(two.PowerOnVM_Task())


def test_what_a_reconfigure_refuses(soap):
    vm, odd = soap.vm("train-04"), soap.find(vim.VirtualMachine, "odd-01")
    lan = devices_of(vm, DEV.VirtualVmxnet3)[0]
    plain = NIC.NetworkBackingInfo(deviceName="VM Network")
    manual = {"addressType": "manual"}
    cases = [
        (vm, sriov(soap, "0000:aa:00.0"), "add", vim.fault.InvalidDeviceBacking),
        (vm, SRIOV(key=-1, backing=lan.backing), "add", vim.fault.InvalidDeviceBacking),
        (vm, DEV.VirtualE1000e(key=-1, backing=plain), "add", vim.fault.InvalidDeviceBacking),
        (vm, on(soap, "dvpg-lan", macAddress="00:50:56:80:00:01", **manual), "add", vim.fault.InvalidDeviceSpec),
        (vm, on(soap, "dvpg-lan", macAddress="01:02:03:04:05:06", **manual), "add", vim.fault.InvalidDeviceSpec),
        (vm, on(soap, "dvpg-lan", **manual), "add", vim.fault.InvalidDeviceSpec),
        (vm, on(soap, "dvpg-lan", DEV.VirtualE1000e, lan.key), "edit", vim.fault.InvalidDeviceSpec),
        (odd, sriov(soap), "add", vim.fault.InvalidDeviceBacking),
    ]
    for target, device, operation, fault in cases:
        with pytest.raises(fault):
            reconfigure(soap, target, deviceChange=[device_spec(device, operation)])
    with pytest.raises(vim.fault.TooManyDevices):
        reconfigure(soap, vm, deviceChange=[device_spec(on(soap, "dvpg-lan", key=-n)) for n in range(1, 11)])
    assert soap.calls() == []


# -- ordinary adapters


def test_adapters_come_and_go_while_the_vm_runs(soap):
    vm = soap.vm("train-01")
    first = devices_of(vm, NIC)[0]
    plain = DEV.VirtualDevice.ConnectInfo(startConnected=False, allowGuestControl=True, connected=False)
    reconfigure(soap, vm, deviceChange=[
        device_spec(on(soap, "dvpg-lan")), device_spec(on(soap, "dvpg-lan", DEV.VirtualE1000e, -2, connectable=plain)),
    ])  # fmt: skip
    cards = devices_of(vm, NIC)
    assert [c.unitNumber for c in cards] == [7, 8, 9]
    assert [c.connectable.connected for c in cards] == [True, True, False]
    assert len({c.macAddress for c in cards}) == 3
    reconfigure(soap, vm, deviceChange=[device_spec(cards[1], "remove")])
    reconfigure(soap, vm, deviceChange=[device_spec(on(soap, "dvpg-lan", key=-1))])
    assert [c.unitNumber for c in sorted(devices_of(vm, NIC), key=lambda c: c.unitNumber)] == [7, 8, 9]
    assert devices_of(vm, NIC)[0].key == first.key


def test_an_address_is_changed_while_the_vm_is_off(soap):
    vm = soap.vm("train-01")
    card = devices_of(vm, NIC)[0]
    given = card.macAddress
    card.addressType, card.macAddress = "manual", "00:50:56:0A:0B:0C"
    with pytest.raises(vim.fault.InvalidPowerState):
        reconfigure(soap, vm, deviceChange=[device_spec(card, "edit")])
    soap.wait(vm.PowerOffVM_Task())
    reconfigure(soap, vm, deviceChange=[device_spec(card, "edit")])
    now = devices_of(vm, NIC)[0]
    assert (now.addressType, now.macAddress) == ("manual", "00:50:56:0a:0b:0c")
    assert now.backing.port.portKey == card.backing.port.portKey
    now.addressType, now.macAddress = "generated", ""
    reconfigure(soap, vm, deviceChange=[device_spec(now, "edit")])
    now = devices_of(vm, NIC)[0]
    assert now.addressType == "assigned"  # vCenter gives addresses itself
    assert now.macAddress == given


def test_an_edit_of_the_connection_keeps_the_rest(soap):
    vm = soap.vm("train-04")
    card = devices_of(vm, NIC)[0]
    card.connectable.startConnected, card.connectable.connected = True, True
    reconfigure(soap, vm, deviceChange=[device_spec(card, "edit")])
    assert not devices_of(vm, NIC)[0].connectable.connected  # it is off
    group = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    reconfigure(soap, vm, deviceChange=[device_spec(pvrdma(group))])
    assert len(devices_of(vm, NIC)) == 2
