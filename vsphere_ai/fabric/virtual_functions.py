"""SR-IOV virtual functions of a host's NICs: how many there are, behind which port group, and whether they suffice.

Source: vSphere Networking 7.0, "Single Root I/O Virtualization"; vSphere Web Services API reference, HostSriovInfo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric.matching import assigned
from vsphere_ai.fabric.pci import counted_functions
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.names.pci_address import read_pci

DEVICES = "config.pciPassthruInfo"
PATHS = (DEVICES, "config.network.pnic", "config.network.proxySwitch")


@dataclass(frozen=True)
class PhysicalFunction:
    """A NIC that may have virtual functions; `now` of them exist, `configured` will after a restart.

    None: the host does not say it.
    """

    pci: str
    nic: str
    capable: bool
    most: int | None
    now: int | None
    configured: int | None
    passthrough: bool


@dataclass(frozen=True)
class Demand:
    """One SR-IOV adapter: of which VM, on which port group, and from which NIC (PCI address, or ``auto``).

    The port group is a reference, or what it is called.
    """

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
            most=counted_functions(info, "maxVirtualFunctionSupported", "sriovCapable"),
            now=counted_functions(info, "numVirtualFunction", "sriovActive"),
            configured=counted_functions(info, "numVirtualFunctionRequested", "sriovEnabled"),
            passthrough=bool(info.get("passthruEnabled")),
        )
    return made


def behind(estate: Estate, host: Facts, network: str) -> tuple[PhysicalFunction, ...]:
    """Return the NICs of a host that a distributed port group goes out by, whether they have functions or not."""
    group = estate.get(network) or networks.for_host(estate, host.ref, network).network
    known = {f.nic: f for f in physical_functions(host).values()}
    return tuple(known[n] for n in dvs.nics_behind(estate, host, group) if n in known)


def unserved(estate: Estate, host: Facts, wanted: Iterable[Demand]) -> tuple[Demand, ...]:
    """Return the demands that get no virtual function on a host; as few as possible, the last ones first.

    A NIC that does not say how many functions it has may have as many as are needed.
    """
    asked = tuple(wanted)
    known = {pci: f for pci, f in sorted(physical_functions(host).items()) if f.now != 0}
    # more of one NIC's functions than there are adapters are never needed
    most = {pci: len(asked) if f.now is None else min(f.now, len(asked)) for pci, f in known.items()}
    places = [pci for pci, count in most.items() for _ in range(count)]
    allowed = []
    for demand in asked:
        fitting = _fitting(estate, host, demand, known)
        allowed.append([i for i, pci in enumerate(places) if pci in fitting])
    matched = assigned(allowed)
    return tuple(d for i, d in enumerate(asked) if i not in matched)


def _fitting(estate: Estate, host: Facts, demand: Demand, known: Mapping[str, PhysicalFunction]) -> frozenset[str]:
    """Return the NICs that would do; of a standard port group it is not known which are behind it."""
    network = estate.get(demand.port_group)
    standard = network is not None and not network.ref.startswith(f"{dvs.PORT_GROUP}:")
    there = known.values() if standard else behind(estate, host, demand.port_group)
    return frozenset(f.pci for f in there if demand.function in ("auto", read_pci(f.pci)))


def listed(functions: Iterable[PhysicalFunction]) -> str:
    """Return how many functions NICs have, e.g. ``vmnic4 (0000:5e:00.0) has 8``."""
    return ", ".join(f"{f.nic} ({f.pci}) has {f.now}" for f in functions) or "no NIC"
