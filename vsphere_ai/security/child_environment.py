"""Environment of the programs that an operator names: this process's own, without the variables that hold secrets.

A variable is withheld when a reference names it (``env:NAME``), of an inventory, a playbook or the command line, and so
is a copy of it under another name. What a program needs itself, such as the token of a vault, stays: no reference names
it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SHORTEST_COPY = 6
"""Characters from which on a variable with the same value counts as a copy; ``1`` or ``yes`` is met by chance."""

_lock = threading.Lock()
_withheld: frozenset[str] = frozenset()


def withhold(name: str) -> None:
    """Withhold an environment variable from every program that is started from now on."""
    global _withheld
    with _lock:
        _withheld |= {name}


def inherited() -> dict[str, str]:
    """Return the environment for a program: that of this process without secrets."""
    secrets = {os.environ[name] for name in _withheld if len(os.environ.get(name, "")) >= SHORTEST_COPY}
    return {name: value for name, value in os.environ.items() if name not in _withheld and value not in secrets}


@contextmanager
def fresh() -> Iterator[None]:
    """Begin with nothing withheld, and forget what the block withheld at its end: the next command has its own."""
    global _withheld
    with _lock:
        before, _withheld = _withheld, frozenset()
    try:
        yield
    finally:
        with _lock:
            _withheld = before
