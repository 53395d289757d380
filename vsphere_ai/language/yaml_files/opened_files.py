"""Files that were opened while a playbook was read: what another machine needs to read it."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

opened: ContextVar[dict[Path, str] | None] = ContextVar("opened", default=None)
"""Gets the text of every file of YAML that this thread reads, by its path; None: it is not kept."""


def keep(path: Path, text: str) -> str:
    """Return the text of a file that was read, and keep it where that is wanted."""
    files = opened.get()
    if files is not None:
        files[path] = text
    return text
