"""File of an open journal: whether its path still leads to it, also after its folder was removed."""

from __future__ import annotations

from pathlib import Path

from vsphere_ai.errors import Storage


class OpenFile:
    """A file as it was when it was opened; a database goes on writing into one that was removed, without an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = _identity(path)

    def require_there(self, run: str) -> None:
        """Raise `Storage` where the path leads to no file, or to another one: nothing may be sent without a record."""
        if self._opened is None or _identity(self._path) == self._opened:
            return
        raise Storage(
            f"{self._path} was removed or replaced while run {run} works, so nothing more is begun",
            "what the run has out of service is also written in vCenter; put it back with: "
            f"vsphere-ai resume --from-vcenter {run}",
            rule="journal.gone",
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None where there is none."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_dev, seen.st_ino
