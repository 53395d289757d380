"""Notes of hosts whose SSH was started to read from them, so that the next command stops what a killed one left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from vsphere_ai.errors import Storage, Unreachable
from vsphere_ai.security.files import flush, open_own, reading
from vsphere_ai.security.state_dir import file_name, own_folder, state_dir

SSH = "ssh"
PATIENCE = 60.0  # seconds
PAUSE = 0.1  # seconds


@contextlib.contextmanager
def noted(instance: str, ref: str) -> Iterator[None]:
    """Keep a note of a host of a vCenter (by instance UUID) until the block has ended well; `Storage` if it cannot.

    Its writer holds a kernel lock on the note, which the writer's death frees. While another one holds it, that host's
    SSH is the other's to stop: `Unreachable` when that takes longer than `PATIENCE`.
    """
    own_folder(SSH)
    path = _folder(instance) / ref.replace(":", "-")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        note = _ours(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        try:
            flush(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from error
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(note)


def _unwritable(path: Path, error: OSError) -> Storage:
    return Storage(f"{path}: {error.strerror}", "give a folder of your own in VSPHERE_AI_STATE_DIR")


def _ours(path: Path) -> int:
    """Return a handle of the note at a path, locked."""
    end = time.monotonic() + PATIENCE
    while True:
        note = open_own(path)
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(note).st_nlink:
                return note
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(note)
                raise Unreachable(
                    f"another command has read from this host over SSH for {PATIENCE:.0f} s, and still does",
                    "wait for its end, then try again",
                    rule="ssh.being-read",
                ) from None
            time.sleep(PAUSE)
        except BaseException:
            os.close(note)
            raise
        os.close(note)  # its writer has removed it since, or holds it


def held(instance: str) -> tuple[str, ...]:
    """Return the hosts whose SSH a command that lives has started: it is about to stop it again."""
    return tuple(_name(path) for path in _notes(instance) if not _is_free(path))


def is_held(instance: str, ref: str) -> bool:
    """Return whether a command that lives has started the SSH of a host."""
    return ref in held(instance)


def left(instance: str) -> tuple[str, ...]:
    """Return the hosts noted by commands that are gone."""
    return tuple(_name(path) for path in _notes(instance) if _is_free(path))


def _notes(instance: str) -> list[Path]:
    folder = _folder(instance)
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _name(path: Path) -> str:
    return path.name.replace("-", ":", 1)


def forget(instance: str, ref: str) -> None:
    """Remove a note."""
    (_folder(instance) / ref.replace(":", "-")).unlink(missing_ok=True)


def _folder(instance: str) -> Path:
    return state_dir() / SSH / file_name(instance)


def _is_free(path: Path) -> bool:
    with contextlib.suppress(OSError), reading(path) as note:
        fcntl.flock(note, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return os.fstat(note.fileno()).st_nlink > 0
    return False
