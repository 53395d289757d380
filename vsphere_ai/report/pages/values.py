"""Content of a report, whatever it is written as: facts, tables, pictures, cases for JUnit and results for SARIF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Status = Literal["pass", "warn", "unknown", "fail"]
Row = tuple[str, ...]


@dataclass(frozen=True)
class GpuRow:
    """GPUs that are alike before and after: their addresses, both states as text, and their instances.

    An instance is (first memory slice, compute slices, name).
    """

    gpu: str
    before: str
    after: str
    slices: tuple[tuple[tuple[int, int, str], ...], tuple[tuple[int, int, str], ...]]


@dataclass(frozen=True)
class GpuPicture:
    """GPUs of hosts that are all alike: the names of the hosts, and a row per GPU.

    `now`: they are drawn as they are, instances without a VM as those before and instances in use as those after.
    """

    hosts: str
    rows: tuple[GpuRow, ...]
    now: bool = False
    form: ClassVar[str] = "gpus"


@dataclass(frozen=True)
class Bar:
    """A target as spans (status, seconds from the start, seconds it took), by plan and as it was carried out."""

    target: str
    spans: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class Timeline:
    """Bars over the seconds that a plan or a run takes; those that are left out are in the table below."""

    seconds: float
    bars: tuple[Bar, ...]
    more: int = 0
    form: ClassVar[str] = "timeline"


@dataclass(frozen=True)
class VmCell:
    """VMs of a host that are alike: their names, their vGPUs before and after, and what happens to them."""

    names: str
    before: str
    after: str
    effect: str = ""


@dataclass(frozen=True)
class HostMap:
    """Hosts that are alike with their VMs and vGPUs, in rows of (names of hosts, VMs)."""

    rows: tuple[tuple[str, tuple[VmCell, ...]], ...]
    form: ClassVar[str] = "host_map"

    @property
    def changes(self) -> bool:
        """Whether anything happens to a VM."""
        return any(cell.effect or cell.before != cell.after for _, cells in self.rows for cell in cells)


@dataclass(frozen=True)
class PathNode:
    """A part of RDMA paths: its column, its row (in the middle of those that lead to it), and lines of text."""

    column: int
    row: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Edge:
    """What joins two parts, by their numbers; `label` names the links that are broken or not known."""

    begin: int
    end: int
    status: Status
    label: str = ""


@dataclass(frozen=True)
class Paths:
    """Paths of RDMA traffic in columns from VMs to their peers."""

    columns: Row
    nodes: tuple[PathNode, ...]
    edges: tuple[Edge, ...]
    rows: int
    more: int = 0
    form: ClassVar[str] = "paths"


@dataclass(frozen=True)
class Matrix:
    """Verdicts by rule (columns) and by targets that are alike (rows); "" where a rule is not about a target."""

    columns: Row
    rows: tuple[tuple[str, tuple[Status | Literal[""], ...]], ...]
    more: int = 0
    form: ClassVar[str] = "matrix"


Picture = GpuPicture | Timeline | HostMap | Paths | Matrix


@dataclass(frozen=True)
class ReportSection:
    """A titled table with what is drawn above it. `wrong`: its rows are failures.

    `folded`: the table is closed at first where the page can fold. `code` is text of several lines, such as YAML.
    """

    title: str
    heads: Row
    rows: tuple[Row, ...]
    note: str = ""
    pictures: tuple[Picture, ...] = ()
    wrong: bool = False
    folded: bool = False
    links: Mapping[str, str] = field(default_factory=dict)
    """Addresses of the pages that cells lead to, by their text; only for the pages of a server."""
    code: str = ""


@dataclass(frozen=True)
class ReportFigure:
    """A figure at the top of a report, and what it counts. `status` colours it; "" does not."""

    value: str
    label: str
    status: Status | Literal[""] = ""


@dataclass(frozen=True)
class JunitCase:
    """A check or a step as a test case of JUnit."""

    suite: str
    name: str
    status: Status
    message: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class SarifResult:
    """A problem of what is reported, as a result of SARIF. `file` is where it comes from, or ""."""

    rule: str
    status: Status
    message: str
    targets: tuple[str, ...] = ()
    file: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Report:
    """Everything that a report says. Texts may come from outside: each form makes them harmless in its own way."""

    title: str
    verdict: str
    status: Status
    facts: tuple[tuple[str, str], ...]
    sections: tuple[ReportSection, ...]
    cases: tuple[JunitCase, ...] = ()
    results: tuple[SarifResult, ...] = ()
    numbers: tuple[ReportFigure, ...] = ()
    suites: tuple[tuple[str, float], ...] = ()
    """Suites of cases that took a time of their own, in seconds; every other one takes as long as its cases."""
    ended: float = 0.0
    """When the last suite ended, in seconds since 1970."""
    targets: tuple[int, int, int] = (0, 0, 0)
    """How many targets a plan creates, changes and deletes."""
