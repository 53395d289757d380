"""Distributed port groups: added to a switch, and reconfigured."""

from __future__ import annotations

import copy
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.collector import fingerprint
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, handles
from vsphere_ai.lab.managed.dvs import free_name, next_version, publish
from vsphere_ai.lab.managed.dvs_bandwidth import NO_POOL, check_pool, pool_key, pools
from vsphere_ai.lab.managed.dvs_defaults import has_mac_management, inherited_order, port_config
from vsphere_ai.lab.managed.dvs_members import managed_groups, reaches, rolled_back
from vsphere_ai.lab.managed.host_managers import demand
from vsphere_ai.lab.managed.network import PORTGROUP, Vds, add_port_group
from vsphere_ai.lab.managed.refusals import invalid_argument, not_supported, same_version
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import Task

LAST_VLAN = 4094
TEAMING = {
    "loadbalance_ip", "loadbalance_srcmac", "loadbalance_srcid", "failover_explicit", "loadbalance_loadbased",
}  # fmt: skip
SETTINGS = {"vlan", "uplinkTeamingPolicy", "securityPolicy", "macManagementPolicy"}
GUESTS = ("allowPromiscuous", "macChanges", "forgedTransmits")


@handles(vim.DistributedVirtualSwitch, "AddDVPortgroup_Task")
def add(call: Call, spec: Any) -> Any:
    """Add port groups to a switch, all of them or none."""
    demand(call, "DVPortgroup.Create")
    farm, dvs = call.farm, call.mo

    def work(_task: Task) -> None:
        made: list[tuple[str, Any]] = []
        for one in spec:
            name = free_name(farm, one.name)
            if one.type not in ("earlyBinding", "ephemeral"):
                raise invalid_argument("spec.type", str(one.type))
            if name in [n for n, _ in made]:
                raise invalid_argument("spec.name", name)
            check_pool(dvs, one.vmVnicNetworkResourcePoolKey)
            made.append((name, _merged(dvs, port_config(dvs, 0), one.defaultPortConfig)))
        for (name, config), one in zip(made, spec, strict=True):
            mo = add_port_group(farm, dvs, name, config)
            mo["config"].vmVnicNetworkResourcePoolKey = one.vmVnicNetworkResourcePoolKey or NO_POOL
            farm.record(mo, "AddDVPortgroup_Task", switch=str(dvs["name"]), **_told(mo))
        publish(farm)
        farm.store.touch(farm.named["networkFolder"], "childEntity")

    return farm.tasks.start(dvs, "addPortgroup", work)


@handles(PORTGROUP, "ReconfigureDVPortgroup_Task")
def reconfigure(call: Call, spec: Any) -> Any:
    """Change the settings of a port group's ports."""
    demand(call, "DVPortgroup.Modify")
    farm, mo = call.farm, call.mo

    def work(_task: Task) -> None:
        config, dvs = mo["config"], mo.extra["dvs"]
        same_version(spec.configVersion, config.configVersion)
        known = {"configVersion", "defaultPortConfig", "vmVnicNetworkResourcePoolKey"}
        unknown = [p.name for p in spec._GetPropertyList() if getattr(spec, p.name) not in (None, [])]
        if set(unknown) - known:
            raise not_supported(f"the lab does not set {', '.join(sorted(set(unknown) - known))}")
        before = config.defaultPortConfig
        after = _merged(dvs, before, spec.defaultPortConfig)
        check_pool(dvs, spec.vmVnicNetworkResourcePoolKey)
        pool = spec.vmVnicNetworkResourcePoolKey or pool_key(mo)
        if fingerprint(after) == fingerprint(before) and pool == pool_key(mo):
            return
        _refuse_to_cut_off(farm, mo, after)
        config.defaultPortConfig, config.vmVnicNetworkResourcePoolKey = after, pool
        next_version(farm, mo)
        farm.record(mo, "ReconfigureDVPortgroup_Task", switch=str(dvs["name"]), **_told(mo))

    return farm.tasks.start(mo, "reconfigure", work)


def _refuse_to_cut_off(farm: Farm, mo: ManagedObject, after: Any) -> None:
    """Refuse an order of uplinks over which a host with its management network there has no NIC."""
    dvs, before = mo.extra["dvs"], mo["config"].defaultPortConfig
    for host in (farm.store.get(ref) for ref in mo["host"]):
        managed = mo.moid in managed_groups(host, dvs)
        if managed and reaches(farm, dvs, host, before) and not reaches(farm, dvs, host, after):
            raise rolled_back(host)


def _merged(dvs: ManagedObject, present: Any, given: Any) -> Any:
    """Return settings with those given laid over; what is not given stays as it is."""
    after = copy.deepcopy(present)
    if given is None:
        return after
    if not isinstance(given, Vds.VmwarePortConfigPolicy):
        raise invalid_argument("spec.defaultPortConfig", "a VMwareDVSPortSetting is needed")
    unknown = [p.name for p in given._GetPropertyList() if getattr(given, p.name) not in (None, [])]
    if set(unknown) - SETTINGS:
        raise not_supported(f"the lab does not set {', '.join(sorted(set(unknown) - SETTINGS))}")
    if given.vlan is not None:
        _check_vlan(given.vlan)
        after.vlan = given.vlan
    if given.uplinkTeamingPolicy is not None:
        _lay_over(after.uplinkTeamingPolicy, given.uplinkTeamingPolicy, whole=("uplinkPortOrder",))
        _check_teaming(dvs, after.uplinkTeamingPolicy)
    if given.securityPolicy is not None:
        _lay_over(after.securityPolicy, given.securityPolicy)
        if after.macManagementPolicy is not None:
            for name in GUESTS:
                setattr(after.macManagementPolicy, name, getattr(after.securityPolicy, name).value)
    if given.macManagementPolicy is not None:
        if not has_mac_management(dvs):
            raise not_supported("MAC management needs a switch of version 6.6.0 or later")
        _lay_over(after.macManagementPolicy, given.macManagementPolicy)
        for name in GUESTS:
            value = getattr(after.macManagementPolicy, name)
            setattr(after.securityPolicy, name, vim.BoolPolicy(inherited=False, value=value))
    return after


def _lay_over(present: Any, given: Any, whole: tuple[str, ...] = ()) -> None:
    for info in given._GetPropertyList():
        value = getattr(given, info.name)
        if value is None or value == []:
            continue
        now = getattr(present, info.name)
        if isinstance(value, Vmomi.DataObject) and now is not None and info.name not in whole:
            _lay_over(now, value)
        else:
            setattr(present, info.name, value)


def _check_vlan(vlan: Any) -> None:
    if isinstance(vlan, Vds.TrunkVlanSpec):
        spans = [(r.start, r.end) for r in vlan.vlanId or ()]
        if not spans or not all(0 <= low <= high <= LAST_VLAN for low, high in spans):
            raise invalid_argument("spec.defaultPortConfig.vlan", str(spans))
    elif isinstance(vlan, Vds.VlanIdSpec):
        if not 0 <= vlan.vlanId <= LAST_VLAN:
            raise invalid_argument("spec.defaultPortConfig.vlan", str(vlan.vlanId))
    else:
        raise not_supported("the lab has VLANs and trunks only")


def _check_teaming(dvs: ManagedObject, teaming: Any) -> None:
    order = teaming.uplinkPortOrder
    if order.inherited:
        teaming.uplinkPortOrder = inherited_order(dvs)
        return
    names = [*(order.activeUplinkPort or ()), *(order.standbyUplinkPort or ())]
    if len(set(names)) != len(names) or not set(names) <= set(dvs.extra["uplinks"]):
        raise invalid_argument("spec.defaultPortConfig.uplinkTeamingPolicy.uplinkPortOrder", ", ".join(names))
    if teaming.policy.value not in TEAMING:
        raise invalid_argument("spec.defaultPortConfig.uplinkTeamingPolicy.policy", str(teaming.policy.value))


def _told(mo: ManagedObject) -> dict[str, Any]:
    config, dvs = mo["config"].defaultPortConfig, mo.extra["dvs"]
    vlan = config.vlan.vlanId
    order = config.uplinkTeamingPolicy.uplinkPortOrder
    tag = [[r.start, r.end] for r in vlan] if isinstance(vlan, list) else int(vlan)
    pool = next((p.name for p in pools(dvs) if p.key == pool_key(mo)), None)
    return {
        "vlan": tag,
        "active": list(order.activeUplinkPort or ()),
        "standby": list(order.standbyUplinkPort or ()),
        **({"pool": pool} if pool else {}),
    }
