"""VMkernel adapters of a host as vCenter shows them: port group, address, and the services they carry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from ipaddress import IPv4Interface

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric.api_types import Vnic
from vsphere_ai.model.deferred import Deferred, inside
from vsphere_ai.model.estate.indexes import Index
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.plain import Plain, PlainObject, objects
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View

VNICS, CARRIED, PROXIES = "config.network.vnic", "config.virtualNicManagerInfo.netConfig", "config.network.proxySwitch"
OPTION = "Net.PVRDMAVmknic"
OPTION_FACT = f"option:{OPTION}"
DHCP = "dhcp"
MANAGEMENT, VMOTION = "management", "vmotion"


def address_of(vnic: Vnic) -> str | None:
    """Return ``dhcp`` or an IPv4 address with its prefix length; None when there is none."""
    ip = (vnic.get("spec") or {}).get("ip") or {}
    if ip.get("dhcp"):
        return DHCP
    try:
        return IPv4Interface(f"{ip['ipAddress']}/{ip['subnetMask']}").with_prefixlen
    except (KeyError, ValueError):
        return None


def plain_address(text: str) -> PlainObject:
    """Return a HostIpConfig for ``dhcp`` or an address such as ``10.20.0.1/24``."""
    if text == DHCP:
        return {"_typeName": "HostIpConfig", "dhcp": True}
    address = IPv4Interface(text)
    ip, mask = str(address.ip), str(address.netmask)
    return {"_typeName": "HostIpConfig", "dhcp": False, "ipAddress": ip, "subnetMask": mask}


def group_key(vnic: Vnic) -> str | None:
    """Return the key of the distributed port group an adapter is on."""
    return dvs.port_of(vnic).get("portgroupKey")


def switch_uuid(vnic: Vnic) -> str:
    """Return the uuid of the distributed switch an adapter is on; empty when it is on none."""
    return str(dvs.port_of(vnic).get("switchUuid", ""))


def shows_network(vnic: Vnic) -> bool:
    """Return whether an adapter shows its network: a distributed, a standard or an opaque one."""
    spec = vnic.get("spec") or {}
    return bool(switch_uuid(vnic) or vnic.get("portgroup") or spec.get("opaqueNetwork"))


def managing(facts: Facts) -> set[str]:
    """Return the adapters that carry management; where that cannot be read, the first one is taken for it."""
    known = carried(facts)
    return {"vmk0"} if known is None else {d for d, kinds in known.items() if MANAGEMENT in kinds}


def by_group(ref: str, estate: Estate) -> dict[str, list[Vnic]]:
    """Return the adapters of a host by the name of their port group, distributed or standard.

    The name has the switch before it, ``SWITCH/PORT GROUP``, where other port groups of the datacenter have that name.
    """
    found: dict[str, list[Vnic]] = defaultdict(list)
    for vnic in estate[ref].get(VNICS) or ():
        key = group_key(vnic)
        group = estate.get(f"{dvs.PORT_GROUP}:{key}") if key else None
        name = networks.label(estate, group) if group else key or vnic.get("portgroup") or ""
        if name:
            found[name].append(vnic)
    return dict(found)


def carried(facts: Facts) -> dict[str, tuple[str, ...]] | None:
    """Return adapter -> the kinds of traffic of the host it is selected for; None when that cannot be read."""
    configs = facts.get(CARRIED)
    if configs is None:
        return None
    found: dict[str, list[str]] = defaultdict(list)
    for config in configs:
        # the keys of both lists begin with the kind of traffic, those of config.network.vnic do not
        devices = {c["key"]: c["device"] for c in config.get("candidateVnic", ())}
        for key in config.get("selectedVnic", ()):
            if key in devices:
                found[devices[key]].append(config["nicType"])
    return {device: tuple(kinds) for device, kinds in found.items()}


def carrying(configs: Iterable[PlainObject], device: str, kinds: Collection[str]) -> tuple[PlainObject, ...]:
    """Return ``virtualNicManagerInfo.netConfig`` as it will be once an adapter is selected for exactly these kinds."""
    found: list[PlainObject] = []
    for config in configs:
        kind, candidates = config.get("nicType"), list(objects(config.get("candidateVnic")))
        keys = [str(c["key"]) for c in candidates if c.get("device") == device] or [f"{kind}.{device}"]
        if not any(c.get("device") == device for c in candidates):
            candidates.append({"key": keys[0], "device": device})
        selected = config.get("selectedVnic")
        others: list[Plain] = [k for k in selected if k not in keys] if isinstance(selected, list | tuple) else []
        chosen = keys if kind in kinds else []
        found.append({**config, "candidateVnic": tuple(candidates), "selectedVnic": (*others, *chosen)})
    return tuple(found)


def carries_vmotion(facts: Facts) -> bool | None:
    """Return whether some adapter of a host carries vMotion; None where its adapters were not read.

    It does so by being selected for it, or on the TCP/IP stack of that name.
    """
    known, vnics = carried(facts), facts.get(VNICS)
    if known is None or not vnics:
        return None
    on_stack = ((vnic.get("spec") or {}).get("netStackInstanceKey") == VMOTION for vnic in vnics)
    return any(VMOTION in kinds for kinds in known.values()) or any(on_stack)


def kinds_known(facts: Facts) -> tuple[str, ...]:
    """Return the kinds of traffic a host lets its adapters be selected for."""
    return tuple(c["nicType"] for c in facts.get(CARRIED) or ())


class Spot:
    """Where one adapter is, or is to be: on a port group of a host."""

    def __init__(self, name: str, target: Target, view: View) -> None:
        self.name, self.target, self.view = name, target, view
        self.facts = view.facts(target.ref)

    @cached_property
    def vnics(self) -> list[Vnic]:
        """The host's adapters on that port group."""
        return by_group(self.target.ref, self.view.estate).get(self.label, [])

    @property
    def vnic(self) -> Vnic | None:
        """The adapter, where it is the only one there."""
        return self.vnics[0] if len(self.vnics) == 1 else None

    @cached_property
    def meant(self) -> networks.Meant:
        """The distributed port groups that the name may mean on the host, also those this plan makes."""
        found = networks.for_host(self.view.estate, self.target.ref, self.name)
        groups = (g for g in found.networks if g.ref.startswith(f"{dvs.PORT_GROUP}:"))
        return networks.Meant(self.name, tuple(groups))

    @property
    def group(self) -> Facts | None:
        """The distributed port group, where there is one."""
        return self.meant.network

    @property
    def label(self) -> str:
        """The name by which `by_group` has the adapters of that port group."""
        return networks.label(self.view.estate, self.group) if self.group else self.name

    @property
    def switch(self) -> Facts | None:
        """The distributed switch of that port group."""
        return dvs.switch_of(self.view.estate, self.group)

    @property
    def is_member(self) -> bool:
        """Whether the host is a member of that switch."""
        uuid = self.switch.get("uuid") if self.switch else None
        return any(p["dvsUuid"] == uuid for p in self.facts.get(PROXIES) or ())

    @property
    def device(self) -> str:
        """The adapter's name; of one this plan makes, what looks it up."""
        if self.vnic is not None:
            return str(self.vnic["device"])
        here = self.view.estate.datacenter_of(self.target.ref)
        key = str(self.group.get("key")) if self.group else ""
        path = inside(VNICS, ("spec.distributedVirtualPort.portgroupKey", key), "device")
        return Deferred(here.ref if here else "", "HostSystem", self.target.name, path)

    @property
    def services(self) -> tuple[str, ...]:
        """What the adapter carries; where that cannot be read, the first adapter is taken for the one of management."""
        known = carried(self.facts)
        if known is None:
            return (MANAGEMENT,) if self.device == "vmk0" else ()
        return known.get(self.device, ())

    def same_address(self, address: str) -> Iterator[str]:
        """Yield who else has an address: adapters of this host and of every other one that was read."""
        plain = _plain(address)
        for host in self.view.estate.by_key(BY_ADDRESS, plain):
            for vnic in host.get(VNICS) or ():
                own = host.ref == self.target.ref and self.vnic is not None and vnic["device"] == self.vnic["device"]
                if not own and _plain(address_of(vnic)) == plain:
                    yield f"{host.name} {vnic['device']}" if vnic["device"].startswith("vmk") else host.name


def _plain(address: str | None) -> str:
    """Return an address without its prefix length."""
    return (address or "").partition("/")[0]


BY_ADDRESS = Index(("HostSystem",), lambda host: (_plain(address_of(vnic)) for vnic in host.get(VNICS) or ()))
"""Hosts by the addresses of their adapters."""
