"""Fleet run as text: how its shards stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.text import columns
from vsphere_ai.report.folding import Line, wrapped


class ShownShardOutcome(Protocol):
    """How the shard of one vCenter stands."""

    @property
    def vcenter(self) -> str:
        """Its name in the inventory."""

    @property
    def run(self) -> str:
        """Its run."""

    @property
    def state(self) -> str:
        """Its state."""

    @property
    def changed(self) -> int:
        """Number of targets that were changed."""

    @property
    def verified(self) -> int:
        """Number of targets that were read back."""

    @property
    def failed(self) -> int:
        """Number of steps that failed."""

    @property
    def unknown(self) -> int:
        """Number of steps with an unknown outcome."""

    @property
    def left_open(self) -> Sequence[str]:
        """What was not put back."""

    @property
    def message(self) -> str:
        """Why it ended early."""


def outcomes_text(outcomes: Sequence[ShownShardOutcome], width: int = 100) -> str:
    """Return how the shards of a fleet run stand, as a table, and what is left of each."""
    head = ("vCenter", "run", "state", "changed", "verified", "failed", "unknown", "left open")
    rows = [head, *map(_row, outcomes)]
    widths = [max(columns(row[at]) for row in rows) for at in range(len(head))]
    lines: list[Line] = []
    for row in rows:
        padded = (cell + " " * (size - columns(cell)) for cell, size in zip(row, widths, strict=True))
        lines.append(("  ".join(padded).rstrip(), 0))
    for each in outcomes:
        lines += [(f"  {quoted(each.vcenter)}: {text}", 4) for text in (each.message, *each.left_open) if text]
    return "\n".join(wrapped(lines, width))


def _row(outcome: ShownShardOutcome) -> tuple[str, ...]:
    numbers = (outcome.changed, outcome.verified, outcome.failed, outcome.unknown, len(outcome.left_open))
    return quoted(outcome.vcenter), outcome.run, outcome.state, *map(str, numbers)
