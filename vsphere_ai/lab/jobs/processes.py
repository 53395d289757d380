"""Processes of guests: each command that comes over SSH runs on this machine, below the init process of its guest."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from vsphere_ai.errors import UsageError
from vsphere_ai.lab.jobs import asker, init_process
from vsphere_ai.lab.jobs.answers import Answer, ModelServer
from vsphere_ai.lab.jobs.folders import GUESTS, OF_LAB, SHARED_FOLDER
from vsphere_ai.lab.jobs.names import MARK, RUNS, SHARED, GuestNames, LoopbackNetwork
from vsphere_ai.lab.scenario import Guests
from vsphere_ai.lab.shell.result import ShellResult

MODELLED = ("nvidia-smi", "rdma", "ibv_devinfo", "ip", "ethtool", "dmesg", "dcgmi", "lscpu", "hostname", "ping", "ss")
"""Programs that answer from the model, whatever this machine has."""
_PLAIN = re.compile(r"[A-Za-z0-9._/+@,-]+")
LONGEST_LINE = 16 << 20
"""Bytes of a line whose names are rewritten as a whole: a program that is sent may be one line."""
LONGEST_COMMAND = 128 * 1024 - 1
"""Bytes of one word of a command (Linux, MAX_ARG_STRLEN)."""
TOO_LONG, GONE = 126, 255
DRAIN = 1.0
"""Seconds after the end of a command until what it left behind may not write any more to its channel."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class JobMachine:
    """The machine of the lab as the place where guests' processes run: folders, addresses, bounds."""

    def __init__(self, directory: Path, bounds: Guests) -> None:
        self.directory, self.bounds = directory.resolve(), bounds
        if not _PLAIN.fullmatch(str(self.directory)):
            text = f"guests run no jobs in {self.directory}: letters, digits and ._/+@,- can be in its path"
            raise UsageError(text, "set VSPHERE_AI_LAB_DIR to another folder")
        for name in (GUESTS, SHARED_FOLDER):
            shutil.rmtree(self.directory / name, ignore_errors=True)
            (self.directory / name).mkdir(mode=0o700)
        self.network = LoopbackNetwork()
        self.model = ModelServer(self.network.lab)

    def guest(self, moid: str, answer: Answer) -> GuestProcesses:
        """Return the processes of a guest, which has none yet; `answer` is its part of the model."""
        folder = self.directory / GUESTS / f"{moid}-{secrets.token_hex(3)}"
        for name in ("home", "bin", "tmp"):
            (folder / name).mkdir(mode=0o700, parents=True)
        marked = f"{MARK}_{re.sub(r'[^A-Za-z0-9]', '_', moid)}"
        pairs = {RUNS: str(folder / "runs"), SHARED: str(self.directory / SHARED_FOLDER), MARK: marked}
        names = GuestNames(self.network, pairs)
        _write_programs(folder / "bin", self.model.add(lambda argv: _in_names(names, answer, argv)))
        return GuestProcesses(folder, names, self._environment(folder), self._limits)

    @property
    def _limits(self) -> str:
        bounds = self.bounds
        given = {"processes": bounds.processes, "memory_mb": bounds.memory_mb, "seconds": bounds.minutes * 60}
        return json.dumps(given)

    def _environment(self, folder: Path) -> dict[str, str]:
        own = f"{folder / 'bin'}:{_PATH}:{Path(sys.executable).parent}"
        account = {"HOME": str(folder / "home"), "USER": "lab", "LOGNAME": "lab", "SHELL": "/bin/sh"}
        return {**account, "TMPDIR": str(folder / "tmp"), "LANG": "C.UTF-8", "PATH": own, OF_LAB: str(self.directory)}

    def close(self) -> None:
        """Answer no guest any more."""
        self.model.close()
        self.network.close()


def _in_names(names: GuestNames, answer: Answer, argv: Sequence[str]) -> ShellResult:
    """Return what the model answers to a process of a guest, in the names that the process knows."""
    result = answer([names.outward(word.encode()).decode() for word in argv])
    inward = (names.inward(text.encode()).decode() for text in (result.stdout, result.stderr))
    return ShellResult(result.status, *inward)


def _write_programs(folder: Path, place: dict[str, object]) -> None:
    """Put programs in front of those of this machine: what the model answers, and the lab's own Python."""
    (folder / ".lab.json").write_text(json.dumps(place), encoding="utf-8")
    (folder / ".lab.json").chmod(0o600)
    python = shlex.quote(sys.executable)
    asks = f"{python} -I -S {shlex.quote(asker.__file__)} {shlex.quote(str(folder / '.lab.json'))}"
    for name, command in {**{each: f"{asks} {each}" for each in MODELLED}, "python3": python}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o700)


@dataclass
class _Command:
    """A command that runs: its exit code, once it has ended."""

    ended: threading.Event = field(default_factory=threading.Event)
    code: int = GONE

    def end(self, code: int) -> None:
        self.code = code
        self.ended.set()


@dataclass
class _InitProcess:
    """An init process that runs, and the commands below it by their numbers."""

    sock: socket.socket
    process: subprocess.Popen[bytes]
    commands: dict[int, _Command] = field(default_factory=dict)

    def send(self, message: Mapping[str, object], files: Sequence[int] = ()) -> bool:
        """Send a message; False where it is gone."""
        try:
            socket.send_fds(self.sock, [json.dumps(message).encode()], files)
        except OSError:
            return False
        return True

    def hear(self) -> None:
        """Note which commands have ended, until it has ended itself; then all have."""
        while message := _received(self.sock):
            report = json.loads(message)
            if command := self.commands.pop(report["number"], None):
                command.end(report["code"])
        self.process.wait()
        self.sock.close()
        while self.commands:
            self.commands.popitem()[1].end(GONE)


class GuestProcesses:
    """The processes of one guest, from the first command until `end`; its files stay."""

    def __init__(self, folder: Path, names: GuestNames, environment: dict[str, str], limits: str) -> None:
        self.folder, self.names = folder, names
        self._environment, self._limits = environment, limits
        self._lock = threading.Lock()
        self._init: _InitProcess | None = None
        self._numbers = itertools.count(1)
        self._lost = ""

    def carry_out(self, line: str, channel: paramiko.Channel, given: bytes | None = None) -> ShellResult:
        """Run a line and hand on what it reads and writes; `given` is its input where that was read already."""
        text = self.names.inward(line.encode())
        if len(text) > LONGEST_COMMAND:
            return ShellResult(TOO_LONG, "", "sh: argument list too long\n")
        (reads, feed), (out, writes), (err, complains) = os.pipe(), os.pipe(), os.pipe()
        command = self._start(text.decode(), (reads, writes, complains))
        for each in (reads, writes, complains):
            os.close(each)
        source = _channel_parts(channel) if given is None else iter([given])
        _in_background(lambda: _pump(source, self.names.inward, lambda part: _write_all(feed, part), feed))
        drains = [
            _in_background(lambda: _pump(_file_parts(out), self.names.outward, channel.sendall, out)),
            _in_background(lambda: _pump(_file_parts(err), self.names.outward, channel.sendall_stderr, err)),
        ]
        command.ended.wait()
        for drain in drains:
            drain.join(DRAIN)
        return ShellResult(command.code)

    def lose(self, variable: str) -> None:
        """Abort the processes that were started with a variable, from now on; with an empty one none any more."""
        with self._lock:
            self._lost = variable
            if self._init is not None:
                self._init.send({"lost": variable})

    def end(self) -> None:
        """End every process of the guest; its init process does so by itself when the lab is gone."""
        with self._lock:
            init, self._init = self._init, None
        if init is not None:
            with contextlib.suppress(OSError):
                init.sock.shutdown(socket.SHUT_RDWR)

    def _start(self, text: str, files: tuple[int, int, int]) -> _Command:
        command, number = _Command(), next(self._numbers)
        with self._lock:
            if self._init is None or self._init.process.poll() is not None:
                self._init = self._keep()
            self._init.commands[number] = command
            if not self._init.send({"number": number, "argv": ["/bin/sh", "-c", text]}, files):
                self._init.commands.pop(number, None)
                command.end(GONE)
        return command

    def _keep(self) -> _InitProcess:
        """Start an init process, and hear it until its end."""
        own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(  # noqa: S603 - the lab's own interpreter and program
                [sys.executable, "-I", "-S", init_process.__file__, self._limits],
                stdin=its.fileno(),
                cwd=self.folder / "home",
                env=self._environment,
                start_new_session=True,
            )
        made = _InitProcess(own, process)
        made.send({"lost": self._lost})
        _in_background(made.hear)
        return made


def _received(own: socket.socket) -> bytes:
    try:
        return own.recv(4096)
    except OSError:
        return b""


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _channel_parts(channel: paramiko.Channel) -> Iterator[bytes]:
    while part := channel.recv(1 << 16):
        yield part


def _file_parts(file: int) -> Iterator[bytes]:
    while part := os.read(file, 1 << 16):
        yield part


def _write_all(file: int, part: bytes) -> None:
    while part:
        part = part[os.write(file, part) :]


def _pump(
    source: Iterable[bytes], rewrite: Callable[[bytes], bytes], write: Callable[[bytes], object], file: int
) -> None:
    """Hand on whole lines, rewritten, until the end of the source; then close the file."""
    with contextlib.suppress(OSError, EOFError):
        rest = b""
        for part in source:
            rest += part
            end = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1
            if end or len(rest) > LONGEST_LINE:
                end = end or len(rest)
                write(rewrite(rest[:end]))
                rest = rest[end:]
        if rest:
            write(rewrite(rest))
    os.close(file)
