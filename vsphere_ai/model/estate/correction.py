"""Correction: what has to be of a target, whatever setting brings it about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from vsphere_ai.model.state import Target


@dataclass(frozen=True)
class Correction:
    """What is to be of `target`; `name` is the switch or port group there that it is about, empty where it is none."""

    target: Target
    name: str = ""

    is_shared: ClassVar[bool] = False
    """A change of it affects other hosts, too."""

    @property
    def place(self) -> tuple[type[Correction], Target, str]:
        """What it corrects: corrections of one place are one."""
        return type(self), self.target, self.name

    def merged(self, other: Self) -> Self:
        """Return one correction that serves both; the other one decides what they differ in."""
        return other
