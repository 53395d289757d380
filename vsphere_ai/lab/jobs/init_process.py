"""Init process of a guest: starts its other processes, and ends all that is left when the lab wants it or is gone.

It is a program of its own, with Python's standard library only. Its standard input is a socket of the lab: a message
there is a command with the files of its input, output and errors; the end of the socket, however the lab ended, is the
end of every process below. What a process leaves behind becomes a child of it (a subreaper), so that nothing
is lost sight of; processes that were started without the guest's environment are found as its descendants.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Numbers of prctl(2), from linux/prctl.h."""
LONGEST = 256 * 1024
"""Bytes of a message: Linux takes no word of a command longer than 128 KiB (MAX_ARG_STRLEN)."""
TICK = 0.5
"""Seconds between looks at the bounds."""
NOT_STARTED = 126


def descendants(root: int) -> dict[int, float]:
    """Return the processes below one with the seconds since boot at which each began, zombies excepted."""
    ticks = os.sysconf("SC_CLK_TCK")
    below: dict[int, list[int]] = {}
    began: dict[int, float] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(words[1]), []).append(int(name))
        if words[0] != "Z":
            began[int(name)] = int(words[19]) / ticks
    found: dict[int, float] = {}
    todo = [root]
    while todo:
        new = [pid for pid in below.get(todo.pop(), ()) if pid not in found]
        found.update((pid, began[pid]) for pid in new if pid in began)
        todo += new
    return found


class InitProcess:
    """The processes of a guest; `limits` has `processes`, `memory_mb` of each and `seconds` of each."""

    def __init__(self, sock: socket.socket, limits: dict[str, float]) -> None:
        self.sock, self.limits = sock, limits
        self.commands: dict[int, int] = {}
        """Numbers of the lab's commands by process."""
        self.lost = ""
        """Variable of processes that use a GPU which is lost; empty: none is."""

    def work(self) -> None:
        """Do what the lab asks for until it is gone; then nothing is left of the guest."""
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.sock.shutdown(socket.SHUT_RDWR))
        looked = 0.0
        while True:
            ready, _, _ = select.select([self.sock.fileno(), wake], [], [], TICK)
            if wake in ready:
                os.read(wake, 4096)
            self.reap()
            if self.sock.fileno() in ready and not self.hear():
                break
            if time.monotonic() - looked > TICK:
                looked = time.monotonic()
                self.bound()
                self.abort()
        self.end()

    def hear(self) -> bool:
        """Take a message of the lab; False when it is gone, or wants the end."""
        try:
            message, files, _, _ = socket.recv_fds(self.sock, LONGEST, 3)
        except OSError:
            return False
        if not message:
            return False
        asked: dict[str, Any] = json.loads(message)
        if "lost" in asked:
            self.lost = str(asked["lost"])
            self.abort()
            return True
        pid = os.fork()
        if not pid:
            self.become(asked["argv"], files)
        for file in files:
            os.close(file)
        self.commands[pid] = asked["number"]
        return True

    def become(self, argv: list[str], files: list[int]) -> None:
        """Become a command, in a session of its own and within the bounds of one process."""
        try:
            os.setsid()
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            memory, seconds = int(self.limits["memory_mb"]) << 20, int(self.limits["seconds"]) + 1
            # data, not addresses: numerical libraries map much more than they use (setrlimit(2), Linux 4.7 and later)
            for kind, most in (
                (resource.RLIMIT_DATA, memory),
                (resource.RLIMIT_CPU, seconds),
                (resource.RLIMIT_CORE, 0),
            ):
                _, hard = resource.getrlimit(kind)
                lower = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(kind, (lower, lower))
            for target, file in enumerate(files):
                os.dup2(file, target)
            os.closerange(3, 4096)
            os.execvp(argv[0], argv)  # noqa: S606 - the lab's shell line
        except BaseException as fault:
            os.write(2, f"{argv[0]}: {fault}\n".encode())
        finally:
            os._exit(NOT_STARTED)

    def reap(self) -> None:
        """Report to the lab which of its commands have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            number = self.commands.pop(pid, None)
            if number is not None:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
                with contextlib.suppress(OSError):
                    self.sock.send(json.dumps({"number": number, "code": code}).encode())

    def abort(self) -> None:
        """Abort the processes that use a lost GPU, as programs do when CUDA fails under them."""
        if self.lost:
            self.kill({pid for pid in descendants(os.getpid()) if has_variable(pid, self.lost)}, signal.SIGABRT)

    def bound(self) -> None:
        """End what runs for too long, and the newest of too many."""
        there = descendants(os.getpid())
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        old = {pid for pid, began in there.items() if now - began > self.limits["seconds"]}
        newest = sorted(there, key=lambda pid: there[pid], reverse=True)
        many = newest[: max(0, len(there) - int(self.limits["processes"]))]
        self.kill({*old, *many}, signal.SIGKILL)

    def kill(self, pids: set[int], number: int) -> None:
        """Send a signal to processes."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self) -> None:
        """End everything below, also what they start until they have ended."""
        while there := descendants(os.getpid()):
            self.kill(set(there), signal.SIGKILL)
            self.reap()
            time.sleep(0.01)


def has_variable(pid: int, name: str) -> bool:
    """Return whether a process was started with a variable."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(each.startswith(f"{name}=".encode()) for each in file.read().split(b"\0"))
    except OSError:
        return False


if __name__ == "__main__":
    InitProcess(socket.socket(fileno=0), json.loads(sys.argv[1])).work()
