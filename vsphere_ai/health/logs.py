"""Logs of a guest and its host as findings: outages of links, errors of RDMA NICs, lines that are not familiar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from vsphere_ai.health.answers import GuestFacts, link_of
from vsphere_ai.health.counters import LinkOutage
from vsphere_ai.health.finding import VmFinding, VmJudge, Witness
from vsphere_ai.health.kernel.kernel_log import HARDWARE, events, unfamiliar
from vsphere_ai.health.outages import GUEST_LINK, outage_problem, outages_in
from vsphere_ai.health.preflight import rail_part
from vsphere_ai.health.profile import HealthProfile
from vsphere_ai.health.witness import HostFacts
from vsphere_ai.model.nodes import Node, Rail

MOST_LINES = 3
FATAL_REMEDIES = {
    "nic": "reset the adapter, update its firmware; replace it if it comes back",
    "pcie": "look at slot, riser and BIOS; replace the device if it comes back",
}
CABLE = "look at cable, transceiver and switch port"


def log_findings(
    node: Node, guest: GuestFacts, host: HostFacts, profile: HealthProfile, now: datetime
) -> Iterator[VmFinding]:
    """Yield what the logs say against a VM; XIDs are judged with those of other VMs, see `xid_findings`."""
    boot = now - timedelta(seconds=guest.uptime) if guest.uptime is not None else None
    inside, outside = outages_in(guest.kernel, boot), outages_in(host.events, ahead=host.correction.total_seconds())
    for rail in node.rails:
        yield from _outages(node, rail, guest, ((outside, inside), now, profile.xid_hours))
    seen: set[str] = set()
    for event in events(guest.kernel, boot=boot, since=now - timedelta(hours=profile.xid_hours)):
        if event.kind in ("nic", "pcie") and event.text not in seen:
            seen.add(event.text)
            yield VmJudge(node, event.device)(
                "nic-log" if event.kind == "nic" else "pcie-log",
                "fail" if event.fatal else "warn" if event.is_warning else "info",
                event.text,
                FATAL_REMEDIES[event.kind] if event.fatal else "",
            )
    if profile.kernel_log:
        yield from _unfamiliar(node, guest, frozenset(profile.kernel_log))


Window = tuple[tuple[Mapping[str, list[LinkOutage]], Mapping[str, list[LinkOutage]]], datetime, float]
"""Outages as the host and as the guest saw them, the time, and how many hours back a single one counts."""


def _outages(node: Node, rail: Rail, guest: GuestFacts, window: Window) -> Iterator[VmFinding]:
    """Yield what is wrong with a rail: what the host saw of its vmnic, else what the guest saw of the interface.

    That a link is down now is said by another check.
    """
    (outside, inside), now, hours = window
    link = link_of(rail, guest)
    name = rail.interface or (link.netdev if link else "")
    sides: tuple[tuple[list[LinkOutage], Witness], ...] = (
        (outside.get(rail.vmnic, []), "host"),
        (inside.get(name, []), "guest"),
    )
    for found, witness in sides if not is_down(rail, guest) else ():
        problem = outage_problem(found, now, hours)
        if problem:
            yield VmJudge(node, rail_part(rail), witness)("flapping", "fail", problem, CABLE)
            return


def is_down(rail: Rail, guest: GuestFacts) -> bool:
    """Return whether the RDMA port of a rail is there, and not active."""
    link = link_of(rail, guest)
    return link is not None and not link.is_active


def _unfamiliar(node: Node, guest: GuestFacts, learned: frozenset[str]) -> Iterator[VmFinding]:
    """Yield lines that no healthy VM had: a warning for those about hardware; XIDs and outages are other checks."""
    every = unfamiliar(guest.kernel, learned)
    lines = [line for line in every if not any(events([line])) and not GUEST_LINK.search(line)]
    hardware = [line for line in lines if HARDWARE.search(line)]
    for own, warns in ((hardware, True), ([line for line in lines if line not in hardware], False)):
        if own:
            shown = "; ".join(line.strip()[:160] for line in own[:MOST_LINES])
            more = f"; and {len(own) - MOST_LINES} more" if len(own) > MOST_LINES else ""
            message = f"lines that are not familiar: {shown}{more}"
            remedy = "look at them; add them to `kernel_log` of the profile where they are harmless"
            yield VmJudge(node)("kernel-log", "warn" if warns else "info", message, remedy)
