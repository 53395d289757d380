"""Network I/O Control of the simulated vCenter: system traffic, pools, port groups in them, adapters of VMs."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl

VDS = vim.dvs.VmwareDistributedVirtualSwitch
SWITCH = vim.DistributedVirtualSwitch
GROUP = vim.dvs.DistributedVirtualPortgroup
POOL = vim.dvs.VmVnicNetworkResourcePool
NIC = vim.vm.device.VirtualEthernetCard


@pytest.fixture
def lan(soap):
    return soap.find(SWITCH, "dvs-lan")


@pytest.fixture
def group(soap):
    return soap.find(GROUP, "dvpg-lan")


def traffic(dvs, key, **fields):
    now = next(r for r in dvs.config.infrastructureTrafficResourceConfig if r.key == key).allocationInfo
    kept = {"shares": now.shares, "limit": now.limit, "reservation": now.reservation}
    resource = SWITCH.HostInfrastructureTrafficResource
    given = resource(key=key, allocationInfo=resource.ResourceAllocation(**{**kept, **fields}))
    return VDS.ConfigSpec(infrastructureTrafficResourceConfig=[given])


def pool(operation, name=None, quota=None, key=None, version=None):
    info = POOL.ResourceAllocation(reservationQuota=quota) if quota is not None else None
    return POOL.ConfigSpec(operation=operation, key=key, configVersion=version, name=name, allocationInfo=info)


def shares(number=50, level="custom"):
    return vim.SharesInfo(shares=number, level=level)


def nics(dvs):
    return sum(len(member.config.backing.pnicSpec) for member in dvs.config.host)


def pools(soap, dvs, *specs):
    soap.wait(dvs.DvsReconfigureVmVnicNetworkResourcePool_Task(list(specs)))
    return {p.name: p for p in dvs.config.vmVnicNetworkResourcePool}


@pytest.fixture
def reserved(soap, lan):
    """The switch, with 100 Mbit/s reserved for VMs on each of its NICs."""
    soap.wait(lan.ReconfigureDvs_Task(traffic(lan, "virtualMachine", reservation=100)))
    return lan


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        ("vmotion", {"reservation": -1}),
        ("vmotion", {"reservation": 7501}),
        ("vmotion", {"reservation": 20, "limit": 19}),
        ("vmotion", {"limit": 0}),
        ("vmotion", {"shares": shares(101)}),
    ],
)
def test_traffic_that_is_refused(soap, lan, lab, key, fields):
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.wait(lan.ReconfigureDvs_Task(traffic(lan, key, **fields)))
    assert lab.get("/lab/ledger")["entries"] == []


def test_up_to_three_quarters_of_the_slowest_nic(soap, lan):
    soap.wait(lan.ReconfigureDvs_Task(traffic(lan, "vmotion", reservation=7000)))
    soap.wait(lan.ReconfigureDvs_Task(traffic(lan, "vsan", reservation=500)))
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.wait(lan.ReconfigureDvs_Task(traffic(lan, "nfs", reservation=1)))


def test_pools_are_added_changed_and_removed(soap, reserved, lab):
    version = int(reserved.config.configVersion)
    made = pools(soap, reserved, pool("add", "a", 60), pool("add", "b", 0))
    assert {n: p.allocationInfo.reservationQuota for n, p in made.items()} == {"a": 60, "b": 0}
    made = pools(soap, reserved, pool("edit", "c", 70, key=made["a"].key, version=made["a"].configVersion))
    assert {n: p.allocationInfo.reservationQuota for n, p in made.items()} == {"c": 70, "b": 0}
    assert set(pools(soap, reserved, pool("remove", key=made["b"].key))) == {"c"}
    assert int(reserved.config.configVersion) == version + 3
    told = [e["detail"]["pools"] for e in lab.get("/lab/ledger")["entries"] if "pools" in e["detail"]]
    assert told[2] == [{"operation": "remove", "name": "b"}]


def test_pools_that_are_refused(soap, reserved, lab):
    there = pools(soap, reserved, pool("add", "a", 60))["a"]
    before = len(lab.get("/lab/ledger")["entries"])
    for spec, fault in (
        (pool("add", "a", 0), vim.fault.DuplicateName),
        (pool("add", "", 0), vim.fault.InvalidName),
        (pool("add", "b", -1), vmodl.fault.InvalidArgument),
        (pool("add", "b", 100 * nics(reserved) - 59), vmodl.fault.InvalidArgument),
        (pool("edit", "a", 1, key="tea"), vim.fault.NotFound),
        (pool("edit", "a", 1, key=there.key, version="77"), vim.fault.ConcurrentAccess),
        (pool("stir", "a", 1, key=there.key), vmodl.fault.InvalidArgument),
    ):
        with pytest.raises(fault):
            pools(soap, reserved, spec)
    # VMs have no less reserved than the pools
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.wait(reserved.ReconfigureDvs_Task(traffic(reserved, "virtualMachine", reservation=1)))
    reserved.EnableNetworkResourceManagement(False)
    with pytest.raises(vmodl.fault.NotSupported):
        pools(soap, reserved, pool("add", "b", 0))
    assert len(lab.get("/lab/ledger")["entries"]) == before + 1


def test_a_port_group_holds_its_pool(soap, reserved, group):
    assert group.config.vmVnicNetworkResourcePoolKey == "-1"
    key = pools(soap, reserved, pool("add", "a", 60))["a"].key
    soap.wait(group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(vmVnicNetworkResourcePoolKey=key)))
    assert group.config.vmVnicNetworkResourcePoolKey == key
    with pytest.raises(vim.fault.ResourceInUse):
        pools(soap, reserved, pool("remove", key=key))
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.wait(group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(vmVnicNetworkResourcePoolKey="tea")))
    one = GROUP.ConfigSpec(name="new", type="earlyBinding", vmVnicNetworkResourcePoolKey="tea")
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.wait(reserved.AddDVPortgroup_Task([one]))
    soap.wait(group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(vmVnicNetworkResourcePoolKey="-1")))
    pools(soap, reserved, pool("remove", key=key))


def adapter(vm):
    return next(d for d in vm.config.hardware.device if isinstance(d, NIC))


def give(soap, vm, **fields):
    device = adapter(vm)
    device.resourceAllocation = NIC.ResourceAllocation(**{"share": shares(50, "normal"), **fields})
    change = vim.vm.device.VirtualDeviceSpec(operation="edit", device=device)
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))
    return adapter(vm).resourceAllocation


def test_an_adapter_comes_with_nothing_and_gets_its_bandwidth(soap, reserved):
    vm = soap.vm("train-04")
    now = adapter(vm).resourceAllocation
    assert (now.reservation, now.limit, now.share.level) == (0, -1, "normal")
    got = give(soap, vm, reservation=100, share=shares(999, "high"))
    assert (got.reservation, got.limit, got.share.shares) == (100, -1, 100)


@pytest.mark.parametrize(
    "fields",
    [{"reservation": 101}, {"reservation": -1}, {"limit": 0}, {"reservation": 9, "limit": 8}, {"share": shares(0)}],
)
def test_bandwidth_that_an_adapter_cannot_have(soap, reserved, fields):
    with pytest.raises(vim.fault.InvalidDeviceSpec):
        give(soap, soap.vm("train-04"), **fields)


def test_a_reservation_needs_network_io_control(soap, reserved):
    reserved.EnableNetworkResourceManagement(False)
    with pytest.raises(vim.fault.InvalidDeviceSpec):
        give(soap, soap.vm("train-04"), reservation=1)
    assert give(soap, soap.vm("train-04"), limit=5).limit == 5


def test_a_vm_starts_when_its_pool_has_enough(soap, reserved, group):
    key = pools(soap, reserved, pool("add", "a", 100))["a"].key
    soap.wait(group.ReconfigureDVPortgroup_Task(GROUP.ConfigSpec(vmVnicNetworkResourcePoolKey=key)))
    running, other = soap.vm("train-01"), soap.vm("train-04")
    assert (running.runtime.powerState, other.runtime.powerState) == ("poweredOn", "poweredOff")
    give(soap, running, reservation=60)
    give(soap, other, reservation=41)
    with pytest.raises(vim.fault.InsufficientNetworkResourcePoolCapacity) as refused:
        soap.wait(other.PowerOnVM_Task())
    assert (refused.value.available, refused.value.requested) == (40, 41)
    give(soap, other, reservation=40)
    soap.wait(other.PowerOnVM_Task())
