"""Targets of performance: what a figure may be at most, as a ratio where that can be, and whether it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tools.docgen.measured import Row, number


@dataclass(frozen=True)
class Target:
    """The most a figure may be. `over` is the subject that it is divided by; the figure itself is judged without it."""

    text: str
    subject: str
    case: str
    """The case; any without it."""
    who: str
    figure: str
    most: float
    unit: str = "×"
    over: str = ""
    size: str = ""
    """At which size of estates only; at the largest one without it."""

    def value(self, rows: Iterable[Row]) -> tuple[float, Row] | None:
        """Return what was measured, at the largest size, and where; None where it was not."""
        found = [
            row
            for row in rows
            if row.subject == self.subject and self.case in ("", row.case) and self.size in ("", row.size.name)
        ]
        for row in reversed(found):
            if row.who == self.who and self.figure in row.median:
                if not self.over:
                    return row.median[self.figure], row
                for base in found:
                    if base.who == self.over and (base.case, base.size) == (row.case, row.size):
                        return row.median[self.figure] / base.median[self.figure], row
        return None


BYTES, OURS, PYVMOMI = "bytes only, nothing parsed", "vsphere-ai", "pyVmomi, PropertyCollector"
TASKS, PARAMIKO, EVERY = "the tasks alone", "paramiko alone, in as many threads", "plan of a change of every VM"
DASK, ONE = "with Dask, a worker for each", "one after another"
DENSE = "lab, 100 hosts"
UNLIKE = "a spare host, no two hosts alike"
TARGETS: Sequence[Target] = (
    Target("read everything, time of the bytes alone", "reading", "lab", OURS, "wall", 5, over=BYTES, size="L"),
    Target("read everything, time of pyVmomi", "reading", "lab", OURS, "wall", 1 / 8, over=PYVMOMI, size="L"),
    Target("read everything, memory of pyVmomi", "reading", "lab", OURS, "mib", 0.6, over=PYVMOMI, size="L"),
    Target("many reconfigures, time of the tasks alone", "writes", "", OURS, "wall", 2, over=TASKS),
    Target("CPU time of a reconfigure", "writes", "", OURS, "CPU ms per VM", 8, "ms"),
    Target("requests of a reconfigure", "writes", "", OURS, "requests per VM", 8, ""),
    Target("`capacity` of 10,000 VMs on 100 hosts, CPU time", "commands", DENSE, "capacity", "cpu", 3, "s", size="L"),
    Target("`capacity` of 10,000 VMs on 100 hosts, memory", "commands", DENSE, "capacity", "mib", 150, "MiB", size="L"),
    Target("`plan` of 2,000 changes, CPU time", "commands", "vcsim", EVERY, "cpu", 5, "s", size="M"),
    Target("`plan` of 10,000 changes on 1,000 hosts, CPU time", "commands", "lab", EVERY, "cpu", 10, "s", size="L"),
    Target(
        "start of a lab of 10,000 VMs on 100 hosts", "commands", DENSE, "start of the server", "wall", 8, "s", size="L"
    ),
    Target("a rollout, time of its critical path", "rollout", "", OURS, "wall", 1.1, over="the critical path"),
    Target("SSH to many hosts, time of paramiko alone", "ssh", "", OURS, "wall", 1.3, over=PARAMIKO),
    Target("four vCenters with Dask, time of one after another", "fleet", "", DASK, "wall", 1 / 3, over=ONE),
    Target("a spare host for 1,000 unlike ones, CPU time", "capacity", UNLIKE, OURS, "cpu", 2, "s", size="L"),
)


BUSY = "not judged: the machine was busy"


def judged(rows: Sequence[Row], *, busy: bool = False) -> list[tuple[str, str, str, str]]:
    """Return of each target that was measured: text, the most, what was measured, and whether it is met.

    On a busy machine a wall time that is too long is not judged.
    """
    found = []
    for target in TARGETS:
        measured = target.value(rows)
        if measured is not None:
            value, row = measured
            most, unit = number(target.most), f" {target.unit}" if target.unit else ""
            said = "yes" if value <= target.most else BUSY if busy and target.figure == "wall" else "no"
            found.append((f"{target.text} ({row.size.name})", f"{most}{unit}", f"{number(value)}{unit}", said))
    return found
