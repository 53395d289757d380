"""World as text: the vCenter that a command works on, for the header of a plan and for the question."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.world import World
from vsphere_ai.report.folding import Line


def world_lines(world: World) -> Iterator[Line]:
    """Yield the vCenter and the user, beginning with LAB in the simulated one; and the inventory file."""
    yield f"{_lab(world)}{_vcenter(world)} as {world.user}", 4
    yield f"inventory {world.inventory}{f' ({world.found})' if world.found else ''}", 0  # a path stays in one piece


def world_words(world: World) -> str:
    """Return the vCenter in a few words, for a question."""
    return f"{'LAB ' if world.lab else ''}{_vcenter(world)}"


def world_place(world: World) -> str:
    """Return the vCenter and the user behind the word vCenter; LAB first where it is the simulated environment."""
    return f"{_lab(world)}{quoted(world.name)} ({world.address}) as {world.user}"


def _lab(world: World) -> str:
    return "LAB  " if world.lab else ""


def _vcenter(world: World) -> str:
    return f"vCenter {quoted(world.name)} ({world.address})"
