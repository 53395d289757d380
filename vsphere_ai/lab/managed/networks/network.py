"""Distributed switches, their port groups and ports, and the plain network of hosts without one."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.networks.dvs_defaults import port_config, traffic
from vsphere_ai.lab.managed.networks.dvs_ports import grow, new_port, show
from vsphere_ai.lab.scenario import Switch
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill

Vds = vim.dvs.VmwareDistributedVirtualSwitch
PORTGROUP = vim.dvs.DistributedVirtualPortgroup
NEW_PORTS = 8


@dataclass(frozen=True)
class Making:
    """What a distributed switch is made with."""

    name: str
    uplinks: tuple[str, ...]
    mtu: int
    version: str
    nioc: bool


def add_switch(farm: Farm, folder: ManagedObject, switch: Switch) -> ManagedObject:
    """Add a distributed switch with its uplink port group and the scenario's port groups."""
    names = tuple(f"Uplink {n + 1}" for n in range(switch.uplinks))
    mo = make_switch(farm, folder, Making(switch.name, names, switch.mtu, switch.version, switch.nioc))
    for group in switch.port_groups:
        config = port_config(mo, group.vlan)
        if group.active_uplinks:
            order = config.uplinkTeamingPolicy.uplinkPortOrder
            order.inherited, order.activeUplinkPort = False, list(group.active_uplinks)
        grow(farm, add_port_group(farm, mo, group.name, config), NEW_PORTS)
    return mo


def make_switch(farm: Farm, folder: ManagedObject, making: Making) -> ManagedObject:
    """Add a distributed switch with its uplink port group."""
    digits = uuid.uuid5(uuid.NAMESPACE_DNS, making.name).hex
    pairs = [digits[i : i + 2] for i in range(0, 32, 2)]
    identity = " ".join(pairs[:8]) + "-" + " ".join(pairs[8:])
    mo = farm.store.new(Vds, prefix="dvs", name=making.name, uuid=identity, parent=folder.ref)
    mo.extra.update(next_port=0, uplinks=list(making.uplinks), hosts={}, folder=folder)
    product = vim.dvs.ProductSpec(
        name="DVS", vendor="VMware, Inc.", version=making.version, forwardingClass="etherswitch"
    )
    config = Vds.ConfigInfo(
        uuid=identity,
        name=making.name,
        numStandalonePorts=0,
        numPorts=8,
        maxPorts=8000,
        configVersion="1",
        maxMtu=making.mtu,
        uplinkPortPolicy=vim.DistributedVirtualSwitch.NameArrayUplinkPortPolicy(uplinkPortName=list(making.uplinks)),
        createTime=now(),
        networkResourceManagementEnabled=making.nioc,
        networkResourceControlVersion="version3",
        infrastructureTrafficResourceConfig=traffic(),
        pnicCapacityRatioForReservation=75,
        productInfo=product,
        host=[],
    )
    summary = vim.DistributedVirtualSwitch.Summary(
        name=making.name, uuid=identity, numPorts=8, productInfo=product, hostMember=[], vm=[], host=[]
    )
    able = dict.fromkeys(("dvsOperationSupported", "dvPortGroupOperationSupported", "dvPortOperationSupported"), True)
    farm.store.set(
        mo,
        config=config,
        summary=fill(summary),
        portgroup=[],
        runtime=None,
        capability=vim.DistributedVirtualSwitch.Capability(**able),
    )
    config.defaultPortConfig = port_config(mo, 0)
    group = add_port_group(farm, mo, f"{making.name}-DVUplinks", port_config(mo, 0, uplink=True), uplink=True)
    mo.extra["uplink_group"] = group
    config.uplinkPortgroup = [group.ref]
    fill(config)
    folder["childEntity"].append(mo.ref)
    farm.named[f"switch:{making.name}"] = mo
    return mo


def add_port_group(farm: Farm, dvs: ManagedObject, name: str, settings: Any, *, uplink: bool = False) -> ManagedObject:
    """Add a port group without ports to a switch; the hosts of the switch see it at once."""
    folder = dvs.extra["folder"]
    mo = farm.store.new(
        PORTGROUP,
        prefix="dvportgroup",
        name=name,
        parent=folder.ref,
        host=list(dvs["summary"].hostMember),
        vm=[],
        portKeys=[],
        summary=vim.Network.Summary(name=name, accessible=True),
    )
    config = PORTGROUP.ConfigInfo(
        key=mo.moid,
        name=name,
        numPorts=0,
        distributedVirtualSwitch=dvs.ref,
        type="earlyBinding",
        configVersion="1",
        autoExpand=True,
        uplink=uplink,
        backingType="standard",
        vmVnicNetworkResourcePoolKey="-1",
        policy=PORTGROUP.PortgroupPolicy(),
        defaultPortConfig=settings,
    )
    mo.extra.update(dvs=dvs, uplink=uplink)
    farm.store.set(mo, key=mo.moid, config=fill(config))
    farm.store.set(dvs, portgroup=[*dvs["portgroup"], mo.ref])
    name_port_group(farm, mo)
    folder["childEntity"].append(mo.ref)
    for ref in dvs["summary"].hostMember:
        host = farm.store.get(ref)
        farm.store.set(host, network=[*host["network"], mo.ref])
    return mo


def name_port_group(farm: Farm, group: ManagedObject, *, gone: bool = False) -> None:
    """Let scenarios find a port group by its name, and by ``SWITCH/NAME``; `gone`: no longer."""
    for key in (f"portgroup:{group['name']}", f"portgroup:{group.extra['dvs']['name']}/{group['name']}"):
        if not gone:
            farm.named[key] = group
        elif farm.named.get(key) is group:
            del farm.named[key]


def port_group_at(farm: Farm, name: str, host: ManagedObject | None) -> ManagedObject | None:
    """Return the distributed port group that a scenario names: of several of one name, the one that a host reaches."""
    there = [farm.store.get(ref) for ref in host["network"]] if host is not None else []
    own = (mo for mo in there if mo["name"] == name and "dvs" in mo.extra)
    return next(own, None) or farm.named.get(f"portgroup:{name}")


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


def join_host(farm: Farm, dvs: ManagedObject, host: ManagedObject, nics: list[str]) -> Any:
    """Make a host a member of a switch with these NICs as uplinks; return its HostProxySwitch."""
    names = dvs.extra["uplinks"]
    ports = [new_port(dvs) for _ in names]
    dvs.extra["hosts"][host.moid] = dict(zip(ports, names, strict=True))
    backing = backing_of(dvs, list(zip(nics, ports, strict=False)))
    member = vim.dvs.HostMember(
        config=vim.dvs.HostMember.ConfigInfo(host=host.ref, maxProxySwitchPorts=2816, backing=backing),
        uplinkPortKey=ports,
        status="up",
    )
    dvs["config"].host.append(fill(member))
    dvs["summary"].hostMember.append(host.ref)
    show(farm, dvs.extra["uplink_group"])
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
        pnic=[f"key-vim.host.PhysicalNic-{spec.pnicDevice}" for spec in backing.pnicSpec],
        spec=vim.host.HostProxySwitch.Specification(backing=backing),
    )


def backing_of(dvs: ManagedObject, nics: list[tuple[str, str]]) -> Any:
    """Return the backing of a member with these (NIC, port key) pairs."""
    group = dvs.extra["uplink_group"].moid
    return vim.dvs.HostMember.PnicBacking(
        pnicSpec=[
            vim.dvs.HostMember.PnicSpec(
                pnicDevice=nic, uplinkPortKey=port, uplinkPortgroupKey=group, connectionCookie=1000 + index
            )
            for index, (nic, port) in enumerate(nics)
        ]
    )
