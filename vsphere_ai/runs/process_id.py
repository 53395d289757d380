"""Identity of the process that wrote something, and whether it still runs: a number alone may be reused."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path
from typing import TypedDict

from vsphere_ai.security.files import SMALL, read_text

PROC = Path("/proc")


class Identity(TypedDict):
    """User, machine, process number, and start of the process (see `born`; empty where there is no /proc)."""

    user: str
    machine: str
    pid: int
    born: str


def identity() -> Identity:
    """Return the identity of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    pid = os.getpid()
    return {"user": user, "machine": socket.gethostname(), "pid": pid, "born": born(pid)}


def runs(pid: int, when: str = "", *, own: bool = False) -> bool:
    """Return whether a process of this number runs here and, where that can be read, has the same start.

    `own`: it would be of this user, so a process of another user is another one.
    """
    if when and born(os.getpid()):
        return born(pid) == when
    try:
        os.kill(pid, 0)
    except PermissionError:
        return not own
    except (OSError, OverflowError):
        return False
    return pid > 0


def born(pid: int) -> str:
    """Return when a process began, as the boot of the machine and the clock ticks since (proc(5), field 22).

    Empty when there is no such process, it is dead but still listed, or this system has no /proc.
    """
    try:
        # the name, in brackets, may hold anything, also brackets
        fields = read_text(PROC / str(pid) / "stat", SMALL, "replace").rpartition(")")[2].split()
        boot = read_text(PROC / "sys/kernel/random/boot_id", SMALL).strip()
        return "" if fields[0] in "ZX" else f"{boot}/{fields[19]}"
    except (OSError, ValueError, IndexError):
        return ""
