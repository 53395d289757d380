"""Graph of RDMA paths in columns: VMs, adapter, port group, switch and vmk, uplink, peers; alike ones in one row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.text import counted
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.pictures.matrix import STATUS
from vsphere_ai.report.pages.tables import Entry
from vsphere_ai.report.pages.values import Edge, PathNode, Paths, Status

COLUMNS = ("VM", "adapter", "port group", "switch and vmk", "uplink", "peers")
LINKS: Mapping[str, int] = {
    "VM adapter": 0,
    "virtual hardware": 0,
    "guest memory": 0,
    "port group": 1,
    "host": 2,
    "distributed switch": 2,
    "host is a member of the switch": 2,
    "PVRDMA vmknic": 2,
    "firewall": 2,
    "active uplink of the port group": 3,
    "physical NIC of that uplink": 3,
    "RDMA NIC is the switch's only uplink": 3,
}
"""Between which columns a link is; every other one is between the uplink and the peers."""
ORDER: tuple[Status, ...] = ("pass", "warn", "unknown", "fail")
USES = {"roce": "RoCE", "memory-copy": "memory copy", "tcp": "TCP only", "unknown": "not known", "none": "no RDMA"}
MOST_ROWS = 40
SHORT = 19
"""Characters of names that a part of a path has room for."""
Labels = tuple[tuple[str, ...], ...]
_Key = tuple[int, tuple[str, ...], tuple[Status, str]]
"""A part: its column, its lines, and the verdict of what leads to it with the links to blame."""


class _Path(NamedTuple):
    """What paths that are alike have in common: per column its lines, and per gap its verdict and its broken links."""

    labels: Labels
    links: tuple[tuple[Status, str], ...]


def path_graph(traces: Sequence[Entry], pairs: Sequence[Entry], alone: str = "no peers") -> Paths | None:
    """Return the paths of traces as a graph, the broken ones first; None without any.

    `alone` is said of a VM that is in no pair.
    """
    peers = _peers(pairs)
    alike = grouped((_path(trace, peers.get(trace["vm"], (alone,))), trace) for trace in traces)
    if not alike:
        return None
    worst = sorted(alike.items(), key=lambda each: -max(ORDER.index(status) for status, _ in each[0].links))
    at: dict[_Key, list[int]] = defaultdict(list)
    chains: list[list[_Key]] = []
    for row, (path, own) in enumerate(worst[:MOST_ROWS]):
        hosts = dict.fromkeys(t["host"] for t in own if t["host"])
        vms = (_few(dict.fromkeys(t["vm"] for t in own), "VM"), f"on {_few(hosts, 'host')}" if hosts else "on no host")
        # what a broken link leads to is a part of its own: the same part may be reached by links that are whole
        chain = [
            (n, *each) for n, each in enumerate(zip((vms, *path.labels), (("pass", ""), *path.links), strict=True))
        ]
        chains.append(chain)
        for key in chain:
            at[key].append(row)
    number = {key: n for n, key in enumerate(at)}
    nodes = tuple(PathNode(column, sum(rows) / len(rows), lines) for (column, lines, _), rows in at.items())
    edges: dict[tuple[int, int], Edge] = {}
    for chain in chains:
        for begin, end in pairwise(chain):
            ends = number[begin], number[end]
            edges[ends] = Edge(*ends, *end[2])
    return Paths(COLUMNS, _apart(nodes), tuple(edges.values()), len(chains), max(len(worst) - MOST_ROWS, 0))


def _few(names: Collection[str], noun: str) -> str:
    """Return names that fit into the box of a part, else how many there are."""
    said = listed(names)
    return said if len(said) <= SHORT else counted(len(names), noun)


def _apart(nodes: Sequence[PathNode]) -> tuple[PathNode, ...]:
    """Return nodes of which no two of a column overlap: each is at least a row below the one above."""
    moved = dict(enumerate(nodes))
    for column in range(len(COLUMNS)):
        below = 0.0
        for number, node in sorted(moved.items(), key=lambda each: each[1].row):
            if node.column == column:
                moved[number] = PathNode(column, max(node.row, below), node.lines)
                below = moved[number].row + 1
    return tuple(moved.values())


def _path(trace: Entry, peers: tuple[str, ...]) -> _Path:
    seen: dict[str, str] = {}
    worst: list[Status] = ["pass"] * (len(COLUMNS) - 1)
    bad: list[dict[str, None]] = [{} for _ in worst]
    for link in trace["links"]:
        gap, status = LINKS.get(name := link["target"]["name"], len(worst) - 1), STATUS[link["verdict"]]
        seen.setdefault(name, link["message"])
        worst[gap] = max(worst[gap], status, key=ORDER.index)
        if status in ("fail", "unknown"):
            bad[gap][name] = None
    adapter = (trace["adapter"] or "no PVRDMA adapter", (trace["protocol"] or "").replace("rocev", "RoCE v"))
    vmk = seen.get("PVRDMA vmknic", "")
    switch = (seen.get("distributed switch", "not known"), vmk if len(vmk) < 12 else "no vmk for PVRDMA")
    nic = seen.get("physical NIC of that uplink") or seen.get("active uplink of the port group") or "not known"
    device = seen.get("RDMA device of that NIC", "").partition(" -> ")[2]
    group = trace["port_group"] or seen.get("port group") or "no port group"
    labels = (adapter, (group,), switch, (nic.replace("->", "→"), device), peers)
    lines = tuple(tuple(line for line in each if line) for each in labels)
    return _Path(lines, tuple((status, ", ".join(own)) for status, own in zip(worst, bad, strict=True)))


def _peers(pairs: Sequence[Entry]) -> dict[str, tuple[str, ...]]:
    """Return for each VM how many others it reaches in which way."""
    uses: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        for vm in pair["vms"]:
            uses[vm][pair["use"]] += 1
    return {
        vm: tuple(f"{counted(own[use], 'VM')}: {words}" for use, words in USES.items() if own[use])
        for vm, own in uses.items()
    }
