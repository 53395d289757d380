"""Entries of lists: which come twice, and lists of the API with changed entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Entry = Mapping[str, object]
UNIQUE_NAMES = "names of networks are unique within a datacenter: choose another one"


def twice(names: Iterable[str]) -> list[str]:
    """Return the names that come more than once, each once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def overlaid(entries: Iterable[Entry] | None, key: str, changes: Mapping[str, Entry]) -> tuple[Entry, ...]:
    """Return the objects of a list with their changes, by what each has at `key`; those without any stay."""
    return tuple({**entry, **changes.get(str(entry[key]), {})} for entry in entries or ())
