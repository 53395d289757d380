"""Coverage of each room: ``python -m tools.covered`` reads ``.coverage``, which processes of the tool have added to.

A room is a folder of `vsphere_ai/`. Those without input and output have to be covered to 90 % of their branches; of the
others, which talk to servers, the figure is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

PACKAGE = "vsphere_ai"
WITH_INPUT_AND_OUTPUT = {"app", "cli", "connect", "execution", "fleet", "lab", "reading", "runs", "security", "web"}
"""Rooms that talk to servers, to the disk or to the operator; `tests/tools/test_covered.py` compares the list."""
LEAST = 90.0
"""Per cent of the branches of the pure rooms."""


class Covered(NamedTuple):
    """Lines that can be carried out and branches, and how many of them were."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_taken: int = 0

    def plus(self, other: Covered) -> Covered:
        """Return both together."""
        return Covered(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def of_lines(self) -> float:
        """Per cent of the lines; 100 where there are none."""
        return 100 * self.lines_run / self.lines if self.lines else 100.0

    @property
    def of_branches(self) -> float:
        """Per cent of the branches; 100 where there are none."""
        return 100 * self.branches_taken / self.branches if self.branches else 100.0


def by_room(report: Mapping[str, Any]) -> dict[str, Covered]:
    """Return the coverage of each room from what ``coverage json`` writes; modules beside the rooms are ``(root)``."""
    rooms: dict[str, Covered] = {}
    for path, file in report["files"].items():
        _, *folders, _module = path.replace("\\", "/").split("/")
        room, said = folders[0] if folders else "(root)", file["summary"]
        one = Covered(said["num_statements"], said["covered_lines"], said["num_branches"], said["covered_branches"])
        rooms[room] = rooms.get(room, Covered()).plus(one)
    return dict(sorted(rooms.items()))


def together(all_covered: Iterable[Covered]) -> Covered:
    """Return the sum."""
    total = Covered()
    for one in all_covered:
        total = total.plus(one)
    return total


def main() -> int:
    """Print a line for each room and for all, and return 1 where the pure rooms are covered too little."""
    printed = subprocess.run(
        [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"], check=True, capture_output=True, text=True
    )
    rooms = by_room(json.loads(printed.stdout))
    pure = together(covered for room, covered in rooms.items() if room not in WITH_INPUT_AND_OUTPUT)
    print(f"{'room':<24}{'lines':>8}{'run':>8}{'branches':>10}{'taken':>8}")
    for name, covered in (*rooms.items(), ("pure rooms", pure), ("all", together(rooms.values()))):
        print(
            f"{name:<24}{covered.lines:>8}{covered.of_lines:>7.1f}%{covered.branches:>10}{covered.of_branches:>7.1f}%"
        )
    if pure.of_branches < LEAST:
        print(f"the pure rooms have to be covered to {LEAST:.0f} % of their branches", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
