"""Ownership of a file: whether another user could have written it, or could put another one in its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


class Gap(NamedTuple):
    """A file, folder or link that another user can change: ``why`` follows its path in a sentence."""

    path: Path
    why: str
    remedy: str


def gap(path: Path) -> Gap | None:
    """Return the first place through which another user decides what a file holds; None when there is none.

    The file and every folder and link on the way to it have to belong to this user or to root, and no one else may
    write there. The folder of the file itself has to be closed to others; above it, a folder like /tmp that keeps
    entries for their owners is fine. With sudo, the user who called it counts as well, as git does it
    (safe.directory, CVE-2022-24765). `OSError` when something on the way cannot be looked at.
    """
    way = tuple(_way(path))
    folders = {each.parent for each in way if not _is_folder(each)}
    trusted = _trusted()
    for each in way:
        status = os.lstat(each)
        if status.st_uid not in trusted:
            return Gap(each, f"belongs to another user (uid {status.st_uid})", f"chown {os.geteuid()} {each}")
        if stat.S_ISLNK(status.st_mode) or not status.st_mode & _WRITABLE:
            continue
        if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and each not in folders:
            continue
        mode = stat.S_IMODE(status.st_mode)
        return Gap(each, f"can be changed by others (mode {mode:03o})", f"chmod go-w {each}")
    return None


def _trusted() -> frozenset[int]:
    user = os.geteuid()
    caller = os.environ.get("SUDO_UID", "")
    # who may call sudo can be root anyway; for any other user that variable says nothing
    return frozenset({0, user, int(caller)} if user == 0 and caller.isdecimal() else {0, user})


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _way(path: Path) -> Iterator[Path]:
    """Yield the file and every folder and link the system goes through to get there."""
    at = Path("/")
    todo = list(reversed(path.absolute().parts[1:]))
    yield at
    for _ in range(1000):  # a circle of links was seen by who opened the file
        if not todo:
            return
        part = todo.pop()
        if part == "..":
            at = at.parent
            continue
        step = at / part
        yield step
        if not step.is_symlink():
            at = step
            continue
        target = Path(os.readlink(step))
        at = Path("/") if target.is_absolute() else at
        todo += reversed(target.parts[1:] if target.is_absolute() else target.parts)
