"""Files beside a playbook that a state in it names: how they are read, and where their faults go."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

Spot = tuple[str | int, ...]
"""Keys and indices that lead to a value."""


class Refuse(Protocol):
    """Notes a fault of the value at a path of a file."""

    def __call__(self, path: Spot, message: str, help: str = "") -> None: ...  # noqa: D102


class NamedFile(NamedTuple):
    """A YAML file that a playbook names: its plain values, and where faults in it go."""

    data: Any
    refuse: Refuse


class Files(Protocol):
    """The files beside a playbook, for a state in it; a spot leads to a value of the state as it is written there."""

    def load(self, spot: Spot, key: str = "") -> NamedFile | None:
        """Return the file that is named at a spot; None, with the fault noted, when it cannot be read.

        With `key`, the document of it that has this key, also where it is text inside of another one.
        """

    def text(self, spot: Spot) -> NamedFile | None:
        """Return the YAML that is text at a spot; None, with the fault noted, when it is none."""

    def refuse(self, spot: Spot, message: str, help: str = "") -> None:
        """Note a fault of what the playbook says at a spot."""


class ReadsFiles:
    """A kind whose states in a playbook name files."""

    def with_files(self, files: Files) -> Self:
        """Return this state, just read from a playbook, with the content of the files it names."""
        return self
