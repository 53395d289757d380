"""Indexes of an estate: its objects by keys that each of them has by itself, found out once and kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from vsphere_ai.model.estate.observed import laid_over

ReferencesByKey = Mapping[Hashable, tuple[str, ...]]
"""References of objects by key."""


class Referenced(Protocol):
    """What was read of an object, as `Facts` are."""

    @property
    def ref(self) -> str:
        """The managed object reference."""


@dataclass(frozen=True)
class Index:
    """Keys of the objects of some managed types.

    `keys` returns the keys of one object, from its own facts alone: what an object has is derived again only
    where it was read again.
    """

    types: tuple[str, ...]
    keys: Callable[[Any], Iterable[Hashable]]

    def concerns(self, ref: str) -> bool:
        """Return whether an object is of one of the types."""
        return ref.partition(":")[0] in self.types


class Changed(NamedTuple):
    """An object as it was, None where there was none, and as it is now."""

    before: Referenced | None
    now: Referenced


def indexed(index: Index, objects: Iterable[Referenced]) -> ReferencesByKey:
    """Return the references of objects by their keys."""
    found: dict[Hashable, list[str]] = {}
    for facts in objects:
        for key in dict.fromkeys(index.keys(facts)):
            found.setdefault(key, []).append(facts.ref)
    return {key: tuple(refs) for key, refs in found.items()}


def with_changes(index: Index, found: ReferencesByKey, changes: Iterable[Changed]) -> ReferencesByKey:
    """Return what an index has once objects have changed; what it costs does not grow with the other objects."""
    more: dict[Hashable, tuple[str, ...]] = {}
    for before, now in changes:
        if not index.concerns(now.ref):
            continue
        had = dict.fromkeys(index.keys(before) if before is not None else ())
        has = dict.fromkeys(index.keys(now))
        for key in (k for k in had if k not in has):
            more[key] = tuple(ref for ref in more.get(key, found.get(key, ())) if ref != now.ref)
        for key in (k for k in has if k not in had):
            more[key] = (*more.get(key, found.get(key, ())), now.ref)
    return laid_over(found, more) if more else found
