"""One run at a time on a vCenter: a kernel lock, which the death of its holder frees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from vsphere_ai.errors import Locked, Storage
from vsphere_ai.journal import identity
from vsphere_ai.places import state_dir


@contextmanager
def hold(instance: str, run: str) -> Iterator[None]:
    """Hold the lock of a vCenter (by its instance UUID); `Locked` at once, naming the holder, when somebody has it."""
    from filelock import FileLock, Timeout

    folder = state_dir() / "locks"
    name = "".join(c for c in instance if c.isalnum() or c == "-") or "unknown"
    note = folder / f"{name}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock", mode=0o600)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise Locked(f"another run works on this vCenter: {_holder(note)}", "wait for it, or stop it") from error
    except OSError as error:
        raise Storage(f"{folder}: {error.strerror}", "give a folder of your own in VSPHERE_AI_STATE_DIR") from error
    try:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        note.write_text(json.dumps({**identity(), "run": run, "since": since}), encoding="utf-8")
        yield
    finally:
        note.unlink(missing_ok=True)
        lock.release()


def _holder(note: Any) -> str:
    try:
        who = json.loads(note.read_text(encoding="utf-8"))
        return f"{who['user']} on {who['machine']}, process {who['pid']}, run {who['run']}, since {who['since']}"
    except (OSError, ValueError, KeyError):
        return "it has not said who it is yet"
