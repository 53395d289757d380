"""Folders of guests that run jobs, and what is left of their processes when the lab is gone."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

GUESTS, SHARED_FOLDER = "guests", "shared"
"""Folders of the lab's directory: one of each guest below the first, and what all guests have as ``/shared``."""
OF_LAB = "LAB_OF_GUEST"
"""Variable of every process of a guest: the lab's directory. By it `lab down` finds what a killed lab has left."""
SWEEP = 10.0
"""Seconds after which a process that cannot be ended is left: it waits for a device."""


def sweep(directory: Path) -> None:
    """End what guests of a lab that is gone have left, and remove their folders."""
    directory = directory.resolve()
    if not (directory / GUESTS).exists():
        return
    until = time.monotonic() + SWEEP
    while (left := processes_of(directory)) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    for name in (GUESTS, SHARED_FOLDER):
        shutil.rmtree(directory / name, ignore_errors=True)


def processes_of(directory: Path) -> list[int]:
    """Return the processes of this user that carry the mark of the guests of a lab, zombies excepted."""
    mark, processes = f"{OF_LAB}={directory}".encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if mark in file.read().split(b"\0"):
                processes.append(int(name))
    return processes
