"""Distributed switches, their port groups and ports, and the plain network of hosts without one."""

from __future__ import annotations

import uuid
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, handles
from vsphere_ai.lab.scenario import PortGroup, Switch
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill

Vds = vim.dvs.VmwareDistributedVirtualSwitch
PORTGROUP = vim.dvs.DistributedVirtualPortgroup


def add_switch(farm: Farm, folder: ManagedObject, switch: Switch) -> ManagedObject:
    """Add a distributed switch with its uplink port group and the scenario's port groups."""
    digits = uuid.uuid5(uuid.NAMESPACE_DNS, switch.name).hex
    pairs = [digits[i : i + 2] for i in range(0, 32, 2)]
    identity = " ".join(pairs[:8]) + "-" + " ".join(pairs[8:])
    names = [f"Uplink {n + 1}" for n in range(switch.uplinks)]
    mo = farm.store.new(Vds, prefix="dvs", name=switch.name, uuid=identity, parent=folder.ref)
    mo.extra.update(next_port=0, uplinks=names, hosts={})
    uplink = _add_portgroup(farm, folder, mo, PortGroup(f"{switch.name}-DVUplinks"), uplink=True)
    groups = [_add_portgroup(farm, folder, mo, g, uplink=False) for g in switch.port_groups]
    mo.extra["uplink_group"] = uplink
    config = Vds.ConfigInfo(
        uuid=identity,
        name=switch.name,
        numStandalonePorts=0,
        numPorts=8,
        maxPorts=8000,
        configVersion="1",
        maxMtu=switch.mtu,
        uplinkPortPolicy=vim.DistributedVirtualSwitch.NameArrayUplinkPortPolicy(uplinkPortName=names),
        uplinkPortgroup=[uplink.ref],
        defaultPortConfig=_port_config(mo, 0, uplink=False),
        createTime=now(),
        networkResourceManagementEnabled=True,
        productInfo=vim.dvs.ProductSpec(
            name="DVS", vendor="VMware, Inc.", version=switch.version, forwardingClass="etherswitch"
        ),
        host=[],
    )
    summary = vim.DistributedVirtualSwitch.Summary(
        name=switch.name, uuid=identity, numPorts=8, productInfo=config.productInfo, hostMember=[], vm=[], host=[]
    )
    farm.store.set(
        mo, config=fill(config), summary=fill(summary), portgroup=[uplink.ref, *(g.ref for g in groups)], runtime=None
    )
    folder["childEntity"].append(mo.ref)
    return mo


def _add_portgroup(
    farm: Farm, folder: ManagedObject, dvs: ManagedObject, group: PortGroup, *, uplink: bool
) -> ManagedObject:
    name = group.name
    mo = farm.store.new(
        PORTGROUP,
        prefix="dvportgroup",
        name=name,
        parent=folder.ref,
        host=[],
        vm=[],
        portKeys=[],
        summary=vim.Network.Summary(name=name, accessible=True),
    )
    config = PORTGROUP.ConfigInfo(
        key=mo.moid,
        name=name,
        numPorts=8,
        distributedVirtualSwitch=dvs.ref,
        type="earlyBinding",
        configVersion="1",
        autoExpand=True,
        uplink=uplink,
        policy=PORTGROUP.PortgroupPolicy(),
        defaultPortConfig=_port_config(dvs, group.vlan, uplink=uplink),
    )
    mo.extra.update(dvs=dvs, uplink=uplink)
    farm.store.set(mo, key=mo.moid, config=fill(config))
    farm.named[f"portgroup:{name}"] = mo
    folder["childEntity"].append(mo.ref)
    return mo


def _port_config(dvs: ManagedObject, vlan: int, *, uplink: bool) -> Any:
    tag: Any = Vds.VlanIdSpec(vlanId=vlan, inherited=False)
    if uplink:
        tag = Vds.TrunkVlanSpec(vlanId=[vim.NumericRange(start=0, end=4094)], inherited=False)
    order = Vds.UplinkPortOrderPolicy(inherited=True, activeUplinkPort=list(dvs.extra["uplinks"]), standbyUplinkPort=[])
    teaming = Vds.UplinkPortTeamingPolicy(
        inherited=True,
        policy=vim.StringPolicy(inherited=True, value="loadbalance_srcid"),
        uplinkPortOrder=order,
    )
    return Vds.VmwarePortConfigPolicy(
        vlan=tag, uplinkTeamingPolicy=teaming, blocked=vim.BoolPolicy(inherited=True, value=False)
    )


def add_plain_network(farm: Farm, folder: ManagedObject, name: str) -> ManagedObject:
    """Return the plain network of this name, made on first use."""
    key = f"network:{name}"
    if key not in farm.named:
        farm.named[key] = farm.store.new(
            vim.Network,
            prefix="network",
            name=name,
            parent=folder.ref,
            host=[],
            vm=[],
            summary=vim.Network.Summary(name=name, accessible=True),
        )
        folder["childEntity"].append(farm.named[key].ref)
    return farm.named[key]


def new_port(dvs: ManagedObject) -> str:
    """Return the key of a port nobody uses yet."""
    key = str(dvs.extra["next_port"])
    dvs.extra["next_port"] += 1
    return key


def join_host(farm: Farm, dvs: ManagedObject, host: ManagedObject, nics: list[str]) -> Any:
    """Make a host a member of a switch with these NICs as uplinks; return its HostProxySwitch."""
    group, names = dvs.extra["uplink_group"], dvs.extra["uplinks"]
    ports = [new_port(dvs) for _ in names]
    dvs.extra["hosts"][host.moid] = dict(zip(ports, names, strict=True))
    backing = vim.dvs.HostMember.PnicBacking(
        pnicSpec=[
            vim.dvs.HostMember.PnicSpec(
                pnicDevice=nic, uplinkPortKey=ports[i], uplinkPortgroupKey=group.moid, connectionCookie=1000 + i
            )
            for i, nic in enumerate(nics[: len(ports)])
        ]
    )
    member = vim.dvs.HostMember(
        config=vim.dvs.HostMember.ConfigInfo(host=host.ref, maxProxySwitchPorts=2816, backing=backing),
        uplinkPortKey=ports,
        status="up",
    )
    dvs["config"].host.append(fill(member))
    dvs["summary"].hostMember.append(host.ref)
    for ref in dvs["portgroup"]:
        farm.store.get(ref)["host"].append(host.ref)
        host["network"].append(ref)
    return vim.host.HostProxySwitch(
        dvsUuid=dvs["uuid"],
        dvsName=dvs["name"],
        key=f"DvsPortset-{dvs.moid}",
        numPorts=9984,
        configNumPorts=2816,
        numPortsAvailable=9970,
        uplinkPort=[vim.KeyValue(key=p, value=n) for p, n in zip(ports, names, strict=True)],
        mtu=dvs["config"].maxMtu,
        pnic=[f"key-vim.host.PhysicalNic-{nic}" for nic in nics],
        spec=vim.host.HostProxySwitch.Specification(backing=backing),
    )


def connected(farm: Farm, dvs: ManagedObject) -> list[tuple[str, str, ManagedObject]]:
    """Return (port key, port group key, VM) of every VM adapter on a switch."""
    out = []
    for vm in farm.store.of(vim.VirtualMachine):
        for device in vm["config"].hardware.device:
            port = getattr(device.backing, "port", None)
            if port is not None and port.switchUuid == dvs["uuid"]:
                out.append((port.portKey, port.portgroupKey, vm))
    return out


@handles(vim.DistributedVirtualSwitch, "FetchDVPorts")
def fetch_ports(call: Call, criteria: Any = None) -> Any:
    """Return the ports in use: the hosts' uplinks and the VMs' adapters."""
    dvs, farm = call.mo, call.farm
    group = dvs.extra["uplink_group"].moid
    rows: list[tuple[str, str, Any, ManagedObject | None]] = [
        (key, group, farm.store.objects[moid].ref, None) for moid, ports in dvs.extra["hosts"].items() for key in ports
    ]
    rows += [(key, pg, vm.ref, vm) for key, pg, vm in connected(farm, dvs)]
    wanted_groups = list(criteria.portgroupKey or ()) if criteria else []
    wanted_ports = list(criteria.portKey or ()) if criteria else []
    return [
        fill(
            vim.dvs.DistributedVirtualPort(
                key=key,
                portgroupKey=pg,
                dvsUuid=dvs["uuid"],
                conflict=False,
                connectionCookie=1,
                connectee=vim.dvs.PortConnectee(connectedEntity=ref, type="vmVnic" if vm else "pnic"),
            )
        )
        for key, pg, ref, vm in rows
        if (not wanted_groups or pg in wanted_groups) and (not wanted_ports or key in wanted_ports)
    ]
