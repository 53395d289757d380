"""Distributed switches, port groups and members of the simulated vCenter: what takes effect, and what is refused."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl

VDS = vim.dvs.VmwareDistributedVirtualSwitch
GROUP = vim.dvs.DistributedVirtualPortgroup
MEMBER = vim.dvs.HostMember


@pytest.fixture
def rdma(soap):
    return soap.find(vim.DistributedVirtualSwitch, "dvs-rdma")


@pytest.fixture
def lan(soap):
    return soap.find(vim.DistributedVirtualSwitch, "dvs-lan")


def folder(soap):
    return soap.content.rootFolder.childEntity[0].networkFolder


def names(*uplinks):
    return vim.DistributedVirtualSwitch.NameArrayUplinkPortPolicy(uplinkPortName=list(uplinks))


def making(name, version=None, **config):
    product = vim.dvs.ProductSpec(version=version) if version else None
    return vim.DistributedVirtualSwitch.CreateSpec(configSpec=VDS.ConfigSpec(name=name, **config), productInfo=product)


def join(dvs, host, operation, *nics, version=None):
    """Reconfigure one member; NICs are names, or (name, port key)."""
    pairs = [nic if isinstance(nic, tuple) else (nic, None) for nic in nics]
    backing = MEMBER.PnicBacking(pnicSpec=[MEMBER.PnicSpec(pnicDevice=n, uplinkPortKey=k) for n, k in pairs])
    spec = MEMBER.ConfigSpec(operation=operation, host=host, backing=backing)
    return dvs.ReconfigureDvs_Task(VDS.ConfigSpec(host=[spec], configVersion=version))


def proxy(host, name):
    return next((p for p in host.config.network.proxySwitch if p.dvsName == name), None)


def ports(host, name):
    return {kv.value: kv.key for kv in proxy(host, name).uplinkPort}


def told(lab, call):
    return [e["detail"] for e in lab.get("/lab/ledger")["entries"] if e["call"] == call]


# -- switches


def test_a_switch_is_made_with_its_uplink_group(soap, lab):
    made = soap.wait(
        folder(soap).CreateDVS_Task(making("dvs-new", "7.0.0", maxMtu=9000, uplinkPortPolicy=names("A", "B")))
    )
    assert (made.name, made.config.maxMtu, made.config.productInfo.version) == ("dvs-new", 9000, "7.0.0")
    assert list(made.config.uplinkPortPolicy.uplinkPortName) == ["A", "B"]
    (group,) = made.portgroup
    assert group.config.uplink
    assert group == made.config.uplinkPortgroup[0]
    assert group in soap.content.rootFolder.childEntity[0].network
    assert told(lab, "CreateDVS_Task") == [{"version": "7.0.0", "mtu": 9000, "uplinks": ["A", "B"]}]
    assert soap.find(vim.DistributedVirtualSwitch, "dvs-new") == made


def test_a_switch_gets_what_vcenter_gives_where_nothing_is_said(soap):
    made = soap.wait(folder(soap).CreateDVS_Task(making("dvs-new")))
    assert (made.config.maxMtu, made.config.productInfo.version) == (1500, "7.0.2")
    assert list(made.config.uplinkPortPolicy.uplinkPortName) == [f"Uplink {n}" for n in range(1, 5)]
    assert not made.config.networkResourceManagementEnabled


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (making("dvs-rdma"), vim.fault.DuplicateName),
        (making("dvpg-lan"), vim.fault.DuplicateName),
        (making(""), vim.fault.InvalidName),
        (making("x" * 81), vim.fault.InvalidName),
        (making("new", "7.0.3"), vmodl.fault.InvalidArgument),
        (making("new", "1.2.3"), vmodl.fault.InvalidArgument),
        (making("new", maxMtu=9001), vmodl.fault.InvalidArgument),
        (making("new", uplinkPortPolicy=names("A", "A")), vmodl.fault.InvalidArgument),
        (making("new", numStandalonePorts=8), vmodl.fault.NotSupported),
    ],
)
def test_a_switch_that_cannot_be_is_refused(soap, spec, fault):
    with pytest.raises(fault):
        soap.wait(folder(soap).CreateDVS_Task(spec))
    assert soap.calls() == []


def test_other_folders_take_no_switch(soap):
    with pytest.raises(vmodl.fault.NotSupported):
        soap.content.rootFolder.childEntity[0].vmFolder.CreateDVS_Task(making("dvs-new"))


def test_the_mtu_reaches_the_members(soap, rdma):
    before = rdma.config.configVersion
    soap.wait(rdma.ReconfigureDvs_Task(VDS.ConfigSpec(maxMtu=1500, configVersion=before)))
    assert (rdma.config.maxMtu, rdma.config.configVersion) == (1500, str(int(before) + 1))
    assert {proxy(soap.host(f"esx0{n}"), "dvs-rdma").mtu for n in (1, 2, 3)} == {1500}
    soap.wait(rdma.ReconfigureDvs_Task(VDS.ConfigSpec(maxMtu=1500)))
    assert soap.calls() == [("dvs-rdma", "ReconfigureDvs_Task")]


def test_a_stale_version_of_the_configuration_is_refused(soap, rdma):
    stale = rdma.config.configVersion
    soap.wait(rdma.ReconfigureDvs_Task(VDS.ConfigSpec(maxMtu=1500, configVersion=stale)))
    with pytest.raises(vim.fault.ConcurrentAccess):
        soap.wait(rdma.ReconfigureDvs_Task(VDS.ConfigSpec(maxMtu=9000, configVersion=stale)))
    assert rdma.config.maxMtu == 1500


def test_new_uplinks_give_every_member_a_port_and_inherited_orders_follow(soap, rdma):
    host, group = soap.host("esx01"), soap.find(GROUP, "dvpg-rdma")
    soap.wait(rdma.ReconfigureDvs_Task(VDS.ConfigSpec(uplinkPortPolicy=names("Uplink 1", "Uplink 2"))))
    assert set(ports(host, "dvs-rdma")) == {"Uplink 1", "Uplink 2"}
    order = group.config.defaultPortConfig.uplinkTeamingPolicy.uplinkPortOrder
    assert (order.inherited, list(order.activeUplinkPort)) == (True, ["Uplink 1", "Uplink 2"])


def test_an_uplink_with_a_nic_does_not_go(soap, lan):
    with pytest.raises(vim.fault.ResourceInUse):
        soap.wait(lan.ReconfigureDvs_Task(VDS.ConfigSpec(uplinkPortPolicy=names("Uplink 1"))))
    assert list(lan.config.uplinkPortPolicy.uplinkPortName) == ["Uplink 1", "Uplink 2"]


def test_versions_go_up_only_and_not_above_the_members(soap, lab, rdma):
    made = soap.wait(folder(soap).CreateDVS_Task(making("dvs-new", "6.6.0")))
    product = vim.dvs.ProductSpec(version="7.0.0")
    soap.wait(made.PerformDvsProductSpecOperation_Task("upgrade", product))
    assert made.config.productInfo.version == "7.0.0"
    assert made.summary.productInfo.version == "7.0.0"
    for switch, version, fault in (
        (made, "6.6.0", vmodl.fault.NotSupported),
        (made, "8.0.0", vmodl.fault.InvalidArgument),
        (made, "x", vmodl.fault.InvalidArgument),
    ):
        with pytest.raises(fault):
            soap.wait(switch.PerformDvsProductSpecOperation_Task("upgrade", vim.dvs.ProductSpec(version=version)))
    assert told(lab, "PerformDvsProductSpecOperation_Task") == [{"before": "6.6.0", "version": "7.0.0"}]
    soap.wait(join(soap.wait(folder(soap).CreateDVS_Task(making("dvs-old", "6.6.0"))), soap.host("esx-odd"), "add"))
    old = soap.find(vim.DistributedVirtualSwitch, "dvs-old")
    with pytest.raises(vim.fault.DvsFault, match=r"esx-odd\.lab\.local"):
        soap.wait(old.PerformDvsProductSpecOperation_Task("upgrade", vim.dvs.ProductSpec(version="7.0.2")))


def test_network_io_control_and_shares(soap, rdma):
    resource = vim.DistributedVirtualSwitch.HostInfrastructureTrafficResource

    def shares(key, number, level="custom"):
        given = vim.SharesInfo(shares=number, level=level)
        allocation = resource.ResourceAllocation(limit=-1, reservation=0, shares=given)
        spec = VDS.ConfigSpec(infrastructureTrafficResourceConfig=[resource(key=key, allocationInfo=allocation)])
        soap.wait(rdma.ReconfigureDvs_Task(spec))
        return {r.key: (r.allocationInfo.shares.shares, r.allocationInfo.shares.level)
                for r in rdma.config.infrastructureTrafficResourceConfig}  # fmt: skip

    before = shares("vmotion", 50, "normal")
    assert soap.calls() == []
    assert shares("vmotion", 75) == {**before, "vmotion": (75, "custom")}
    assert shares("vmotion", 1, "low") == {**before, "vmotion": (25, "low")}
    for key, number in (("vmotion", 101), ("tea", 50)):
        with pytest.raises(vmodl.fault.InvalidArgument):
            shares(key, number)
    rdma.EnableNetworkResourceManagement(False)
    assert not rdma.config.networkResourceManagementEnabled


# -- members


def test_a_host_joins_and_gives_its_nic_by_port(soap, lab, rdma):
    host = soap.host("esx01")
    soap.wait(join(rdma, host, "edit"))
    assert proxy(host, "dvs-rdma").pnic == []
    made = soap.wait(folder(soap).CreateDVS_Task(making("dvs-new", uplinkPortPolicy=names("A", "B"))))
    soap.wait(join(made, host, "add", version=made.config.configVersion))
    assert host in made.summary.hostMember
    assert made.portgroup[0] in host.network
    soap.wait(join(made, host, "edit", ("vmnic4", ports(host, "dvs-new")["B"])))
    spec = proxy(host, "dvs-new").spec.backing.pnicSpec[0]
    assert (spec.pnicDevice, spec.uplinkPortKey) == ("vmnic4", ports(host, "dvs-new")["B"])
    assert proxy(host, "dvs-new").pnic == ["key-vim.host.PhysicalNic-vmnic4"]
    member = next(m for m in made.config.host if m.config.host == host)
    assert member.config.backing.pnicSpec[0].pnicDevice == "vmnic4"
    done = [d["hosts"][0] for d in told(lab, "ReconfigureDvs_Task")]
    assert [(d["operation"], d["uplinks"]) for d in done] == [
        ("edit", {}), ("add", {}), ("edit", {"B": "vmnic4"}),
    ]  # fmt: skip


def test_without_a_port_the_first_free_one_is_taken(soap, rdma):
    host = soap.host("esx01")
    key = ports(host, "dvs-rdma")["Uplink 1"]
    soap.wait(join(rdma, host, "edit"))
    soap.wait(join(rdma, host, "edit", "vmnic4"))
    assert proxy(host, "dvs-rdma").spec.backing.pnicSpec[0].uplinkPortKey == key


def test_a_member_that_is_as_wanted_makes_no_entry(soap, rdma):
    host = soap.host("esx01")
    soap.wait(join(rdma, host, "edit", ("vmnic4", ports(host, "dvs-rdma")["Uplink 1"])))
    assert soap.calls() == []


@pytest.mark.parametrize(
    ("host", "operation", "nics", "fault"),
    [
        ("esx01", "add", (), vim.fault.AlreadyExists),
        ("esx-odd", "edit", (), vim.fault.NotFound),
        ("esx-odd", "add", (), vmodl.fault.NotSupported),  # ESXi 6.7 under a switch of version 7.0.2
        ("esx01", "remove", (), vmodl.fault.NotSupported),
        ("esx01", "edit", ("vmnic9",), vim.fault.NotFound),
        ("esx01", "edit", ("vmnic0",), vim.fault.DvsOperationBulkFault),
        ("esx01", "edit", (("vmnic4", "4711"),), vim.fault.DvsOperationBulkFault),
        ("esx01", "edit", ("vmnic4", "vmnic4"), vim.fault.DvsOperationBulkFault),
    ],
)
def test_members_that_cannot_be_are_refused(soap, rdma, host, operation, nics, fault):
    before = rdma.config.configVersion
    with pytest.raises(fault):
        soap.wait(join(rdma, soap.host(host), operation, *nics))
    assert soap.calls() == []
    assert rdma.config.configVersion == before


def test_the_fault_names_host_and_nic(soap, rdma):
    with pytest.raises(vim.fault.DvsOperationBulkFault) as caught:
        soap.wait(join(rdma, soap.host("esx01"), "edit", "vmnic0"))
    (one,) = caught.value.hostFault
    assert (one.host, type(one.fault), one.fault.name) == (soap.host("esx01"), vim.fault.ResourceInUse, "vmnic0")
    assert "vmnic0" in caught.value.faultMessage[0].message


def test_more_nics_than_uplinks_are_refused(make_lab, new_client):
    lab = make_lab(
        "{name: x, switches: [{name: d, uplinks: 1, port_groups: [{name: p}]}], hosts: [{name: h.lab.local, nics: "
        "[{name: vmnic0, pci: '0000:18:00.0', switch: d}, {name: vmnic1, pci: '0000:18:00.1'}]}]}"
    )
    soap = new_client(lab)
    dvs, host = soap.find(vim.DistributedVirtualSwitch, "d"), soap.host("h")
    with pytest.raises(vim.fault.DvsOperationBulkFault) as caught:
        soap.wait(join(dvs, host, "edit", "vmnic0", "vmnic1"))
    assert isinstance(caught.value.hostFault[0].fault, vim.fault.ResourceNotAvailable)


def test_taking_the_last_nic_of_the_management_network_is_rolled_back(soap, lan):
    host = soap.host("esx01")
    before = {s.pnicDevice: s.uplinkPortKey for s in proxy(host, "dvs-lan").spec.backing.pnicSpec}
    with pytest.raises(vim.fault.NetworkDisruptedAndConfigRolledBack):
        soap.wait(join(lan, host, "edit"))
    assert {s.pnicDevice: s.uplinkPortKey for s in proxy(host, "dvs-lan").spec.backing.pnicSpec} == before
    assert soap.calls() == []
    soap.wait(join(lan, host, "edit", ("vmnic1", before["vmnic1"])))
    assert proxy(host, "dvs-lan").pnic == ["key-vim.host.PhysicalNic-vmnic1"]


# -- port groups


def settings(vlan=None, **more):
    tag = VDS.VlanIdSpec(vlanId=vlan, inherited=False) if isinstance(vlan, int) else vlan
    return VDS.VmwarePortConfigPolicy(vlan=tag, **more)


def order(*active, standby=()):
    found = VDS.UplinkPortOrderPolicy(inherited=False, activeUplinkPort=list(active), standbyUplinkPort=list(standby))
    return VDS.UplinkPortTeamingPolicy(inherited=False, uplinkPortOrder=found)


def trunk(*spans):
    return VDS.TrunkVlanSpec(inherited=False, vlanId=[vim.NumericRange(start=a, end=b) for a, b in spans])


def add(dvs, name="dvpg-new", **config):
    return dvs.AddDVPortgroup_Task(
        [GROUP.ConfigSpec(name=name, type="earlyBinding", defaultPortConfig=settings(**config))]
    )


def test_a_port_group_is_added_and_its_hosts_see_it(soap, lab, lan):
    soap.wait(add(lan, vlan=30, uplinkTeamingPolicy=order("Uplink 2", standby=["Uplink 1"])))
    group = soap.find(GROUP, "dvpg-new")
    config = group.config.defaultPortConfig
    assert (config.vlan.vlanId, group.config.distributedVirtualSwitch) == (30, lan)
    assert list(config.uplinkTeamingPolicy.uplinkPortOrder.standbyUplinkPort) == ["Uplink 1"]
    assert config.uplinkTeamingPolicy.policy.value == "loadbalance_srcid"
    assert group in soap.host("esx01").network
    assert group in lan.portgroup
    assert told(lab, "AddDVPortgroup_Task") == [
        {"switch": "dvs-lan", "vlan": 30, "active": ["Uplink 2"], "standby": ["Uplink 1"]}
    ]


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"name": "dvpg-lan"}, vim.fault.DuplicateName),
        ({"name": "dvs-rdma"}, vim.fault.DuplicateName),
        ({"name": " "}, vim.fault.InvalidName),
        ({"vlan": 4095}, vmodl.fault.InvalidArgument),
        ({"vlan": trunk((5, 4))}, vmodl.fault.InvalidArgument),
        ({"vlan": VDS.PvlanSpec(inherited=False, pvlanId=3)}, vmodl.fault.NotSupported),
        ({"uplinkTeamingPolicy": order("Uplink 9")}, vmodl.fault.InvalidArgument),
        ({"uplinkTeamingPolicy": order("Uplink 1", standby=["Uplink 1"])}, vmodl.fault.InvalidArgument),
        ({"blocked": vim.BoolPolicy(inherited=False, value=True)}, vmodl.fault.NotSupported),
    ],
)
def test_a_port_group_that_cannot_be_is_refused(soap, lan, config, fault):
    with pytest.raises(fault):
        soap.wait(add(lan, **config))
    assert soap.calls() == []


def test_only_what_is_given_changes(soap):
    group = soap.find(GROUP, "dvpg-rdma")
    version = group.config.configVersion
    given = settings(trunk((100, 199)))
    soap.wait(group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(configVersion=version, defaultPortConfig=given)))
    config = group.config.defaultPortConfig
    assert [(r.start, r.end) for r in config.vlan.vlanId] == [(100, 199)]
    assert config.uplinkTeamingPolicy.uplinkPortOrder.inherited
    with pytest.raises(vim.fault.ConcurrentAccess):
        soap.wait(group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(configVersion=version, defaultPortConfig=given)))
    soap.wait(group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(defaultPortConfig=given)))
    assert soap.calls() == [("dvpg-rdma", "ReconfigureDVPortgroup_Task")]


def test_mac_learning_and_the_security_policy_say_the_same(soap):
    group = soap.find(GROUP, "dvpg-rdma")
    learning = VDS.MacLearningPolicy(inherited=False, enabled=True, limit=100)
    policy = VDS.MacManagementPolicy(inherited=False, forgedTransmits=True, macLearningPolicy=learning)
    soap.wait(
        group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(defaultPortConfig=settings(macManagementPolicy=policy)))
    )
    config = group.config.defaultPortConfig
    assert config.macManagementPolicy.macLearningPolicy.enabled
    assert (config.macManagementPolicy.macLearningPolicy.limitPolicy, config.macManagementPolicy.macChanges) == (
        "DROP",
        False,
    )
    assert config.securityPolicy.forgedTransmits.value
    old = VDS.SecurityPolicy(inherited=False, macChanges=vim.BoolPolicy(inherited=False, value=True))
    soap.wait(group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(defaultPortConfig=settings(securityPolicy=old))))
    assert group.config.defaultPortConfig.macManagementPolicy.macChanges


def test_an_old_switch_learns_no_addresses(soap):
    made = soap.wait(folder(soap).CreateDVS_Task(making("dvs-old", "6.5.0")))
    policy = VDS.MacManagementPolicy(inherited=False, macChanges=True)
    with pytest.raises(vmodl.fault.NotSupported):
        soap.wait(add(made, macManagementPolicy=policy))


def test_an_order_that_cuts_off_the_management_network_is_rolled_back(soap, lan):
    group, host = soap.find(GROUP, "dvpg-lan"), soap.host("esx01")
    soap.wait(join(lan, host, "edit", ("vmnic0", ports(host, "dvs-lan")["Uplink 1"])))
    given = GROUP.ConfigSpec(defaultPortConfig=settings(uplinkTeamingPolicy=order("Uplink 2")))
    with pytest.raises(vim.fault.NetworkDisruptedAndConfigRolledBack):
        soap.wait(group.ReconfigureDVPortgroup_Task(given))
    assert group.config.defaultPortConfig.uplinkTeamingPolicy.uplinkPortOrder.inherited


# -- scenario and rights


def test_a_scenario_says_active_uplinks_and_network_io_control(make_lab, new_client):
    lab = make_lab(
        "{name: x, switches: [{name: d, nioc: false, port_groups: [{name: p, active_uplinks: [Uplink 2]}]}], "
        "hosts: [{name: h.lab.local}]}"
    )
    soap = new_client(lab)
    assert not soap.find(vim.DistributedVirtualSwitch, "d").config.networkResourceManagementEnabled
    teaming = soap.find(GROUP, "p").config.defaultPortConfig.uplinkTeamingPolicy
    assert (teaming.uplinkPortOrder.inherited, list(teaming.uplinkPortOrder.activeUplinkPort)) == (False, ["Uplink 2"])


def test_each_change_takes_its_privilege(make_lab, new_client):
    denied = ("DVSwitch.Create", "DVSwitch.HostOp", "DVSwitch.Modify", "DVPortgroup.Create", "DVPortgroup.Modify")
    lab = make_lab(
        f"{{name: x, privileges_denied: [{', '.join(denied)}], switches: [{{name: d, port_groups: [{{name: p}}]}}], "
        "hosts: [{name: h.lab.local}]}"
    )
    soap = new_client(lab)
    dvs, group, host = soap.find(vim.DistributedVirtualSwitch, "d"), soap.find(GROUP, "p"), soap.host("h")
    calls = {
        "DVSwitch.Create": lambda: folder(soap).CreateDVS_Task(making("new")),
        "DVSwitch.HostOp": lambda: join(dvs, host, "add"),
        "DVSwitch.Modify": lambda: dvs.ReconfigureDvs_Task(VDS.ConfigSpec(maxMtu=9000)),
        "DVPortgroup.Create": lambda: add(dvs),
        "DVPortgroup.Modify": lambda: group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec()),
    }
    for privilege, call in calls.items():
        with pytest.raises(vim.fault.NoPermission) as caught:
            soap.wait(call())
        assert caught.value.privilegeId == privilege
