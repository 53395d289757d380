"""Hosts of a distributed switch: joining, and which physical NICs they give it."""

from __future__ import annotations

import copy
from typing import Any

from pyVmomi import vim, vmodl

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.networks.dvs_defaults import inherited_order, release
from vsphere_ai.lab.managed.networks.dvs_ports import new_port, show
from vsphere_ai.lab.managed.networks.network import backing_of, join_host
from vsphere_ai.lab.managed.refusals import host_not_connected, invalid_argument, no_free_port, not_found, not_supported
from vsphere_ai.lab.store import ManagedObject, fill

KEY = "key-vim.host.PhysicalNic-"


def change(farm: Farm, dvs: ManagedObject, specs: Any) -> list[dict[str, Any]]:
    """Carry out the host part of a ReconfigureDvs_Task as a whole or not at all; return what it did."""
    hosts = [farm.store.get(spec.host) for spec in specs]
    faults = []
    for host, spec in zip(hosts, specs, strict=True):
        try:
            _check(farm, dvs, host, spec)
        except (vim.fault.AlreadyExists, vim.fault.NotFound, vmodl.fault.NotSupported):
            raise
        except vmodl.MethodFault as fault:
            faults.append((host, fault))
    if faults:
        raise _on_hosts(faults)
    before = [copy.deepcopy(_network(h).proxySwitch) for h in hosts]
    detail = [t for host, spec in zip(hosts, specs, strict=True) if (t := _apply(farm, dvs, host, spec))]
    for host, spec, was in zip(hosts, specs, before, strict=True):
        if spec.operation == "edit" and is_cut_off(farm, dvs, host, was):
            for each, old in zip(hosts, before, strict=True):
                _put(farm, dvs, each, next((p for p in old or () if p.dvsUuid == dvs["uuid"]), None))
            raise rolled_back(host)
    for host in hosts:
        farm.mark(host)
    return detail


def rolled_back(host: ManagedObject) -> Exception:
    """The change would have taken the host from vCenter, which therefore undid it."""
    error: Exception = vim.fault.NetworkDisruptedAndConfigRolledBack(
        host=str(host["name"]), msg="Network configuration change disconnected the host and has been rolled back."
    )
    return error


def _on_hosts(faults: list[tuple[ManagedObject, Any]]) -> Exception:
    bulk = vim.fault.DvsOperationBulkFault
    texts = [f"{host['name']}: {fault.msg}" for host, fault in faults]
    error: Exception = bulk(
        msg="Cannot complete a vSphere Distributed Switch operation for one or more host members.",
        hostFault=[bulk.FaultOnHost(host=host.ref, fault=fault) for host, fault in faults],
        faultMessage=[vmodl.LocalizableMessage(key="vsphere-ai.lab.dvs", message=text) for text in texts],
    )
    return error


def _check(farm: Farm, dvs: ManagedObject, host: ManagedObject, spec: Any) -> None:
    member = host.ref in dvs["summary"].hostMember
    if not isinstance(host.ref, vim.HostSystem) or spec.operation not in ("add", "edit", "remove"):
        raise invalid_argument("spec.host")
    if spec.operation == "add" and member:
        raise vim.fault.AlreadyExists(name=str(host["name"]), msg=f"The host '{host['name']}' is a member already.")
    if spec.operation != "add" and not member:
        raise not_found(f"{host['name']} is no member of {dvs['name']}")
    if spec.operation == "remove":
        raise not_supported("the lab removes no host from a distributed switch")
    machine = farm.host(host)
    if not machine.up or host["config"] is None:
        raise host_not_connected()
    if spec.operation == "add" and release(machine.version) < release(dvs["config"].productInfo.version):
        raise not_supported(f"ESXi {machine.version} cannot be a member of a switch of a later version")
    wanted = [s.pnicDevice for s in _wanted(spec)]
    ports = [s.uplinkPortKey for s in _wanted(spec) if s.uplinkPortKey]
    if len(set(wanted)) != len(wanted) or len(set(ports)) != len(ports):
        raise invalid_argument("spec.host.backing.pnicSpec", "a NIC or a port is listed twice")
    for nic in wanted:
        _check_nic(farm, dvs, host, nic)
    own = dvs.extra["hosts"].get(host.moid, {})
    for port in ports:
        if port not in own:
            raise invalid_argument("spec.host.backing.pnicSpec.uplinkPortKey", port)
    if len(wanted) > len(dvs.extra["uplinks"]):
        group = dvs.extra["uplink_group"]["name"]
        raise no_free_port(group)


def _check_nic(farm: Farm, dvs: ManagedObject, host: ManagedObject, nic: str) -> None:
    if nic not in [n.name for n in farm.host(host).pnics]:
        raise not_found(nic)
    network = _network(host)
    others = [p.pnic for p in network.proxySwitch or () if p.dvsUuid != dvs["uuid"]]
    if any(KEY + nic in (taken or ()) for taken in (*others, *(v.pnic for v in network.vswitch or ()))):
        raise vim.fault.ResourceInUse(name=nic, msg=f"The resource '{nic}' is in use.")


def _wanted(spec: Any) -> list[Any]:
    return list(getattr(spec.backing, "pnicSpec", None) or ())


def _network(host: ManagedObject) -> Any:
    """Return the network of a host; vCenter keeps it where the host does not answer and shows nothing."""
    config = host["config"] or host.extra["kept"]["config"]
    return config.network


def _apply(farm: Farm, dvs: ManagedObject, host: ManagedObject, spec: Any) -> dict[str, Any] | None:
    detail = {"host": str(host["name"]), "operation": str(spec.operation)}
    network = _network(host)
    if spec.operation == "add":
        proxy = join_host(farm, dvs, host, [])
        network.proxySwitch = [*(network.proxySwitch or ()), fill(proxy)]
        parent = farm.store.get(host["parent"])
        networks = [*(parent["network"] or ()), *dvs["portgroup"]]
        farm.store.set(parent, network=list(dict.fromkeys(networks)))
        farm.store.touch(host, "network")
    elif spec.backing is None:
        return None
    ports = dvs.extra["hosts"][host.moid]
    free = iter([p for p in ports if p not in [s.uplinkPortKey for s in _wanted(spec)]])
    pairs = [(s.pnicDevice, s.uplinkPortKey or next(free)) for s in _wanted(spec)]
    proxy = next(p for p in network.proxySwitch if p.dvsUuid == dvs["uuid"])
    have = {s.pnicDevice: s.uplinkPortKey for s in proxy.spec.backing.pnicSpec or ()}
    if spec.operation == "edit" and have == dict(pairs):
        return None
    _give(dvs, host, proxy, pairs)
    return {**detail, "uplinks": {ports[port]: nic for nic, port in pairs}}


def _give(dvs: ManagedObject, host: ManagedObject, proxy: Any, pairs: list[tuple[str, str]]) -> None:
    backing = fill(backing_of(dvs, pairs))
    proxy.spec.backing = backing
    proxy.pnic = [KEY + nic for nic, _ in pairs]
    member = next(m for m in dvs["config"].host if m.config.host == host.ref)
    member.config.backing = copy.deepcopy(backing)


def _put(farm: Farm, dvs: ManagedObject, host: ManagedObject, proxy: Any) -> None:
    """Bring a member back to what it was; one that was none cannot have cut anything off."""
    if proxy is not None:
        now = next(p for p in _network(host).proxySwitch if p.dvsUuid == dvs["uuid"])
        _give(dvs, host, now, [(s.pnicDevice, s.uplinkPortKey) for s in proxy.spec.backing.pnicSpec or ()])
        farm.store.touch(host, "config")


def is_cut_off(farm: Farm, dvs: ManagedObject, host: ManagedObject, before: Any) -> bool:
    """Return whether the management network on a switch had a NIC with link before, and has none now."""
    now = _network(host).proxySwitch
    orders = [farm.store.objects[key]["config"].defaultPortConfig for key in managed_groups(host, dvs)]
    return any(reaches(farm, dvs, host, c, before) and not reaches(farm, dvs, host, c, now) for c in orders)


def managed_groups(host: ManagedObject, dvs: ManagedObject) -> set[str]:
    """Return the port groups of a switch that a host's management network is on."""
    tagged = host.extra.get("vnic_services", {}).get("management", {"vmk0"})
    ports = [v.spec.distributedVirtualPort for v in _network(host).vnic or () if v.device in tagged]
    return {p.portgroupKey for p in ports if p is not None and p.switchUuid == dvs["uuid"]}


def reaches(farm: Farm, dvs: ManagedObject, host: ManagedObject, settings: Any, proxies: Any = None) -> bool:
    """Return whether a port group with these settings has a NIC with link on a host."""
    order = settings.uplinkTeamingPolicy.uplinkPortOrder
    names = {*(order.activeUplinkPort or ()), *(order.standbyUplinkPort or ())}
    up = {n.name for n in farm.host(host).pnics if n.link_up}
    ports = dvs.extra["hosts"].get(host.moid, {})
    seen = _network(host).proxySwitch if proxies is None else proxies
    proxy = next((p for p in seen or () if p.dvsUuid == dvs["uuid"]), None)
    specs = proxy.spec.backing.pnicSpec or () if proxy else ()
    return any(s.pnicDevice in up and ports.get(s.uplinkPortKey) in names for s in specs)


def rename_uplinks(farm: Farm, dvs: ManagedObject, names: list[str]) -> None:
    """Give a switch these uplinks: members get ports for new ones; one that carries a NIC does not go away."""
    gone = set(dvs.extra["uplinks"]) - set(names)
    used = {s.uplinkPortKey for m in dvs["config"].host for s in m.config.backing.pnicSpec or ()}
    for ports in dvs.extra["hosts"].values():
        for key, name in ports.items():
            if name in gone and key in used:
                raise vim.fault.ResourceInUse(name=name, msg=f"The resource '{name}' is in use.")
    new = [n for n in names if n not in dvs.extra["uplinks"]]
    dvs.extra["uplinks"] = list(names)
    for member in dvs["config"].host:
        host = farm.store.get(member.config.host)
        ports = dvs.extra["hosts"][host.moid]
        kept = {k: n for k, n in ports.items() if n not in gone} | {new_port(dvs): n for n in new}
        dvs.extra["hosts"][host.moid] = kept
        member.uplinkPortKey = list(kept)
        proxy = next(p for p in _network(host).proxySwitch if p.dvsUuid == dvs["uuid"])
        proxy.uplinkPort = [vim.KeyValue(key=k, value=n) for k, n in kept.items()]
        farm.mark(host)
    show(farm, dvs.extra["uplink_group"])
    for ref in dvs["portgroup"]:
        group = farm.store.get(ref)
        teaming = group["config"].defaultPortConfig.uplinkTeamingPolicy
        if teaming.uplinkPortOrder.inherited:
            teaming.uplinkPortOrder = inherited_order(dvs)
            farm.store.touch(group, "config")


def set_mtu(farm: Farm, dvs: ManagedObject, mtu: int) -> None:
    """Set the MTU of a switch, which its members take over."""
    dvs["config"].maxMtu = mtu
    for ref in dvs["summary"].hostMember:
        host = farm.store.get(ref)
        for proxy in _network(host).proxySwitch or ():
            if proxy.dvsUuid == dvs["uuid"]:
                proxy.mtu = mtu
        farm.mark(host)
