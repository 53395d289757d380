"""VMkernel adapters and physical NICs over the API: made, changed, removed, selected, and refused."""

import pytest
from pyVmomi import vim, vmodl

ADDRESS = ("10.21.0.77", "255.255.0.0")


def port(soap, name):
    group = soap.find(vim.dvs.DistributedVirtualPortgroup, name)
    return vim.dvs.PortConnection(switchUuid=group.config.distributedVirtualSwitch.uuid, portgroupKey=group.key)


def spec(soap, name="dvpg-rdma", address=ADDRESS, **more):
    ip = vim.host.IpConfig(dhcp=False, ipAddress=address[0], subnetMask=address[1])
    return vim.host.VirtualNic.Specification(ip=ip, distributedVirtualPort=port(soap, name), **more)


def vnic(host, device):
    return next(v for v in host.config.network.vnic if v.device == device)


def selected(host, kind):
    found = next(c for c in host.config.virtualNicManagerInfo.netConfig if c.nicType == kind)
    return {c.device for c in found.candidateVnic if c.key in found.selectedVnic}


def test_an_adapter_is_made_changed_and_removed(soap):
    host = soap.host("esx01")
    system = host.configManager.networkSystem
    assert {v.device for v in host.config.network.vnic} == {"vmk0", "vmk2"}
    assert system.AddVirtualNic("", spec(soap)) == "vmk1"
    made = vnic(host, "vmk1")
    assert (made.spec.ip.ipAddress, made.spec.mtu, made.spec.netStackInstanceKey) == (
        ADDRESS[0], 1500, "defaultTcpipStack",
    )  # fmt: skip
    assert made.port == made.spec.distributedVirtualPort.portKey
    system.UpdateVirtualNic("vmk1", vim.host.VirtualNic.Specification(mtu=9000))
    system.UpdateVirtualNic("vmk1", vim.host.VirtualNic.Specification(mtu=9000))  # no effect, no entry
    assert (vnic(host, "vmk1").spec.mtu, vnic(host, "vmk1").spec.ip.ipAddress) == (9000, ADDRESS[0])
    system.RemoveVirtualNic("vmk1")
    assert {v.device for v in host.config.network.vnic} == {"vmk0", "vmk2"}
    assert [c for _, c in soap.calls()] == ["AddVirtualNic", "UpdateVirtualNic", "RemoveVirtualNic"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"address": ("10.21.0.300", "255.255.0.0")}, vmodl.fault.InvalidArgument),
        ({"mtu": 9001}, vmodl.fault.InvalidArgument),
        ({"name": "dvpg-lan", "mtu": 9000}, vim.fault.HostConfigFault),  # its switch carries 1500
        ({"address": ("10.21.0.1", "255.255.0.0")}, vim.fault.HostConfigFault),  # vmk2 has it
        ({"name": "dvs-rdma-DVUplinks"}, vmodl.fault.InvalidArgument),
    ],
)
def test_what_no_host_takes(soap, change, fault):
    host = soap.host("esx01")
    assert vnic(host, "vmk2").spec.ip.ipAddress == "10.21.0.1"
    with pytest.raises(fault):
        host.configManager.networkSystem.AddVirtualNic("", spec(soap, **change))
    assert soap.calls() == []


def test_where_no_adapter_can_be(soap):
    system = soap.host("esx-odd").configManager.networkSystem  # a member of no distributed switch
    with pytest.raises(vim.fault.NotFound):
        system.AddVirtualNic("", spec(soap))
    with pytest.raises(vim.fault.NotFound):
        system.AddVirtualNic("no such port group", vim.host.VirtualNic.Specification(ip=spec(soap).ip))
    with pytest.raises(vim.fault.NotFound):
        system.UpdateVirtualNic("vmk7", vim.host.VirtualNic.Specification(mtu=1500))
    with pytest.raises(vmodl.fault.InvalidArgument):
        system.AddVirtualNic("VM Network", spec(soap))
    assert soap.calls() == []


def test_management_is_kept(soap):
    host = soap.host("esx01")
    system, manager = host.configManager.networkSystem, host.configManager.virtualNicManager
    with pytest.raises(vim.fault.NetworkDisruptedAndConfigRolledBack):
        system.UpdateVirtualNic("vmk0", vim.host.VirtualNic.Specification(ip=spec(soap).ip))
    with pytest.raises(vim.fault.HostConfigFault):
        manager.DeselectVnicForNicType("management", "vmk0")
    with pytest.raises(vim.fault.ResourceInUse):
        system.RemoveVirtualNic("vmk0")
    assert soap.calls() == []


def test_what_pvrdma_uses_is_not_removed(soap):
    host = soap.host("esx01")
    options = [vim.option.OptionValue(key="Net.PVRDMAVmknic", value="vmk2")]
    host.configManager.advancedOption.UpdateOptions(options)
    with pytest.raises(vim.fault.ResourceInUse):
        host.configManager.networkSystem.RemoveVirtualNic("vmk2")


def test_traffic_is_selected_and_deselected(soap):
    host = soap.host("esx01")
    manager = host.configManager.virtualNicManager
    assert (selected(host, "management"), selected(host, "vmotion")) == ({"vmk0"}, {"vmk0"})
    manager.SelectVnicForNicType("vmotion", "vmk2")
    manager.SelectVnicForNicType("vmotion", "vmk2")
    manager.DeselectVnicForNicType("vmotion", "vmk0")
    assert selected(host, "vmotion") == {"vmk2"}
    assert manager.QueryNetConfig("vmotion").nicType == "vmotion"
    for kind, device in (("teleport", "vmk0"), ("vmotion", "vmk9")):
        with pytest.raises(vmodl.fault.InvalidArgument):
            manager.SelectVnicForNicType(kind, device)
    assert [c for _, c in soap.calls()] == ["SelectVnicForNicType", "DeselectVnicForNicType"]


def test_the_speed_of_a_nic(soap):
    host = soap.host("esx01")
    system = host.configManager.networkSystem

    def nic():
        return next(n for n in host.config.network.pnic if n.device == "vmnic0")

    assert nic().spec.linkSpeed is None
    system.UpdatePhysicalNicLinkSpeed("vmnic0", vim.host.PhysicalNic.LinkSpeedDuplex(speedMb=1000, duplex=True))
    soap.until(lambda: nic().spec.linkSpeed)
    assert (nic().spec.linkSpeed.speedMb, nic().linkSpeed.speedMb) == (1000, 1000)
    system.UpdatePhysicalNicLinkSpeed("vmnic0")
    soap.until(lambda: nic().spec.linkSpeed is None)
    with pytest.raises(vmodl.fault.InvalidArgument):
        system.UpdatePhysicalNicLinkSpeed("vmnic0", vim.host.PhysicalNic.LinkSpeedDuplex(speedMb=123, duplex=True))
    with pytest.raises(vim.fault.NotFound):
        system.UpdatePhysicalNicLinkSpeed("vmnic9")
    assert len(soap.calls()) == 2


def test_rdma_mtu_follows_the_switch(soap):
    (device,) = soap.host("esx01").config.network.rdmaDevice
    assert (device.device, device.connectionInfo.mtu) == ("vmrdma0", 4096)
