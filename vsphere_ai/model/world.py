"""World: which vCenter a command works on, and how it was chosen; what an operator checks before a yes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class World:
    """A vCenter by its name in the inventory, its address (with the port, unless it is 443) and the user there.

    `found` says how the inventory file was found, in a few words; `lab` that it is the simulated environment.
    """

    name: str
    address: str
    user: str
    inventory: str
    found: str
    lab: bool = False
