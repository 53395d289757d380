"""SR-IOV virtual functions of a host's NICs: how many there are, behind which port group, and whether they suffice.

Source: vSphere Networking 7.0, "Single Root I/O Virtualization"; vSphere Web Services API reference, HostSriovInfo.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric.dvs import switch_of
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.ethernet import assigned
from vsphere_ai.resources._helpers.network_adapter import HasAdapters, NetworkAdapter
from vsphere_ai.resources.mixins import kinds_with, offered

DEVICES = "config.pciPassthruInfo"
PATHS = (DEVICES, "config.network.pnic", "config.network.proxySwitch")


@dataclass(frozen=True)
class PhysicalFunction:
    """A NIC that may have virtual functions; `now` of them exist, `configured` will after a restart."""

    pci: str
    nic: str
    capable: bool
    most: int
    now: int
    configured: int
    passthrough: bool


@dataclass(frozen=True)
class Demand:
    """One SR-IOV adapter: of which VM, on which port group, and from which NIC (PCI address, or ``auto``)."""

    vm: str
    port_group: str
    function: str


def physical_functions(host: Facts) -> dict[str, PhysicalFunction]:
    """Return the NICs of a host by PCI address; GPUs have virtual functions too, which are not for networks."""
    infos = {d["id"]: d for d in host.get(DEVICES, ())}
    made = {}
    for nic in host.get("config.network.pnic", ()):
        info = infos.get(nic.get("pci", ""), {})
        made[str(nic.get("pci", ""))] = PhysicalFunction(
            pci=str(nic.get("pci", "")),
            nic=str(nic["device"]),
            capable=bool(info.get("sriovCapable")),
            most=int(info.get("maxVirtualFunctionSupported") or 0),
            now=int(info.get("numVirtualFunction") or 0) if info.get("sriovActive") else 0,
            configured=int(info.get("numVirtualFunctionRequested") or 0) if info.get("sriovEnabled") else 0,
            passthrough=bool(info.get("passthruEnabled")),
        )
    return made


def behind(view: View, host: Facts, network: str) -> tuple[PhysicalFunction, ...]:
    """Return the NICs of a host that a distributed port group goes out by, whether they have functions or not."""
    group = view.estate.get(network)
    switch = switch_of(view.estate, group)
    proxy = dvs.proxies(host).get(switch.get("uuid", "")) if switch else None
    if group is None or proxy is None:
        return ()
    active, standby = dvs.order(group.get("config.defaultPortConfig"))
    nics = dvs.nics(proxy)
    wanted = [nics[u] for u in (*active, *standby) if u in nics] if active or standby else list(nics.values())
    known = {f.nic: f for f in physical_functions(host).values()}
    return tuple(known[n] for n in wanted if n in known)


def possible(view: View, host: Facts, demand: Demand) -> tuple[str, ...]:
    """Return the PCI addresses an adapter can have a virtual function of on a host."""
    return tuple(f.pci for f in behind(view, host, demand.port_group) if f.now and demand.function in ("auto", f.pci))


def demands(view: View, vms: Iterable[Target]) -> tuple[Demand, ...]:
    """Return what VMs ask for, as they are or as this plan makes them."""
    found = ((vm.ref, state.cards() or ()) for vm in vms for state in offered(view, vm.ref, HasAdapters))
    return tuple(demand for vm, cards in found for demand in demands_of(vm, cards))


def demands_of(vm: str, cards: Iterable[NetworkAdapter]) -> tuple[Demand, ...]:
    """Return what adapters of a VM ask for."""
    return tuple(Demand(vm, c.port_group, c.physical_function or "auto") for c in cards if c.type == "sriov")


def running(view: View, host: str) -> tuple[Target, ...]:
    """Return the VMs of a host that hold their functions, or will: those that are on, and those this plan changes."""
    return tuple(
        v
        for v in view.estate.vms_on(host)
        if view.facts(v.ref).get("runtime.powerState") == "poweredOn"
        or any(view.is_planned(v.ref, kind) for kind in kinds_with(HasAdapters))
    )


def without(view: View, host: Facts, wanted: Iterable[Demand]) -> tuple[Demand, ...]:
    """Return the demands that get no virtual function on a host; as few as possible, the last ones first."""
    asked = tuple(wanted)
    known = {pci: f for pci, f in sorted(physical_functions(host).items()) if f.now}
    # more of one NIC's functions than there are adapters are never needed
    places = [pci for pci, f in known.items() for _ in range(min(f.now, len(asked)))]
    allowed = []
    for demand in asked:
        fitting = set(possible(view, host, demand))
        allowed.append([i for i, pci in enumerate(places) if pci in fitting])
    matched = assigned(allowed)
    return tuple(d for i, d in enumerate(asked) if i not in matched)


def listed(functions: Iterable[PhysicalFunction]) -> str:
    """Return how many functions NICs have, e.g. ``vmnic4 (0000:5e:00.0) has 8``."""
    return ", ".join(f"{f.nic} ({f.pci}) has {f.now}" for f in functions) or "no NIC"
