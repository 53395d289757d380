"""Questions to the operator: while one is open, no sign of life is printed over it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_open = threading.Event()


@contextmanager
def asking() -> Iterator[None]:
    """Mark that the operator is being asked; questions are asked one at a time, by the main thread."""
    _open.set()
    try:
        yield
    finally:
        _open.clear()


def is_asking() -> bool:
    """Return whether a question waits for the operator's answer."""
    return _open.is_set()
