"""Bandwidth that network adapters of VMs reserve on the NICs of a host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vsphere_ai.admission.base import RUNS, AdmissionCase, Quantity, Reason, requirement
from vsphere_ai.fabric import dvs, networks, nioc
from vsphere_ai.model.facts import Estate, Facts, grouped

FAULT = "InsufficientNetworkCapacity"
PROXIES = "config.network.proxySwitch"
ReservedPart = tuple[Facts, int]
"""A port group, and Mbit/s that one adapter reserves on it."""


@requirement(
    "admission.bandwidth",
    "Reserved bandwidth of NICs",
    occasions=RUNS,
    source="vSphere Networking 7.0, Bandwidth Admission Control for Virtual Machine Traffic (GUID-7B131191)",
    reads={
        "HostSystem": (PROXIES,),
        dvs.PORT_GROUP: ("config.distributedVirtualSwitch", "config.defaultPortConfig"),
        **{switch: ("uuid", *nioc.PATHS) for switch in dvs.SWITCHES},
    },
    faults=(FAULT,),
    shared=True,
)
def bandwidth(case: AdmissionCase) -> Iterator[Reason]:
    """NICs of the host behind a port group have room for what adapters reserve, as Network I/O Control has it.

    On each NIC of a switch VMs share what the switch reserves for their traffic; an adapter sends over one NIC. Where
    all of it together is no more than the NICs have, and some adapter may find no NIC alone, the answer is unknown.
    The quota of a network resource pool is asked with the adapters of a playbook.
    """
    estate, host = case.situation.view.estate, case.host
    own = grouped(_parts(estate, case.vm.bandwidth), lambda part: str(part[0].get("config.distributedVirtualSwitch")))
    if not own:
        return
    others = [m for ref, m in case.situation.on(host.ref).items() if ref != case.vm.ref]
    for ref, mine in own.items():
        switch = estate.get(ref)
        if switch is None or not nioc.is_on(switch):
            continue
        if host.get(PROXIES) is None:
            yield case.unknown(f"its NICs on {switch.name} were not read, and the VM reserves bandwidth there")
            continue
        theirs = (part for m in others for part in _parts(estate, m.bandwidth))
        every = [*mine, *(p for p in theirs if p[0].get("config.distributedVirtualSwitch") == ref)]
        yield from _judged(case, switch, mine, every)


def _parts(estate: Estate, reserved: Iterable[tuple[str, int]]) -> Iterator[ReservedPart]:
    """Yield reservations with the facts of their port groups; of one that was not read nothing is known."""
    known = ((estate.get(ref), mbits) for ref, mbits in reserved)
    return ((group, mbits) for group, mbits in known if group is not None)


def _judged(
    case: AdmissionCase, switch: Facts, mine: Sequence[ReservedPart], every: Sequence[ReservedPart]
) -> Iterator[Reason]:
    estate, host = case.situation.view.estate, case.host
    per_nic = nioc.reserved(nioc.bandwidths(switch))
    behind = {group.ref: frozenset(dvs.nics_behind(estate, host, group)) for group, _ in every}
    help = f"reserve more for virtual_machine on {switch.name}, less in the VMs, or use another host"
    for group in {group.ref: group for group, _ in mine}.values():
        nics = behind[group.ref]
        need = sum(mbits for other, mbits in every if behind[other.ref] <= nics)
        largest = max(mbits for own, mbits in mine if own.ref == group.ref)
        have, name = per_nic * len(nics), networks.label(estate, group)
        if need > have:
            there = f"{len(nics)} NICs of it with {per_nic} Mbit/s each for VMs" if nics else "none of its NICs"
            message = f"adapters of VMs reserve {need} Mbit/s on {name}, behind which are {there}"
            yield case.no(message, help, FAULT, Quantity(need, have, "Mbit/s"))
        elif largest > per_nic:
            message = f"an adapter reserves {largest} Mbit/s on {name}, VMs have {per_nic} on a NIC"
            yield case.no(message, help, FAULT, Quantity(largest, per_nic, "Mbit/s"))
        elif not _fit([(behind[other.ref], mbits) for other, mbits in every if behind[other.ref] & nics], per_nic):
            yield case.unknown(f"whether each adapter on {name} finds a NIC with what it reserves is not known", help)


def _fit(parts: Iterable[tuple[frozenset[str], int]], per_nic: int) -> bool:
    """Return whether reservations are found a NIC one by one, the largest first; False does not prove that none is."""
    used: dict[str, int] = {}
    for nics, mbits in sorted(parts, key=lambda part: (-part[1], len(part[0]))):
        nic = min(sorted(nics), key=lambda n: used.get(n, 0), default=None)
        if nic is None or used.get(nic, 0) + mbits > per_nic:
            return False
        used[nic] = used.get(nic, 0) + mbits
    return True
