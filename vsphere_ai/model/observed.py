"""States of what was read: each is observed when it is first asked for, and planned ones are laid over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

Key = tuple[str, str]
"""The reference of an object, and a kind."""
_NOT_YET = object()


class Observed(Mapping[Key, Any]):
    """The observed state of every kind on every object it is for.

    `refs` has the references of the objects by kind; `observe(ref, kind)` is called once for each state asked for.
    """

    def __init__(self, refs: Mapping[str, Collection[str]], observe: Callable[[str, str], Any]) -> None:
        self._refs, self._observe = refs, observe
        self._found: dict[Key, Any] = {}

    @property
    def kinds(self) -> frozenset[str]:
        """Every kind that some object has."""
        return frozenset(kind for kind, refs in self._refs.items() if refs)

    def __getitem__(self, key: Key) -> Any:
        found = self._found.get(key, _NOT_YET)
        if found is _NOT_YET:
            ref, kind = key
            if ref not in self._refs.get(kind, ()):
                raise KeyError(key)
            found = self._found[key] = self._observe(ref, kind)
        return found

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and key[0] in self._refs.get(key[1], ())

    def __iter__(self) -> Iterator[Key]:
        return ((ref, kind) for kind, refs in self._refs.items() for ref in refs)

    def __len__(self) -> int:
        return sum(len(refs) for refs in self._refs.values())


class Overlay(Mapping[Key, Any]):
    """States as they are below, but for those laid over them."""

    def __init__(self, below: Mapping[Key, Any], laid: Mapping[Key, Any]) -> None:
        self._below, self._laid = below, laid

    @property
    def kinds(self) -> frozenset[str]:
        """Every kind there is a state of."""
        return kinds_of(self._below) | {kind for _, kind in self._laid}

    def with_laid(self, states: Mapping[Key, Any]) -> Overlay:
        """Return these states with more laid over them."""
        return Overlay(self._below, {**self._laid, **states})

    def __getitem__(self, key: Key) -> Any:
        return self._laid[key] if key in self._laid else self._below[key]

    def __contains__(self, key: object) -> bool:
        return key in self._laid or key in self._below

    def __iter__(self) -> Iterator[Key]:
        yield from self._below
        yield from (key for key in self._laid if key not in self._below)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def kinds_of(states: Mapping[Key, Any]) -> frozenset[str]:
    """Return every kind there is a state of."""
    if isinstance(states, Observed | Overlay):
        return states.kinds
    return frozenset(kind for _, kind in states)


def laid_over(states: Mapping[Key, Any], more: Mapping[Key, Any]) -> Mapping[Key, Any]:
    """Return states with others laid over them; none of those below is observed for that."""
    return states.with_laid(more) if isinstance(states, Overlay) else Overlay(states, more)
