"""World as text: the vCenter that a command works on, for the header of a plan and for the question."""

from __future__ import annotations

from vsphere_ai.model.name_ranges import quoted
from vsphere_ai.model.world import World


def world_line(world: World) -> str:
    """Return a line that names vCenter, user and inventory; it begins with LAB where it is the simulated farm."""
    how = f" ({world.found})" if world.found else ""
    return f"{'LAB  ' if world.lab else ''}{_vcenter(world)} as {world.user}; inventory {world.inventory}{how}"


def world_words(world: World) -> str:
    """Return the vCenter in a few words, for a question."""
    return f"{'LAB ' if world.lab else ''}{_vcenter(world)}"


def _vcenter(world: World) -> str:
    return f"vCenter {quoted(world.name)} ({world.address})"
