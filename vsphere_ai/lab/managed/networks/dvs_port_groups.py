"""Distributed port groups: added to a switch, and reconfigured."""

from __future__ import annotations

import copy
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.networks import dvs_ports
from vsphere_ai.lab.managed.networks.dvs import free_name, next_version, publish
from vsphere_ai.lab.managed.networks.dvs_bandwidth import check_pool, pool_key, pools
from vsphere_ai.lab.managed.networks.dvs_defaults import has_mac_management, inherited_order, port_config
from vsphere_ai.lab.managed.networks.dvs_members import managed_groups, reaches, rolled_back
from vsphere_ai.lab.managed.networks.network import PORTGROUP, Vds, add_port_group, name_port_group
from vsphere_ai.lab.managed.property_collector import fingerprint
from vsphere_ai.lab.managed.refusals import invalid_argument, not_supported, same_version
from vsphere_ai.lab.store import ManagedObject, differs, given, lay_over
from vsphere_ai.lab.tasks import TaskWork

LAST_VLAN = 4094
TEAMING = {
    "loadbalance_ip", "loadbalance_srcmac", "loadbalance_srcid", "failover_explicit", "loadbalance_loadbased",
}  # fmt: skip
SETTINGS = {"vlan", "uplinkTeamingPolicy", "securityPolicy", "macManagementPolicy"}
OWN = {
    "configVersion", "defaultPortConfig", "vmVnicNetworkResourcePoolKey",
    "numPorts", "autoExpand", "description", "policy",
}  # fmt: skip
"""What can be set of a port group itself."""
TYPES = ("earlyBinding", "lateBinding", "ephemeral")
MOST_PORTS = 8192
GUESTS = ("allowPromiscuous", "macChanges", "forgedTransmits")


@changes(vim.DistributedVirtualSwitch, "AddDVPortgroup_Task", "DVPortgroup.Create")
def add(call: Call, spec: Any) -> Any:
    """Add port groups to a switch, all of them or none."""
    farm, dvs = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        made: list[tuple[str, Any]] = []
        for one in spec:
            name = free_name(farm, one.name)
            if one.type not in TYPES:
                raise invalid_argument("spec.type", str(one.type))
            if name in [n for n, _ in made]:
                raise invalid_argument("spec.name", name)
            check_pool(dvs, one.vmVnicNetworkResourcePoolKey)
            _check_ports(one)
            _only_known(one, None, {*OWN, "type", "name", "portNameFormat", "backingType"})
            made.append((name, _merged(dvs, port_config(dvs, 0), one.defaultPortConfig)))
        for (name, config), one in zip(made, spec, strict=True):
            mo = add_port_group(farm, dvs, name, config)
            present = mo["config"]
            present.type = str(one.type)
            present.autoExpand = one.type == "earlyBinding" and one.autoExpand is not False
            _own(present, one)
            dvs_ports.resize(farm, mo, 0 if one.type == "ephemeral" else one.numPorts or 0)
            farm.record(mo, "AddDVPortgroup_Task", switch=str(dvs["name"]), **_detail(mo))
        publish(farm)
        farm.store.touch(farm.named["networkFolder"], "childEntity")

    return farm.tasks.start(dvs, "addPortgroup", work)


@changes(PORTGROUP, "ReconfigureDVPortgroup_Task", "DVPortgroup.Modify")
def reconfigure(call: Call, spec: Any) -> Any:
    """Change a port group and the settings of its ports."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        config, dvs = mo["config"], mo.extra["dvs"]
        same_version(spec.configVersion, config.configVersion)
        _only_known(spec, config, {*OWN, "name"})
        _check_ports(spec)
        before = copy.deepcopy(config)
        after = _merged(dvs, config.defaultPortConfig, spec.defaultPortConfig)
        check_pool(dvs, spec.vmVnicNetworkResourcePoolKey)
        renamed = spec.name is not None and spec.name != config.name
        name = free_name(farm, spec.name) if renamed else str(config.name)
        _refuse_to_cut_off(farm, mo, after)
        if spec.numPorts is not None and config.type != "ephemeral":
            dvs_ports.resize(farm, mo, spec.numPorts)
        _own(config, spec)
        config.defaultPortConfig = after
        if renamed:
            _rename(farm, mo, name)
        if fingerprint(config) == fingerprint(before):
            return
        next_version(farm, mo)
        detail = {"before": str(before.name)} if renamed else {}
        farm.record(mo, "ReconfigureDVPortgroup_Task", switch=str(dvs["name"]), **_detail(mo), **detail)

    return farm.tasks.start(mo, "reconfigure", work)


@changes(PORTGROUP, "Destroy_Task", "DVPortgroup.Delete")
def destroy(call: Call) -> Any:
    """Remove a port group that nothing is connected to."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        dvs, folder = mo.extra["dvs"], farm.store.get(mo["parent"])
        if mo.extra["uplink"] or any(key in dvs_ports.in_use(farm, dvs) for key in mo["portKeys"]):
            raise vim.fault.ResourceInUse(name=mo["name"], msg=f"The resource '{mo['name']}' is in use.")
        farm.record(mo, "Destroy_Task", switch=str(dvs["name"]))
        for owner, prop in (
            (dvs, "portgroup"),
            (folder, "childEntity"),
            *((farm.store.get(h), "network") for h in mo["host"]),
        ):
            farm.store.set(owner, **{prop: [ref for ref in owner[prop] if ref != mo.ref]})
        name_port_group(farm, mo, gone=True)
        farm.store.delete(mo)
        publish(farm)

    return farm.tasks.start(mo, "destroy", work)


def _own(config: Any, spec: Any) -> None:
    """Write into a configuration what a spec sets of the group itself."""
    for name in ("description", "autoExpand", "portNameFormat", "vmVnicNetworkResourcePoolKey"):
        if getattr(spec, name) is not None:
            setattr(config, name, getattr(spec, name))
    if spec.policy is not None:
        lay_over(config.policy, spec.policy)


def _check_ports(spec: Any) -> None:
    if spec.numPorts is not None and not 0 <= spec.numPorts <= MOST_PORTS:
        raise invalid_argument("spec.numPorts", str(spec.numPorts))


def _only_known(spec: Any, config: Any, known: set[str]) -> None:
    unknown = [n for n in given(spec) if n not in known and differs(getattr(spec, n), getattr(config, n, None))]
    if unknown:
        raise not_supported(f"the lab does not set {', '.join(unknown)}")


def _rename(farm: Farm, mo: ManagedObject, name: str) -> None:
    name_port_group(farm, mo, gone=True)
    mo["config"].name = mo["summary"].name = name
    farm.store.set(mo, name=name)
    name_port_group(farm, mo)
    farm.store.touch(mo, "summary")


def _refuse_to_cut_off(farm: Farm, mo: ManagedObject, after: Any) -> None:
    """Refuse an order of uplinks over which a host with its management network there has no NIC."""
    dvs, before = mo.extra["dvs"], mo["config"].defaultPortConfig
    for host in (farm.store.get(ref) for ref in mo["host"]):
        managed = mo.moid in managed_groups(host, dvs)
        if managed and reaches(farm, dvs, host, before) and not reaches(farm, dvs, host, after):
            raise rolled_back(host)


def _merged(dvs: ManagedObject, present: Any, laid: Any) -> Any:
    """Return settings with those given laid over; what is not given stays as it is."""
    after = copy.deepcopy(present)
    if laid is None:
        return after
    _only_known(laid, present, SETTINGS)
    if not isinstance(laid, Vds.VmwarePortConfigPolicy):
        return after  # the base type, in which nothing can be set that the lab has
    if laid.vlan is not None:
        _check_vlan(laid.vlan)
        after.vlan = laid.vlan
    if laid.uplinkTeamingPolicy is not None:
        lay_over(after.uplinkTeamingPolicy, laid.uplinkTeamingPolicy, whole=("uplinkPortOrder",))
        _check_teaming(dvs, after.uplinkTeamingPolicy)
    if laid.securityPolicy is not None:
        lay_over(after.securityPolicy, laid.securityPolicy)
        if after.macManagementPolicy is not None:
            for name in GUESTS:
                setattr(after.macManagementPolicy, name, getattr(after.securityPolicy, name).value)
    if laid.macManagementPolicy is not None:
        if not has_mac_management(dvs):
            raise not_supported("MAC management needs a switch of version 6.6.0 or later")
        lay_over(after.macManagementPolicy, laid.macManagementPolicy)
        for name in GUESTS:
            value = getattr(after.macManagementPolicy, name)
            if getattr(after.securityPolicy, name).value != value:
                setattr(after.securityPolicy, name, vim.BoolPolicy(inherited=False, value=value))
    return after


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


def _detail(mo: ManagedObject) -> dict[str, Any]:
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
