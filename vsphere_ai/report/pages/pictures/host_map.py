"""Map of hosts, their VMs and vGPUs: hosts that are alike share a row once there are many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.text import counted
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.tables import Entry, few
from vsphere_ai.report.pages.values import HostMap, ReportSection, Row, VmCell

SINGLE_VMS = 64
"""VMs up to which each has a cell of its own."""
SINGLE_HOSTS = 100
"""Hosts up to which each has a row of its own."""
EFFECTS = {
    "destroyed": "destroyed",
    "moves": "moved by DRS",
    "power_cycles": "off and on",
    "created": "created",
    "adopted": "adopted",
}
"""What happens to VMs in the impact of a plan."""


class MapVm(NamedTuple):
    """A VM of a map: its name, its vGPUs before and after as text, and what happens to it."""

    name: str
    before: str
    after: str
    effect: str = ""


def plan_map(placed: Sequence[Entry], impact: Entry) -> ReportSection:
    """Return the hosts of a plan with the VMs that are on them, and what becomes of these."""
    effects: dict[str, str] = {}
    for key, words in EFFECTS.items():
        for each in impact.get(key, ()):
            effects.setdefault(each["ref"], words)
    for each in impact.get("migrations", ()):
        effects[each["vm"]["ref"]] = f"moved to {each['target']['name']}"
    hosts = {
        each["host"]["name"]: [
            MapVm(v["vm"]["name"], profiles(v["vgpus"]), profiles(v["planned"]), effects.get(v["vm"]["ref"], ""))
            for v in each["vms"]
        ]
        for each in placed
    }
    return map_section(hosts, "What is on the hosts of this plan, and what happens to it.")


def profiles(names: Iterable[str]) -> str:
    """Return names of vGPU profiles as text, equal ones counted."""
    same = grouped((name, name) for name in names)
    return ", ".join(f"{len(own)} × {name}" if len(own) > 1 else name for name, own in same.items())


def map_section(hosts: Mapping[str, Sequence[MapVm]], note: str) -> ReportSection:
    """Return a section with the map of hosts, and a table with the same."""
    drawn = _drawn(hosts)
    rows: tuple[Row, ...] = tuple(
        (name, listed(own), *rest)
        for name, vms in hosts.items()
        for rest, own in grouped((v[1:], v.name) for v in vms).items()
    )
    heads = ("host", "VMs", "vGPUs before", "vGPUs after", "what happens")
    pictures = (HostMap(drawn),) if drawn else ()
    return ReportSection("Hosts and VMs", heads, rows, note, pictures, folded=True)


def _drawn(hosts: Mapping[str, Sequence[MapVm]]) -> tuple[tuple[str, tuple[VmCell, ...]], ...]:
    if len(hosts) > SINGLE_HOSTS:
        alike = grouped((tuple(sorted(v[1:] for v in vms)), name) for name, vms in hosts.items())
        rows = [(_called(own), _cells(v for name in own for v in hosts[name])) for own in alike.values()]
        return tuple(rows[: 2 * SINGLE_HOSTS])
    if sum(map(len, hosts.values())) > SINGLE_VMS:
        return tuple((name, _cells(vms)) for name, vms in hosts.items())
    return tuple((name, tuple(VmCell(*v) for v in vms)) for name, vms in hosts.items())


def _called(hosts: Sequence[str]) -> str:
    return f"{counted(len(hosts), 'host')}: {few(listed(hosts), len(hosts), 'host')}" if hosts[1:] else hosts[0]


def _cells(vms: Iterable[MapVm]) -> tuple[VmCell, ...]:
    alike = grouped((v[1:], v.name) for v in vms)
    return tuple(VmCell(few(listed(own), len(own), "VM"), *rest) for rest, own in alike.items())
