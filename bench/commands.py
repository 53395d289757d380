"""Commands in a large vCenter: `plan` of 64 VMs, `plan` of a change of every VM, and those that read all of it.

Each command is a process; the time of the lab or of VMware's own simulator on the same machine is in its wall time,
not in its CPU time. The requests are those that the lab has answered; VMware's simulator does not count them.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import Case, Figures, Row, Size, tool
from estates import EVERY_VM, TRAINING, Absent, Estate, lab, parts, vcsim
from peers import counted
from run import alone

GROWS = True
WHOLE = ("show", "capacity", "check")
"""Commands that read every host and VM."""
DENSE = 100
FINE = (0, 1, 2)
"""A plan that is refused was planned all the same; 2 is a difference, or something that is not fine."""


def works(estate: Estate) -> dict[str, Callable[[], Figures]]:
    """Return the commands, each as a function that carries it out once."""
    playbooks = {"every": EVERY_VM.format(names="vm-*" if estate.name == "lab" else "DC0_*", version=19)}
    if estate.name == "lab":
        playbooks["some"] = TRAINING.format(**parts(estate.size))
    found = {}
    for name, text in playbooks.items():
        file = estate.folder / f"{name}.yml"
        file.write_text(text, "utf-8")
        title = "plan of a change of every VM" if name == "every" else f"plan of {parts(estate.size)['training']} VMs"
        found[title] = lambda file=file: tool("plan", "-i", estate.inventory, file, env=estate.env, ok=FINE)
    for name in WHOLE:
        found[name] = lambda name=name: tool(name, "-i", estate.inventory, env=estate.env, ok=FINE)
    return found


def measured(start: Callable, size: Size, title: str, times: int) -> list[Row]:
    """Return the rows of one server: its start, and each command."""
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name, contextlib.ExitStack() as stack:
        began = time.perf_counter()
        try:
            estate = stack.enter_context(start(size, Path(name)))
        except Absent as absent:
            absent.report()
            return []
        took = {"wall": time.perf_counter() - began}
        each = works(estate)
        case = Case("commands", title, size, "cpu", dict.fromkeys(each, "ours"))
        first = case.row("start of the server", [took])
        return [first, *case.compare({who: counted(estate, work) for who, work in each.items()}, times)]


def measure(size: Size, times: int) -> list[Row]:
    """Return a row for each command and server; at the largest size also of few hosts that have as many VMs."""
    # VMware's simulator does not page: at the largest size one answer is beyond what is accepted of a vCenter
    servers = (lab,) if size.name == "L" else (lab, vcsim)
    rows = [row for start in servers for row in measured(start, size, start.__name__, times)]
    if size.name == "L":
        rows += measured(lab, Size(size.name, DENSE, size.vms), f"lab, {DENSE} hosts", times)
    return rows


if __name__ == "__main__":
    alone(__doc__, measure)
