"""Ports of distributed switches: made with their port groups, taken by adapters, fetched by criteria."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.refusals import no_free_port
from vsphere_ai.lab.store import ManagedObject, fill

Vds = vim.dvs.VmwareDistributedVirtualSwitch
NIC = vim.vm.device.VirtualEthernetCard
STEP = 8
"""Ports a group with `autoExpand` gets at least when it has none left."""


@dataclass(frozen=True)
class Connected:
    """What is connected to a port: the entity, its adapter's key and kind, the host, whether the link is up."""

    entity: Any
    nic: str
    kind: str
    host: Any
    up: bool
    mac: str | None = None


def new_port(dvs: ManagedObject) -> str:
    """Return the key of a new port."""
    key = str(dvs.extra["next_port"])
    dvs.extra["next_port"] += 1
    return key


def grow(farm: Farm, group: ManagedObject, count: int) -> None:
    """Give a port group more free ports."""
    keys = [new_port(group.extra["dvs"]) for _ in range(count)]
    group.extra.setdefault("ports", []).extend(keys)
    group.extra.setdefault("free", deque()).extend(keys)
    show(farm, group)


def resize(farm: Farm, group: ManagedObject, count: int) -> None:
    """Give a port group this many ports; refuse to take away those in use."""
    ports = group.extra.setdefault("ports", [])
    if count >= len(ports):
        grow(farm, group, count - len(ports))
        return
    used = in_use(farm, group.extra["dvs"])
    spare = [key for key in reversed(ports) if key not in used][: len(ports) - count]
    if len(ports) - len(spare) > count:
        raise vim.fault.ResourceInUse(
            type=vim.dvs.DistributedVirtualPort, name=str(group["name"]), msg="Ports of the port group are in use."
        )
    group.extra["ports"] = [key for key in ports if key not in spare]
    group.extra["free"] = deque(key for key in group.extra["free"] if key not in spare)
    show(farm, group)


def take(farm: Farm, group: ManagedObject) -> str:
    """Return a free port of a port group for an adapter; make more where the group expands by itself."""
    extra = group.extra
    if group["config"].type == "ephemeral":
        key = new_port(extra["dvs"])  # made when something connects
        extra.setdefault("ports", []).append(key)
        return key
    if not extra.get("free"):
        # those that came free again; not those just handed to an adapter that is not in any configuration yet
        used = in_use(farm, extra["dvs"]).keys() | extra.get("handed", set())
        extra["free"], extra["handed"] = deque(k for k in extra.get("ports", ()) if k not in used), set()
    if not extra["free"]:
        if not group["config"].autoExpand:
            raise no_free_port(str(group["name"]))
        grow(farm, group, max(STEP, len(extra.get("ports", ())) // 4))
    key = str(extra["free"].popleft())
    extra.setdefault("handed", set()).add(key)
    return key


def show(farm: Farm, group: ManagedObject) -> None:
    """Show how many ports a port group has, and which."""
    dvs = group.extra["dvs"]
    keys = list(group.extra.get("ports", ()))
    if group.extra["uplink"]:
        keys = [key for ports in dvs.extra["hosts"].values() for key in ports]
    group["config"].numPorts = len(keys)
    farm.store.set(group, portKeys=keys)
    total = sum(len(farm.store.get(ref)["portKeys"]) for ref in dvs["portgroup"])
    dvs["config"].numPorts = dvs["summary"].numPorts = total
    farm.store.touch(group, "config")
    farm.store.touch(dvs, "config", "summary")


def in_use(farm: Farm, dvs: ManagedObject) -> dict[str, Connected]:
    """Return what is connected to which port of a switch: adapters of VMs and hosts, and physical NICs."""
    found: dict[str, Connected] = {}
    for vm in farm.store.of(vim.VirtualMachine):
        for device in vm["config"].hardware.device if vm["config"] is not None else ():  # None: just being made
            port = getattr(device.backing, "port", None) if isinstance(device, NIC) else None
            if port is not None and port.switchUuid == dvs["uuid"]:
                up = bool(device.connectable and device.connectable.connected)
                host = vm["runtime"].host
                found[port.portKey] = Connected(vm.ref, str(device.key), "vmVnic", host, up, device.macAddress)
    for moid in dvs.extra["hosts"]:
        host = farm.store.objects[moid]
        network = (host["config"] or host.extra["kept"]["config"]).network
        for vnic in getattr(network, "vnic", None) or ():
            port = vnic.spec.distributedVirtualPort
            if port is not None and port.switchUuid == dvs["uuid"]:
                found[port.portKey] = Connected(host.ref, vnic.device, "hostVmkVnic", host.ref, True, vnic.spec.mac)
        links = {n.name: n.link_up for n in farm.host(host).pnics}
        for proxy in getattr(network, "proxySwitch", None) or ():
            for spec in (proxy.spec.backing.pnicSpec or ()) if proxy.dvsUuid == dvs["uuid"] else ():
                up = links.get(spec.pnicDevice, False)
                found[spec.uplinkPortKey] = Connected(host.ref, spec.pnicDevice, "pnic", host.ref, up)
    return found


@reads(vim.DistributedVirtualSwitch, "FetchDVPorts")
def fetch_ports(call: Call, criteria: Any = None) -> Any:
    """Return the ports of a switch that meet the criteria."""
    farm, dvs = call.farm, call.mo
    used = in_use(farm, dvs)
    rows = _ports(farm, dvs)
    return [_port(dvs, key, group, used.get(key)) for key, group in rows if _meets(criteria, key, group, used.get(key))]


@reads(vim.DistributedVirtualSwitch, "FetchDVPortKeys")
def fetch_port_keys(call: Call, criteria: Any = None) -> Any:
    """Return the keys of the ports that meet the criteria."""
    used = in_use(call.farm, call.mo)
    rows = _ports(call.farm, call.mo)
    return [key for key, group in rows if _meets(criteria, key, group, used.get(key))]


def _ports(farm: Farm, dvs: ManagedObject) -> Iterator[tuple[str, ManagedObject]]:
    for ref in dvs["portgroup"]:
        group = farm.store.get(ref)
        for key in group["portKeys"] if not group.extra.get("ports") else group.extra["ports"]:
            yield key, group


def _meets(criteria: Any, key: str, group: ManagedObject, by: Connected | None) -> bool:
    """Return whether a port meets what is set in the criteria; `portgroupKey` counts with `inside` only."""
    if criteria is None:
        return True
    in_groups = group.moid in criteria.portgroupKey if criteria.portgroupKey else True
    demands = (
        (criteria.connected, by is not None),
        (criteria.active, by is not None and by.up),
        (criteria.uplinkPort, bool(group.extra["uplink"])),
        (criteria.nsxPort, False),
        (criteria.inside, in_groups),
        (True if criteria.portKey else None, key in (criteria.portKey or ())),
        (True if criteria.host else None, by is not None and by.host in (criteria.host or ())),
    )
    return all(wanted is None or bool(wanted) == found for wanted, found in demands)


def _port(dvs: ManagedObject, key: str, group: ManagedObject, by: Connected | None) -> Any:
    setting = copy.deepcopy(group["config"].defaultPortConfig)
    name = next((ports[key] for ports in dvs.extra["hosts"].values() if key in ports), None)
    tag = setting.vlan
    trunk = isinstance(tag, Vds.TrunkVlanSpec)
    spans = list(tag.vlanId) if trunk else [vim.NumericRange(start=tag.vlanId, end=tag.vlanId)]
    runtime = vim.dvs.DistributedVirtualPort.RuntimeInfo(
        linkUp=by is not None and by.up,
        blocked=bool(setting.blocked and setting.blocked.value),
        vlanIds=spans,
        trunkingMode=trunk,
        mtu=dvs["config"].maxMtu,
        macAddress=by.mac if by else None,
        linkPeer=by.nic if by else None,
    )
    made = vim.dvs.DistributedVirtualPort(
        key=key,
        portgroupKey=group.moid,
        dvsUuid=dvs["uuid"],
        conflict=False,
        config=vim.dvs.DistributedVirtualPort.ConfigInfo(name=name, setting=setting, configVersion="0"),
        state=vim.dvs.DistributedVirtualPort.State(runtimeInfo=runtime),
        lastStatusChange=dvs["config"].createTime,
    )
    if by is not None:
        made.connectee = vim.dvs.PortConnectee(connectedEntity=by.entity, nicKey=by.nic, type=by.kind)
        made.proxyHost, made.connectionCookie = by.host, 1
    return fill(made)
