"""Memory for what is read: dictionaries that share their keys, and no search for garbage while pages are read."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar, cast

T = TypeVar("T")
_MOST_KEYS = 29
"""Keys that CPython shares at most, less one."""
_INSTANCES = 32
"""With each instance of a class there is less room for keys that may yet come; after so many there is none."""

_MANY = 50_000
"""Objects that a reading has left behind, from which on it takes long to look through them."""


def compact(value: Mapping[str, T]) -> dict[str, T]:
    """Return a dictionary with these items, whose copies take a third of what others take.

    CPython lets the dictionaries of instances of a class share their keys (PEP 412); a copy of such a one does as well.
    """
    made = cast("dict[str, T]", _laid_out(tuple(value)).copy())
    made.update(value)
    return made


@lru_cache(maxsize=2048)
def _laid_out(names: tuple[str, ...]) -> dict[str, object]:
    if len(names) > _MOST_KEYS:
        return dict.fromkeys(names)
    kind = type("_Layout", (), {})
    instance = kind()
    for _ in range(_INSTANCES):
        instance = kind()
        for name in names:
            setattr(instance, name, None)
    shared: dict[str, object] = vars(instance)
    return shared


@contextmanager
def no_collection() -> Iterator[None]:
    """Let Python not look for garbage: all that was read before would be looked through again and again.

    What was read is old at the end, without having been looked through: only a full collection does that.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # which goes through all that is frozen
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
        gc.enable()


def collect_young() -> None:
    """Collect what one page has left behind (parsers, which refer to themselves), within `no_collection`."""
    if not gc.isenabled():
        gc.collect(0)
