"""Switches and ports as community scripts on pyVmomi use them: base types, criteria, every field of a port group."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl

Vds = vim.dvs.VmwareDistributedVirtualSwitch
PortGroup = vim.dvs.DistributedVirtualPortgroup


@pytest.fixture
def lan(soap):
    return soap.find(vim.DistributedVirtualSwitch, "dvs-lan")


def criteria(**fields):
    return vim.dvs.PortCriteria(**fields)


def group_of(soap, name="dvpg-lan"):
    return soap.find(PortGroup, name)


def add(soap, switch, **fields):
    spec = PortGroup.ConfigSpec(**{"name": "new", "type": "earlyBinding", "numPorts": 16, **fields})
    soap.wait(switch.AddDVPortgroup_Task([spec]))
    return group_of(soap, fields.get("name", "new"))


def test_connected_ports_say_by_whom_and_how_they_are_set(soap, lan):
    group = group_of(soap)
    ports = lan.FetchDVPorts(criteria(portgroupKey=[group.key], inside=True, connected=True))
    vms = {p.connectee.connectedEntity.name: p for p in ports if p.connectee.type == "vmVnic"}
    assert set(vms) == {f"train-0{n}" for n in (1, 2, 3, 4)} | {"infra-01"}
    hosts = sorted(p.connectee.connectedEntity.name for p in ports if p.connectee.type == "hostVmkVnic")
    assert hosts == [f"esx0{n}.lab.local" for n in (1, 2, 3)]
    port = vms["train-01"]
    assert port.connectee.nicKey == "4000"
    assert port.proxyHost.name == "esx01.lab.local"
    assert (port.config.setting.vlan.vlanId, port.config.setting.vlan.inherited) == (20, False)
    assert port.state.runtimeInfo.linkUp
    assert [(v.start, v.end) for v in port.state.runtimeInfo.vlanIds] == [(20, 20)]
    assert not vms["train-04"].state.runtimeInfo.linkUp, "its VM is off"


def test_every_criterion_counts(soap, lan):
    group, esx01 = group_of(soap), soap.host("esx01")
    everything = {p.key: p for p in lan.FetchDVPorts()}
    assert len(everything) == lan.config.numPorts == lan.summary.numPorts

    def keys(**fields):
        found = lan.FetchDVPortKeys(criteria(**fields))
        assert found == [p.key for p in lan.FetchDVPorts(criteria(**fields))]
        return set(found)

    inside = keys(portgroupKey=[group.key], inside=True)
    assert inside == {k for k, p in everything.items() if p.portgroupKey == group.key} == set(group.portKeys)
    assert keys(portgroupKey=[group.key], inside=False) == everything.keys() - inside
    assert keys(portgroupKey=[group.key]) == everything.keys(), "without `inside` the groups do not count"
    assert keys(connected=True) | keys(connected=False) == everything.keys()
    assert keys(uplinkPort=True) == set(group_of(soap, "dvs-lan-DVUplinks").portKeys)
    assert {everything[k].connectee.connectedEntity.name for k in keys(host=[esx01])} == {
        "esx01.lab.local", "train-01", "train-02",
    }  # fmt: skip
    active = keys(active=True)
    assert active < keys(connected=True)
    assert keys(portKey=[next(iter(active))], active=False) == set()
    assert len(keys(portKey=[next(iter(active))])) == 1
    assert keys(nsxPort=True) == set()


def test_uplinks_are_connected_where_a_nic_is(soap, lan):
    ports = lan.FetchDVPorts(criteria(uplinkPort=True, host=[soap.host("esx02")]))
    assert {p.connectee.nicKey: p.config.name for p in ports} == {"vmnic0": "Uplink 1", "vmnic1": "Uplink 2"}
    assert {p.connectee.type for p in ports} == {"pnic"}


def test_a_port_group_is_as_its_spec_says(soap, lan):
    policy = PortGroup.PortgroupPolicy(
        blockOverrideAllowed=False,
        shapingOverrideAllowed=True,
        vendorConfigOverrideAllowed=False,
        livePortMovingAllowed=True,
        portConfigResetAtDisconnect=False,
    )
    group = add(soap, lan, numPorts=3, autoExpand=False, description="for tests", policy=policy)
    config = group.config
    assert (config.type, config.numPorts, config.autoExpand, config.description) == (
        "earlyBinding", 3, False, "for tests",
    )  # fmt: skip
    assert (config.policy.livePortMovingAllowed, config.policy.portConfigResetAtDisconnect) == (True, False)
    assert len(group.portKeys) == 3
    assert [p.connectee for p in lan.FetchDVPorts(criteria(portgroupKey=[group.key], inside=True))] == [None] * 3
    loose = add(soap, lan, name="loose", type="ephemeral", numPorts=50)
    assert (loose.config.type, loose.config.numPorts, loose.portKeys) == ("ephemeral", 0, [])
    with pytest.raises(vmodl.fault.InvalidArgument):
        add(soap, lan, name="bad", type="midBinding")


def test_a_port_group_that_does_not_expand_runs_out_of_ports(soap, lan):
    group = add(soap, lan, numPorts=1, autoExpand=False)
    switch = lan.config
    port = vim.dvs.PortConnection(switchUuid=switch.uuid, portgroupKey=group.key)
    card = vim.vm.device.VirtualVmxnet3(
        key=-1, backing=vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    )
    added = vim.vm.device.VirtualDeviceSpec(operation="add", device=card)
    for vm in ("train-01", "train-02"):
        task = soap.vm(vm).ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[added]))
        if vm == "train-01":
            soap.wait(task)
    with pytest.raises(vim.fault.ResourceNotAvailable):
        soap.wait(task)
    with pytest.raises(vim.fault.ResourceInUse):
        soap.wait(group.ReconfigureDVPortgroup_Task(PortGroup.ConfigSpec(numPorts=0)))
    device = next(d for d in soap.vm("train-01").config.hardware.device if d.key == 4001)
    gone = vim.vm.device.VirtualDeviceSpec(operation="remove", device=device)
    soap.wait(soap.vm("train-01").ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[gone])))
    soap.wait(soap.vm("train-02").ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[added])))  # its port is free again
    soap.wait(group.ReconfigureDVPortgroup_Task(PortGroup.ConfigSpec(autoExpand=True)))
    soap.wait(soap.vm("train-01").ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[added])))
    assert len(group.portKeys) == group.config.numPorts == 9


def test_a_port_group_is_changed_by_the_base_types_and_by_what_is_so_already(soap, lan):
    group = add(soap, lan, defaultPortConfig=vim.dvs.DistributedVirtualPort.Setting())
    version = group.config.configVersion
    same = PortGroup.ConfigSpec(
        configVersion=version, name="new", type="earlyBinding", numPorts=16, policy=group.config.policy
    )
    same.defaultPortConfig = group.config.defaultPortConfig
    soap.wait(group.ReconfigureDVPortgroup_Task(same))
    assert group.config.configVersion == version, "nothing was asked for"
    soap.wait(group.ReconfigureDVPortgroup_Task(PortGroup.ConfigSpec(name="newer", numPorts=32, description="d")))
    assert (group.name, group.config.name, group.config.numPorts, group.config.description) == (
        "newer", "newer", 32, "d",
    )  # fmt: skip
    with pytest.raises(vim.fault.DuplicateName):
        soap.wait(group.ReconfigureDVPortgroup_Task(PortGroup.ConfigSpec(name="dvpg-lan")))
    with pytest.raises(vmodl.fault.NotSupported):
        soap.wait(group.ReconfigureDVPortgroup_Task(PortGroup.ConfigSpec(type="ephemeral")))


def test_a_switch_takes_the_base_type_and_what_is_so_already(soap, lan):
    spec = vim.DistributedVirtualSwitch.ConfigSpec(configVersion=lan.config.configVersion, name="dvs-lan")
    member = vim.dvs.HostMember.ConfigSpec(host=soap.host("esx01"), operation="edit")
    member.backing = lan.config.host[0].config.backing
    spec.host = [member]
    soap.wait(lan.ReconfigureDvs_Task(spec))  # as govmomi sends it
    assert soap.calls() == []
    soap.wait(lan.ReconfigureDvs_Task(vim.DistributedVirtualSwitch.ConfigSpec(description="of the office")))
    assert lan.config.description == "of the office"
    folder = soap.find(vim.Datacenter, "DC0").networkFolder
    base = vim.DistributedVirtualSwitch.CreateSpec(
        configSpec=vim.DistributedVirtualSwitch.ConfigSpec(name="base", description="made")
    )
    made = soap.wait(folder.CreateDVS_Task(base))
    assert (made.config.maxMtu, made.config.description) == (1500, "made")
