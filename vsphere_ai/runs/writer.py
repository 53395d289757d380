"""Writer of a journal: what its statements are carried out on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Row = Sequence[str | int | None]


class Writer(Protocol):
    """What statements are carried out on: a database, or what also keeps them."""

    def execute(self, sql: str, row: Row = ..., /) -> object:
        """Carry out a statement."""

    def executemany(self, sql: str, rows: Sequence[Row], /) -> object:
        """Carry out a statement for each row."""
