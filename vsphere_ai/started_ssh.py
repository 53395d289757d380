"""Notes of hosts whose SSH was started to read from them, so that the next command stops what a killed one left."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from vsphere_ai.errors import Storage
from vsphere_ai.places import own_folder, state_dir

SSH = "ssh"


@contextlib.contextmanager
def noted(instance: str, ref: str) -> Iterator[None]:
    """Keep a note of a host of a vCenter (by instance UUID) until the block has ended well; `Storage` if it cannot.

    Its writer holds a kernel lock on the note, which the writer's death frees.
    """
    own_folder(SSH)
    path = _folder(instance) / ref.replace(":", "-")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        note = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _flush(path.parent)
        except OSError:
            os.close(note)
            raise
    except OSError as error:
        raise Storage(f"{path}: {error.strerror}", "give a folder of your own in VSPHERE_AI_STATE_DIR") from error
    try:
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(note)


def left(instance: str) -> tuple[str, ...]:
    """Return the hosts noted by commands that are gone."""
    folder = _folder(instance)
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    return tuple(name.replace("-", ":", 1) for name in names if _is_free(folder / name))


def forget(instance: str, ref: str) -> None:
    """Remove a note."""
    (_folder(instance) / ref.replace(":", "-")).unlink(missing_ok=True)


def _folder(instance: str) -> Path:
    return state_dir() / SSH / ("".join(c for c in instance if c.isalnum() or c == "-") or "unknown")


def _is_free(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as note:
        fcntl.flock(note, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    return False


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
