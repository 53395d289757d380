"""Files of journals: which runs a text names, and which have written something, without opening any."""

from __future__ import annotations

import re
from contextlib import suppress

from vsphere_ai.runs.journal import files

NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
SHORTEST = 4  # a run is named by its beginning; less than this is rather a pattern of hosts


def stamps() -> dict[str, tuple[int, ...]]:
    """Return for each run what changes when something is written into its journal: sizes and times of its files."""
    found = {}
    for path in files():
        parts: list[int] = []
        for part in (path, path.with_name(f"{path.name}-wal")):
            with suppress(OSError):  # it may be removed at this moment
                seen = part.stat()
                parts += [seen.st_size, seen.st_mtime_ns]
        found[path.stem] = tuple(parts)
    return found


def is_named(text: str) -> bool:
    """Return whether a text names a run: it has the form of a name, or is the beginning of the name of one there is."""
    if NAME.fullmatch(text):
        return True
    return len(text) >= SHORTEST and any(path.stem.startswith(text) for path in files())
