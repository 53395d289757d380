"""A datacenter with distributed switches and hosts on them, written as vCenter would answer."""

from __future__ import annotations

from dataclasses import replace

from support.estates import ESX1, ESX2, estate, host
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target

DC = Target("datacenter", "DC0", "Datacenter:dc-1")
FOLDER = "Folder:group-n1"
RDMA, LAN = "VmwareDistributedVirtualSwitch:dvs-1", "VmwareDistributedVirtualSwitch:dvs-2"
PG = "DistributedVirtualPortgroup"
TRAFFIC = {"virtualMachine": ("high", 100), "vmotion": ("normal", 50), "vsan": ("custom", 33)}


def resource(key, level, shares):
    given = {"_typeName": "SharesInfo", "shares": shares, "level": level}
    return {"key": key, "allocationInfo": {"limit": -1, "reservation": 0, "shares": given}}


def member(target, *nics):
    specs = tuple({"pnicDevice": nic, "uplinkPortKey": port} for nic, port in nics)
    return {"config": {"host": target.ref, "backing": {"pnicSpec": specs}}}


def switch(ref=RDMA, name="dvs-rdma", uplinks=("Uplink 1", "Uplink 2"), **more):
    """Return a distributed switch; `more` overrides properties (dots as double underscores)."""
    properties = {
        "name": name,
        "parent": FOLDER,
        "uuid": f"uuid of {name}",
        "config.configVersion": "3",
        "config.maxMtu": 1500,
        "config.uplinkPortPolicy": {"_typeName": "DVSNameArrayUplinkPortPolicy", "uplinkPortName": uplinks},
        "config.productInfo": {"_typeName": "DistributedVirtualSwitchProductSpec", "version": "7.0.0"},
        "config.productInfo.version": "7.0.0",
        "config.networkResourceManagementEnabled": True,
        "config.infrastructureTrafficResourceConfig": tuple(resource(k, *v) for k, v in TRAFFIC.items()),
        "config.uplinkPortgroup": (f"{PG}:up-{name}",),
        **{k.replace("__", "."): v for k, v in more.items()},
    }
    return Facts(ref, {k: v for k, v in properties.items() if v is not None})


def order(*active, standby=(), inherited=False):
    found = {"inherited": inherited, "activeUplinkPort": active}
    return {**found, "standbyUplinkPort": standby} if standby else found


def port_group(key, name, on=RDMA, **more):
    """Return a distributed port group; `more` overrides its port settings or, with `config__` before, its own."""
    config = {
        "_typeName": "VMwareDVSPortSetting",
        "vlan": {"_typeName": "VmwareDistributedVirtualSwitchVlanIdSpec", "inherited": False, "vlanId": 100},
        "uplinkTeamingPolicy": {
            "_typeName": "VmwareUplinkPortTeamingPolicy",
            "inherited": True,
            "policy": {"_typeName": "StringPolicy", "inherited": True, "value": "loadbalance_srcid"},
            "notifySwitches": {"_typeName": "BoolPolicy", "inherited": True, "value": True},
            "uplinkPortOrder": order("Uplink 1", "Uplink 2", inherited=True),
        },
        "macManagementPolicy": {
            "_typeName": "DVSMacManagementPolicy",
            "inherited": True,
            "allowPromiscuous": False,
            "macChanges": False,
            "forgedTransmits": False,
            "macLearningPolicy": {
                "_typeName": "DVSMacLearningPolicy", "inherited": True, "enabled": False, "limit": 99,
            },
        },
        **{k: v for k, v in more.items() if not k.startswith("config__")},
    }  # fmt: skip
    properties = {
        "name": name,
        "parent": FOLDER,
        "key": key,
        "config.configVersion": "7",
        "config.uplink": False,
        "config.backingType": "standard",
        "config.distributedVirtualSwitch": on,
        "config.defaultPortConfig": config,
        **{k.replace("__", "."): v for k, v in more.items() if k.startswith("config__")},
    }
    return Facts(f"{PG}:{key}", {k: v for k, v in properties.items() if v is not None})


def proxy(name, nics=(), uplinks=("Uplink 1", "Uplink 2"), **more):
    """Return what a host knows of a switch; `nics` maps uplinks to NICs."""
    ports = {u: f"{name}/{n}" for n, u in enumerate(uplinks)}
    specs = tuple({"pnicDevice": nic, "uplinkPortKey": ports.get(u, u)} for u, nic in dict(nics).items())
    return {
        "_typeName": "HostProxySwitch",
        "dvsUuid": f"uuid of {name}",
        "dvsName": name,
        "mtu": 1500,
        "pnic": tuple(f"key-{nic}" for nic in dict(nics).values()),
        "uplinkPort": tuple({"key": k, "value": u} for u, k in ports.items()),
        "spec": {"backing": {"pnicSpec": specs}},
        **more,
    }


def nic(device, *, link=True):
    made = {"_typeName": "PhysicalNic", "key": f"key-{device}", "device": device}
    return {**made, "linkSpeed": {"speedMb": 100000}} if link else made


def vmk(device, switch_name, group):
    port = {"switchUuid": f"uuid of {switch_name}", "portgroupKey": group}
    return {
        "_typeName": "HostVirtualNic",
        "device": device,
        "key": f"key-{device}",
        "spec": {"distributedVirtualPort": port},
    }


def tagged(device):
    """Return the tags of a host whose management network is on an adapter."""
    candidates = tuple({"device": d, "key": f"management.key-{d}"} for d in ("vmk0", "vmk1", "vmk2"))
    return ({"nicType": "management", "candidateVnic": candidates, "selectedVnic": (f"management.key-{device}",)},)


def machine(target, *proxies, nics=("vmnic0", "vmnic1", "vmnic4", "vmnic5"), vmks=(), **more):
    """Return a host on switches, with NICs that all have link."""
    found = tuple(n if isinstance(n, dict) else nic(n) for n in nics)
    return host(target, config__network__proxySwitch=proxies, config__network__pnic=found,
                config__network__vnic=vmks, **more)  # fmt: skip


def fabric(*more, without=()):
    """Return an estate with the switches dvs-rdma and dvs-lan, a port group on each, and what is given."""
    around = (
        switch(RDMA, "dvs-rdma"),
        switch(LAN, "dvs-lan"),
        port_group("dvportgroup-1", "dvpg-rdma", RDMA),
        port_group("dvportgroup-2", "dvpg-lan", LAN),
        Facts(f"{PG}:up-dvs-rdma", {"name": "dvs-rdma-DVUplinks", "parent": FOLDER, "key": "up-dvs-rdma",
                                    "config.uplink": True, "config.distributedVirtualSwitch": RDMA,
                                    "config.defaultPortConfig": {}}),
    )  # fmt: skip
    made = estate(*around, *more)
    return replace(made, objects={r: f for r, f in made.objects.items() if r not in without})


__all__ = ["DC", "ESX1", "ESX2", "fabric", "machine", "member", "nic", "order", "port_group", "proxy", "switch"]
