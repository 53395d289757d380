"""The command line as a process of its own, its lines with the time they came."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from support import prefork
from support.gates import LONG
from support.places import INVENTORY


def _heeded():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where these tests run below nohup


def _ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def runs(pid):
    """Tell whether a process is there and has not ended; its state is what follows its name in parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Process:
    """`vsphere-ai ARGS` in a process; `lines` grows while it runs: (seconds since its start, line)."""

    def __init__(self, lab, *arguments, nohup=False, **environment):
        argv = [sys.executable, "-m", "vsphere_ai", *map(str, arguments)]
        environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "PYTHONUNBUFFERED": "1", **environment}
        self.began, self.lines, self.errors = time.monotonic(), [], []
        self.process = prefork.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            preexec_fn=_ignored if nohup else _heeded,
        )  # fmt: skip
        self._changed = threading.Condition()
        pairs = ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in pairs]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, into):
        for line in stream:
            with self._changed:
                into.append((time.monotonic() - self.began, line.rstrip("\n")))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def until(self, true, seconds=LONG):
        """Wait until `true(lines)` of the text so far; False when the process ends before."""
        with self._changed:
            self._changed.wait_for(lambda: true(self.out) or not self._readers[0].is_alive(), seconds)
            return true(self.out)

    def send(self, number):
        """Send a signal; return when, in seconds since the start."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return time.monotonic() - self.began

    def wait(self, seconds=LONG):
        """Wait for the end; return the exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"still running after {seconds} s\n{self.said}") from None
        for reader in self._readers:
            reader.join(10)
        return code

    @property
    def out(self):
        return [line for _, line in self.lines]

    @property
    def said(self):
        return "\n".join([*self.out, "--- standard error", *(line for _, line in self.errors)])

    def events(self):
        """The JSON lines with the time they came: (seconds, document)."""
        return [(at, json.loads(line)) for at, line in self.lines]


def apply(lab, playbook, *more, **environment):
    """Start `apply` in a process of its own, as JSON lines."""
    return Process(lab, "apply", "-i", INVENTORY, playbook, "--yes", "-o", "json", *more, **environment)


def killed_at(lab, line, playbook, *more, inventory=INVENTORY, command="apply"):
    """Apply in a process of its own and kill it when it prints this; return what it printed."""
    argv = [sys.executable, "-m", "vsphere_ai", command, "-i", str(inventory), str(playbook), "--yes", "-v", *more]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "PYTHONUNBUFFERED": "1"}
    process = prefork.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    seen = []
    for text in process.stdout:
        seen.append(text)
        if re.search(line, text):
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.read()
    assert process.wait(LONG) == -signal.SIGKILL, "".join(seen)
    return "".join(seen)
