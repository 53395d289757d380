"""Content of a report, whatever it is written as: facts, tables, pictures, cases for JUnit and results for SARIF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "warn", "unknown", "fail"]
Row = tuple[str, ...]


@dataclass(frozen=True)
class GpuRow:
    """A GPU before and after: its address, both states as text, and the slices as (first, width) of eight."""

    gpu: str
    before: str
    after: str
    slices: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class GpuPicture:
    """GPUs of hosts that are all alike: the names of the hosts, and a row per GPU."""

    hosts: str
    rows: tuple[GpuRow, ...]


@dataclass(frozen=True)
class Bar:
    """What was done on a target as spans (seconds from the start of the run, seconds it took), by how it ended."""

    target: str
    spans: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class Timeline:
    """Bars over the seconds that a run took; those that are left out are in the table of steps."""

    seconds: float
    bars: tuple[Bar, ...]
    more: int = 0


@dataclass(frozen=True)
class Section:
    """A titled table with what is drawn above it. `wrong`: its rows stand against what is reported."""

    title: str
    heads: Row
    rows: tuple[Row, ...]
    note: str = ""
    gpus: tuple[GpuPicture, ...] = ()
    timeline: Timeline | None = None
    wrong: bool = False


@dataclass(frozen=True)
class Case:
    """A check or a step as a test case of JUnit."""

    suite: str
    name: str
    status: Status
    message: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class Result:
    """Something that stands against what is reported, as a result of SARIF. `file` is where it comes from, or ""."""

    rule: str
    status: Status
    message: str
    targets: tuple[str, ...] = ()
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Report:
    """Everything that a report says. Texts may come from outside: each form makes them harmless in its own way."""

    title: str
    verdict: str
    status: Status
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    cases: tuple[Case, ...] = ()
    results: tuple[Result, ...] = ()
