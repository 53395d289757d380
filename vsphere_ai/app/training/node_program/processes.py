"""Processes of a run on a node: started, watched, stopped, and proved to be gone.

The modules of this folder are sent to each node and run there, with Python 3.8 or later and its standard library:
guests that cloud-init sets up have Python, and sessions, process groups and exit codes are exact in it, which in a
shell they are not. Every process has a session of its own and carries the name of the run in its environment; what it
leaves behind becomes a child of the supervisor (a subreaper), so that nothing is lost sight of.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Dict  # noqa: UP035 - dict[...] is of Python 3.9

from vsphere_ai.app.training.node_program.watching import EVERY, Log, checksum

Message = Dict[str, Any]  # noqa: UP006
MARK = "VSPHERE_AI_RUN"
TICK = 0.05
"""Seconds between looks."""
DRAINED_MB, DRAIN = 512, 50.0
"""Memory of a GPU below which it counts as free, and the seconds until then."""
NO_DRIVER = (9, 12)
"""Exit codes of nvidia-smi without a driver, or without its library: no process can be on a GPU."""


def write(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file whole or not at all."""
    with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode), "w") as file:
        file.write(text)
    os.chmod(f"{path}.new", mode)
    os.replace(f"{path}.new", path)


def own_folder(path: str, *, new: bool = False) -> None:
    """Make a folder that is only this user's; one of another user is refused."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)
        if new or not os.path.isdir(path) or os.path.islink(path) or found.st_uid != os.getuid():
            sys.exit(f"{path} is there already{'' if new else ', and belongs to another user'}")


def authorize(run: str, line: str | None) -> None:
    """Let a key log in that is for one run only, or with None take it out again; other lines stay as they are."""
    path = os.path.expanduser("~/.ssh/authorized_keys")
    end = f" vsphere-ai:{run}"
    if line is None and not os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(path) as file:
                old = file.read()
        except FileNotFoundError:
            old = ""
        kept = [each for each in old.splitlines() if not each.endswith(end)]
        new = "".join(f"{each}\n" for each in [*kept, *([line] if line else [])])
        if new != old:
            mode = os.stat(path).st_mode & 0o777 if old else 0o600
            write(path, new, mode)


def leave(run: str, folder: str) -> None:
    """Take out what lets rank 0's node log in to the others, and the file of variables, which may have secrets."""
    authorize(run, None)
    for name in ("mesh_key", "env.json"):
        try:
            os.unlink(f"{folder}/{name}")
        except OSError:
            continue


def marked(run: str) -> set[int]:
    """Return the processes of this user that carry the name of a run, zombies excepted."""
    mark, found = f"{MARK}={run}".encode(), set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0") and int(name) != os.getpid():
                    found.add(int(name))
        except OSError:
            continue
    return found


def descendants(root: int) -> set[int]:
    """Return all processes below one, zombies excepted."""
    below: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            below.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    todo = [root]
    while todo:
        new = [pid for pid in below.get(todo.pop(), ()) if pid not in found]
        found.update(new)
        todo += new
    return found


def nvidia(query: str) -> list[int] | None:
    """Return what nvidia-smi lists, a number per line; nothing where it, or a driver, is not there.

    None where it does not answer within 10 s, or fails: then what the GPUs do is not known.
    """
    argv = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10)  # noqa: S603 - a fixed list
    except FileNotFoundError:
        return []
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return [] if done.returncode in NO_DRIVER else None
    return [int(line) for line in done.stdout.split() if line.isdecimal()]


def kill(pids: set[int], number: int) -> None:
    """Send a signal to processes and to the groups that they lead."""
    for pid in pids:
        for send in (os.killpg, os.kill):
            try:
                send(pid, number)
            except (ProcessLookupError, PermissionError):
                continue


class NodeProcesses:
    """The processes of a run on this node."""

    def __init__(self, spec: Message) -> None:
        self.spec, self.folder = spec, spec["folder"]
        self.attempt = 0
        self.codes: dict[str, int] = {}
        self.pids: dict[int, str] = {}
        self.started: set[int] = set()
        self.state: Message = {"state": "waiting", "run": spec["run"], "node": spec["node"], "reason": ""}
        self.state["vms"] = spec["vms"]
        self.state |= {"left": [], "unsure": False, "scripts": {path: checksum(path) for path in spec["scripts"]}}
        self.logs: dict[str, Log] = {}
        self.looked = 0.0
        self.note()

    def note(self, **more: Any) -> None:
        """Write what is known of this node."""
        self.state.update(more, attempt=self.attempt, processes={**self.codes, **dict.fromkeys(self.pids.values())})
        self.state["supervisor"] = os.getpid()
        write(f"{self.folder}/state.json", json.dumps(self.state))

    def suffix(self) -> str:
        """Return what the names of files of an attempt have before their end."""
        return "" if self.attempt <= 1 else f".{self.attempt}"

    def start(self, attempt: int, order: int) -> str:
        """Start the processes of an order; return why one cannot be started, empty where all are."""
        if attempt != self.attempt:
            self.attempt, self.codes, self.logs = attempt, {}, {}
        listed = self.spec["processes"] if attempt == 1 else self.spec["resumed"]
        for each in (p for p in listed if p["order"] == order):
            env = {**os.environ, **each["env"], MARK: self.spec["run"]}
            path = f"{self.folder}/{each['name']}{self.suffix()}.log"
            self.logs[each["name"]] = Log(path, *self.spec["steps"])
            try:
                with open(path, "ab") as log:
                    child = subprocess.Popen(  # noqa: S603 - what the job says, and no shell reads it
                        each["argv"],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=env,
                        cwd=self.spec["workdir"] or None,
                        start_new_session=True,
                    )
            except OSError as fault:
                return f"{each['name']}: {fault.strerror}: {fault.filename}"
            child.returncode = 0  # it is waited for below, with everything that becomes a child of this process
            self.pids[child.pid] = each["name"]
            self.started.add(child.pid)
        self.note(state="running")
        return ""

    def watch(self) -> None:
        """Look for steps in the logs, once a second."""
        now = time.monotonic()
        if now - self.looked < EVERY:
            return
        self.looked = now
        if any([log.look(now) for log in self.logs.values()]):  # all of them, also after the first
            clocks = {name: log.clock() for name, log in self.logs.items() if log.count}
            write(f"{self.folder}/steps.json", json.dumps({"attempt": self.attempt, "steps": clocks}))

    def ended(self) -> list[tuple[str, int]]:
        """Return the processes that ended since the last look, with their exit codes (a signal: negative)."""
        found = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            name = self.pids.pop(pid, None)
            if name is not None:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
                self.codes[name] = code
                write(f"{self.folder}/{name}{self.suffix()}.exit", f"{code}\n")
                found.append((name, code))
        if found:
            self.note()
        return found

    def all_of_run(self) -> set[int]:
        """Return every process of the run on this node."""
        return descendants(os.getpid()) | marked(self.spec["run"])

    def stop(self) -> list[int]:
        """End every process: ask, wait, kill. Return those that are left, and those that a GPU still lists."""
        self.note(state="stopping")
        ours = self.all_of_run()
        seen = ours | self.started  # a GPU may still list what has ended by itself
        for number, grace in ((signal.SIGTERM, self.spec["grace"]), (signal.SIGKILL, 10)):
            kill(ours, number)
            until = time.monotonic() + grace
            while ours and time.monotonic() < until:
                time.sleep(TICK)
                self.ended()
                ours = self.all_of_run()
                seen |= ours
            if not ours:
                break
        listed = nvidia("--query-compute-apps=pid") if seen else []
        left = sorted(ours | (set(listed or ()) & seen))
        self.note(state="stopped", left=left, unsure=listed is None)
        return left

    def drained(self) -> bool:
        """Return whether the memory of the GPUs is free again, after a while; False where that is not known."""
        until = time.monotonic() + DRAIN
        while (used := nvidia("--query-gpu=memory.used")) is None or any(mb >= DRAINED_MB for mb in used):
            if time.monotonic() > until:
                return False
            time.sleep(2)
        return True

    def do(self, message: Message, answer: Callable[[Message], None]) -> bool:
        """Do what the first node asks; return whether that was the end."""
        if message["do"] == "start":
            answer({"event": "started", "fault": self.start(message["attempt"], message["order"])})
        elif message["do"] == "stop":
            left = self.stop()
            answer({"event": "stopped", "left": left, "unsure": self.state["unsure"]})
        elif message["do"] == "drain":
            answer({"event": "drained", "ok": self.drained()})
        elif message["do"] == "end":
            leave(self.spec["run"], self.folder)
            self.note(state="ended", outcome=message["outcome"], reason=message["reason"])
            return True
        return False
