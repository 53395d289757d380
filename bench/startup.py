"""Start-up: what a command costs that does nothing, beside the bare interpreter and other tools where installed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial

from common import Case, Figures, Row, Size, process, tool
from estates import Absent
from peers import ansible
from run import alone

PYTHON, OURS = "python3 -c pass", "vsphere-ai"
MANY = 5
"""Times as many runs as of others: each takes a few hundredths of a second."""


def works() -> dict[str, Callable[[], Figures]]:
    """Return what is started."""
    found: dict[str, Callable[[], Figures]] = {PYTHON: lambda: process([sys.executable, "-c", "pass"])[0]}
    for arguments in (["--version"], ["--help"], ["plan", "--help"], ["explain", "mig"]):
        found[f"{OURS} {' '.join(arguments)}"] = partial(tool, *arguments)
    govc = shutil.which("govc")
    if govc:
        found["govc version"] = lambda: process([govc, "version"])[0]
    else:
        Absent("govc is not measured: it is not installed").report()
    try:
        playbook = ansible()
        found["ansible-playbook --version"] = lambda: process([playbook, "--version"])[0]
    except Absent as absent:
        absent.report()
    return found


def measure(size: Size, times: int) -> list[Row]:
    """Return a row for each command; their size does not matter."""
    each = works()
    roles = {PYTHON: "limit", f"{OURS} --version": "ours"}
    return Case("startup", "start of a command", size, "cpu", roles).compare(each, times * MANY)


if __name__ == "__main__":
    alone(__doc__, measure)
