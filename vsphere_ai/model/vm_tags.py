"""vSphere tags of VMs: what an estate has of them, and the categories they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ATTACHED = "tags"
"""Fact of a VM: name of a category -> names of its tags that are attached, sorted; only categories that were read."""
TAG_SERVICE = "TagService"
"""Type of the one object of an estate that has the categories; vCenter knows no such managed object."""
CATEGORIES = "categories"
"""Its fact: name -> `TagCategory`, of those that were read; of others the names only (None)."""


@dataclass(frozen=True)
class TagCategory:
    """A category of tags. `single`: an object has one tag of it at most; `tags`: names -> ids.

    `types` are managed types that its tags are for, such as ``VirtualMachine``; empty: all.
    """

    id: str
    single: bool = False
    types: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_for_vms(self) -> bool:
        """Whether its tags can be attached to VMs."""
        return not self.types or "VirtualMachine" in self.types
