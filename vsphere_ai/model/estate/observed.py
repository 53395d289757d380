"""States that are observed when they are first asked for, and values that are laid over others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

from vsphere_ai.model.state import KindName, State

Key = tuple[str, KindName]
"""The reference of an object, and a kind."""
K = TypeVar("K")
V = TypeVar("V")


class Observed(Mapping[Key, State | None]):
    """The observed state of every kind on every object it is for; None where it cannot be known.

    `kinds` are the kinds in the order in which keys are listed, `refs(kind)` the objects of one, `has(ref, kind)` says
    whether an object is one of them, and `observe(ref, kind)` is called once for each state that is asked for.
    """

    def __init__(
        self,
        kinds: tuple[KindName, ...],
        refs: Callable[[KindName], Iterator[str]],
        has: Callable[[str, KindName], bool],
        observe: Callable[[str, KindName], State | None],
    ) -> None:
        self.kinds, self._refs, self._has, self._observe = kinds, refs, has, observe
        self._found: dict[Key, State | None] = {}

    def __getitem__(self, key: Key) -> State | None:
        if key not in self._found:
            if not self._has(*key):
                raise KeyError(key)
            self._found[key] = self._observe(*key)
        return self._found[key]

    def get(self, key: Key, default: Any = None) -> Any:
        """Return a state, observed when it is first asked for; `default` on an object that the kind is not for.

        A `KeyError` of a value that lacks a field is raised; that of `Mapping.get` would take it for a missing key.
        """
        found = self._found.get(key, self)
        if found is not self:
            return found
        return self[key] if self._has(*key) else default

    def __contains__(self, key: object) -> bool:
        return key in self._found or (isinstance(key, tuple) and self._has(*key))

    def __iter__(self) -> Iterator[Key]:
        return ((ref, kind) for kind in self.kinds for ref in self._refs(kind))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Record(Generic[K, V]):
    """What was laid over something, numbered in order; several mappings read it, each up to its own number.

    Threads of a run lay what they read again over the same estate; the lock gives each a number of its own.
    """

    def __init__(self, entries: dict[K, list[tuple[int, V]]], size: int) -> None:
        self.entries, self.size, self.lock = entries, size, Lock()


class Layered(Mapping[K, V]):
    """Values as they are below, but for those laid over them. Laying more over them leaves this mapping as it is.

    What it costs to lay a value over others does not grow with their number.
    """

    def __init__(self, below: Mapping[K, V], record: _Record[K, V] | None = None, size: int = 0) -> None:
        self._below, self._size = below, size
        self._record: _Record[K, V] = record or _Record({}, 0)

    def over(self, more: Mapping[K, V]) -> Layered[K, V]:
        """Return these values with more laid over them."""
        with self._record.lock:
            record = self._record if self._record.size == self._size else _Record(self._own(), self._size)
            size = record.size = self._size + 1
            for key, value in more.items():
                record.entries.setdefault(key, []).append((size, value))
        return Layered(self._below, record, size)

    def _own(self) -> dict[K, list[tuple[int, V]]]:
        own = {key: [e for e in entries if e[0] <= self._size] for key, entries in self._record.entries.items()}
        return {key: entries for key, entries in own.items() if entries}

    def _laid(self, key: object) -> tuple[int, V] | None:
        entries = self._record.entries.get(key)  # type: ignore[arg-type]
        if entries and entries[-1][0] <= self._size:
            return entries[-1]
        return next((e for e in reversed(entries) if e[0] <= self._size), None) if entries else None

    def __getitem__(self, key: K) -> V:
        laid = self._laid(key) if key in self._record.entries else None
        return self._below[key] if laid is None else laid[1]

    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of a key, `default` where there is none."""
        laid = self._laid(key) if key in self._record.entries else None
        return self._below.get(key, default) if laid is None else laid[1]

    def __contains__(self, key: object) -> bool:
        return self._laid(key) is not None or key in self._below

    def __iter__(self) -> Iterator[K]:
        yield from self._below
        laid = tuple(self._record.entries)
        yield from (key for key in laid if key not in self._below and self._laid(key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Logged(Mapping[str, Any]):
    """A mapping that notes what is looked up in it, and in its copies with other values laid over."""

    def __init__(self, values: Mapping[str, object], note: Callable[[str], None]) -> None:
        self._values, self._note = values, note

    def over(self, more: Mapping[str, object]) -> Logged:
        """Return these values with more laid over them; looking them up is noted, too."""
        return Logged({**self._values, **more}, self._note)

    def __getitem__(self, key: str) -> object:
        self._note(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def laid_over(below: Mapping[K, V], more: Mapping[K, V]) -> Layered[K, V]:
    """Return values with others laid over them; nothing below is looked at for that."""
    return (below if isinstance(below, Layered) else Layered(below)).over(more)
