"""Networks by the names that playbooks and inventories have for them, and the one that a name means at a place.

Port groups of two distributed switches may have one name, and a standard port group that of a distributed one. A name
means the network that the hosts in question reach; where they reach several, it means none of them, and an operator
writes ``SWITCH/PORT GROUP`` or the inventory path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vsphere_ai.fabric import dvs
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.vm_sets import MemberPlace, is_new, member_of

PLAIN = "Network"
"""The managed type of a standard port group."""
CONNECTABLE = (PLAIN, "OpaqueNetwork", dvs.PORT_GROUP)
REACHED, PROXIES = "network", "config.network.proxySwitch"


@dataclass(frozen=True)
class Meant:
    """The networks that a name may mean at a place; it means one only where there is no other."""

    name: str
    networks: tuple[Facts, ...]

    @property
    def network(self) -> Facts | None:
        """The network that is meant; None where there is none of the name, or several."""
        return self.networks[0] if len(self.networks) == 1 else None

    def ambiguity(self, estate: Estate) -> tuple[str, str]:
        """Return that the name is that of several networks, and what to write instead; empty where it is not."""
        if len(self.networks) < 2:
            return "", ""
        spelled = [label(estate, network) for network in self.networks]
        help = "write SWITCH/PORT GROUP or the inventory path of one of them"
        if len(set(spelled)) < len(spelled):  # also on one switch, or on standard switches
            spelled = [f"{estate.path_of(n.ref)} ({n.ref.partition(':')[2]})" for n in self.networks]
            help = "write the inventory path of one of them; where the paths are alike, rename all but one"
        return f"'{self.name}' is ambiguous: it is the name of several port groups: {', '.join(spelled)}", help


def label(estate: Estate, network: Facts) -> str:
    """Return the name of a network as it is unique in its datacenter: ``SWITCH/PORT GROUP`` where others share it."""
    same = estate.named(network.name, *CONNECTABLE)
    if len(same) > 1:
        at = estate.datacenter_of(network.ref)
        same = tuple(other for other in same if estate.datacenter_of(other.ref) == at)
    return network.name if len(same) < 2 else spellings(estate, network)[1]


def spellings(estate: Estate, network: Facts) -> tuple[str, str, str, str]:
    """Return what a network can be called: its name, ``SWITCH/NAME``, its path, and its path below that of its switch.

    A network without a distributed switch has its path in the place of ``SWITCH/NAME``.
    """
    switch, path = dvs.switch_of(estate, network), estate.path_of(network.ref)
    if switch is None:
        return network.name, path, path, path
    return network.name, f"{switch.name}/{network.name}", path, f"{estate.path_of(switch.ref)}/{network.name}"


def port_groups(estate: Estate, datacenter: str) -> dict[str, Facts]:
    """Return the distributed port groups of a datacenter by their labels, those of the uplinks included."""
    groups = (g for g in estate.of_type(dvs.PORT_GROUP) if estate.datacenter_of(g.ref))
    return {label(estate, g): g for g in groups if _is_in(estate, g, datacenter)}


def port_group(estate: Estate, datacenter: str, name: str) -> Facts | None:
    """Return the distributed port group that `port_groups` has under a label; None where there is none."""
    cuts = (at + 1 for at, letter in enumerate(name) if letter == "/")
    groups = [g for at in (0, *cuts) for g in estate.named(name[at:], dvs.PORT_GROUP) if estate.datacenter_of(g.ref)]
    own = [g for g in groups if _is_in(estate, g, datacenter) and label(estate, g) == name]
    return max(own, key=lambda g: (g.name, g.ref), default=None)


def in_datacenter(estate: Estate, datacenter: str, name: str) -> Meant:
    """Return the networks of a datacenter that a name, ``SWITCH/PORT GROUP`` or an inventory path may mean.

    `datacenter` is a reference; where it is empty, the networks of all of them. Networks of which the datacenter is not
    known are taken to be in it. Port groups for uplinks count only where there is no other.
    """
    networks = [n for n in estate.named(name, *CONNECTABLE) if _is_in(estate, n, datacenter)]
    if not networks and "/" in name:
        cuts = (at for at, letter in enumerate(name) if letter == "/")
        ends = (n for at in cuts for n in estate.named(name[at + 1 :], *CONNECTABLE))
        networks = [n for n in ends if name in spellings(estate, n)[1:] and _is_in(estate, n, datacenter)]
    usable = [n for n in networks if not dvs.is_uplink(estate, n)]
    return Meant(name, tuple(usable or networks))


def _is_in(estate: Estate, network: Facts, datacenter: str) -> bool:
    at = estate.datacenter_of(network.ref) if datacenter else None
    return at is None or at.ref == datacenter


def near(estate: Estate, meant: Meant, *around: Iterable[Facts]) -> Meant:
    """Return what a name means for hosts: of several networks those that the hosts reach, narrowed group by group."""
    for hosts in around:
        if len(meant.networks) < 2:
            break
        hosts = tuple(hosts)
        reached = tuple(n for n in meant.networks if any(reaches(estate, host, n) for host in hosts))
        meant = Meant(meant.name, reached or meant.networks)
    return meant


def for_host(estate: Estate, host: str, name: str) -> Meant:
    """Return what a name means for a host."""
    at, facts = estate.datacenter_of(host), estate.get(host)
    return near(estate, in_datacenter(estate, at.ref if at else "", name), [facts] if facts else [])


def for_vm(estate: Estate, vm: str, name: str) -> Meant:
    """Return what a name means for a VM: for the hosts it can run on, and of those for the one it is on.

    A VM that a plan is to make can be on any of its hosts: what only some of them reach is not decided by one.
    """
    if is_new(estate, vm):
        member = member_of(estate, vm)
        return for_place(estate, member.place if member else MemberPlace(), name)
    at = estate.datacenter_of(vm)
    meant = in_datacenter(estate, at.ref if at else "", name)
    if len(meant.networks) < 2:
        return meant
    own = estate.host_of(vm)
    return near(estate, meant, [estate[h.ref] for h in estate.hosts_for(vm)], [estate[own.ref]] if own else [])


def for_place(estate: Estate, place: MemberPlace, name: str) -> Meant:
    """Return what a name means for new VMs: for the hosts of the cluster, or of the host, that they run on."""
    at = estate.datacenter_of(place.folder) if place.folder else None
    pool = estate.get(place.pool)
    hosts = estate.hosts_in(str(pool.get("owner") or "")) if pool else ()
    return near(estate, in_datacenter(estate, at.ref if at else "", name), [estate[h.ref] for h in hosts])


def reaches(estate: Estate, host: Facts, network: Facts) -> bool:
    """Return whether a network is on a host, or will be; also when that cannot be read."""
    there: Sequence[str] | None = host.get(REACHED)
    if not network.ref.startswith(f"{dvs.PORT_GROUP}:"):
        return there is None or network.ref in there
    switch, proxies = dvs.switch_of(estate, network), host.get(PROXIES)
    if network.ref in (there or ()):
        return True
    if proxies is None or switch is None:
        return there is None or switch is None
    return any(p.get("dvsUuid") == switch.get("uuid") for p in proxies)


def distributed_in_words(estate: Estate) -> str:
    """Return which distributed port groups adapters can be on, for who named another one."""
    groups = (g for g in estate.of_type(dvs.PORT_GROUP) if not dvs.is_uplink(estate, g))
    return f"distributed port groups: {', '.join(sorted(label(estate, g) for g in groups)) or 'none'}"
