"""Starting, finding and stopping the lab's process from another process."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsphere_ai.errors import Diagnostic, InputError, Mark, UsageError
from vsphere_ai.lab.front import starting
from vsphere_ai.lab.front.record import read_record
from vsphere_ai.lab.front.starting import LabFailed, Patience
from vsphere_ai.lab.jobs import folders

STARTED = ("lab.json", "connection.yml", "known_hosts", "password", "ssh_password", "ca.pem", "key.pem", "guest_key")
FILES = (*STARTED, starting.FILE)
LOCK = "lab.lock"
OF_RECORD = ("pid", "port", "control_port", "token", "scenario", "scenario_digest", "run_jobs")
ALIVE = "/lab/info"
ALIVE_SECONDS = 30.0
"""How long a lab may take to say that it is there."""
ANSWER_SECONDS = 300.0
"""How long it may take for anything else: to put a farm of 30,000 VMs back takes half a minute on an idle machine."""

Rules = str | Sequence[Mapping[str, Any]]
"""Faults as YAML text, or as the mappings it stands for."""


@dataclass(frozen=True)
class LabSettings:
    """What a lab is started with beside its scenario: the port of its vCenter (0: a free one).

    With `run_jobs` commands in its guests are processes of this machine, also where the scenario does not say so.
    """

    port: int = 0
    run_jobs: bool = False


@dataclass(frozen=True)
class RunningLab:
    """A lab that runs: its process, the ports of the vCenter and of the control endpoint, and the latter's token."""

    directory: Path
    pid: int
    port: int
    control_port: int
    token: str
    scenario: str
    scenario_digest: str
    run_jobs: bool = False
    """Whether commands in its guests are processes of this machine."""

    def get(self, path: str) -> Any:
        """Return what ``GET /lab/...`` answers."""
        return self._request("GET", path)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return what ``POST /lab/...`` answers; `body` goes as JSON."""
        return self._request("POST", path, b"" if body is None else json.dumps(body).encode())

    def set_faults(self, rules: Rules, *, file: str = "rules", seed: int | None = None) -> Any:
        """Replace the faults: YAML text or the rules themselves; return seed, rules and fired faults.

        Without a `seed` the lab draws one. Wrong rules raise InputError, their places are named as in `file`.
        """
        return self.post("/lab/faults", {"rules": rules, "file": file, "seed": seed})

    def add_faults(self, rules: Rules, *, file: str = "rules") -> Any:
        """Add faults to those there are."""
        return self.post("/lab/faults/add", {"rules": rules, "file": file})

    def release_fault(self, number: int) -> Any:
        """Let go of what one rule holds up; the others stay. The rule does not strike again."""
        return self.post("/lab/faults/release", {"rule": number})

    def clear_faults(self) -> None:
        """Remove all faults and let go of what hangs."""
        self.post("/lab/faults/clear")

    def set_defects(self, *defects: Mapping[str, Any]) -> None:
        """Replace the defects that are planted in the farm, such as ``{"kind": "gpu-slow", "host": "esx01*"}``."""
        self.post("/lab/defects", {"defects": list(defects)})

    @staticmethod
    def count_rules(text: str, file: str) -> int:
        """Return how many rules for faults a text holds; wrong ones raise `InputError` with their places in `file`."""
        from vsphere_ai.lab.faults.rule_file import parse

        return len(parse(text, file))

    @staticmethod
    def check_defects(defects: Sequence[object]) -> None:
        """`ValueError` with what is wrong where the lab has no such defects."""
        from vsphere_ai.lab.guest.defects import read

        read(list(defects))

    def mark(self) -> int:
        """Make the present the start of what `check` judges; return the number of ledger entries."""
        return int(self.post("/lab/mark")["since"])

    def check(self, *, since: int | None = None, max_down: int = 1) -> Any:
        """Return the verdicts on what happened since the mark, or since a ledger entry."""
        start = "" if since is None else f"&since={since}"
        return self.get(f"/lab/invariants?max_down={max_down}{start}")

    def _request(self, method: str, path: str, body: bytes = b"") -> Any:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        seconds = ALIVE_SECONDS if path == ALIVE else ANSWER_SECONDS
        connection = http.client.HTTPSConnection("127.0.0.1", self.control_port, timeout=seconds, context=context)
        try:
            headers = {"X-Lab-Token": self.token, "Content-Length": str(len(body))}
            connection.request(method, path, body=body or None, headers=headers)
            reply = connection.getresponse()
            answered = reply.read()
        finally:
            connection.close()
        if reply.status == 422:
            raise InputError(_diagnostics(json.loads(answered)))
        if reply.status == 400:
            message, _, remedy = json.loads(answered)["error"].partition("\n")
            raise UsageError(message, remedy)
        if reply.status != 200:
            raise LabFailed(f"the lab answered {reply.status} to {method} {path}: {answered.decode(errors='replace')}")
        return json.loads(answered)


def _diagnostics(answered: Any) -> list[Diagnostic]:
    return [
        Diagnostic(Mark(d["file"], d["line"], d["column"]), d["message"], d["help"]) for d in answered["diagnostics"]
    ]


def find(directory: Path) -> RunningLab | None:
    """Return the lab that runs in a directory; None, and nothing left behind, when there is none.

    The files of one that is starting stay. Raise LabFailed when something listens where the lab should, and does not
    answer.
    """
    running = _running(directory)
    if running is None and any((directory / name).exists() for name in FILES):
        from filelock import FileLock, Timeout

        with contextlib.suppress(Timeout), FileLock(directory / LOCK, timeout=0):  # who starts a lab holds it
            _sweep(directory)
    return running


def _running(directory: Path) -> RunningLab | None:
    record = read_record(directory)
    if record is None:
        return None
    lab = RunningLab(directory, **{name: getattr(record, name) for name in OF_RECORD})
    try:
        # the process number may belong to another process by now; only the token proves that it is ours
        return lab if lab.get(ALIVE).get("pid") == lab.pid else None
    except TimeoutError as error:  # busy or stopped, and not gone: its files are still its own
        text = f"the lab in {directory} did not answer within {ALIVE_SECONDS:g} s"
        raise LabFailed(text, f"try again; where that does not help, end it with: kill {lab.pid}") from error
    except (OSError, ValueError, LabFailed, http.client.HTTPException):
        return None


def start(
    directory: Path,
    scenario: Path | None = None,
    settings: LabSettings = LabSettings(),
    *,
    exit_with: int = 0,
    patience: Patience = Patience(),  # noqa: B008 - frozen
) -> RunningLab:
    """Start a lab as a detached process and return when it serves; raise LabFailed with the end of its log.

    It is waited for while it makes progress. `exit_with` is a process number: when that process ends, however it ends,
    so does the lab.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    with _alone(directory, patience):
        if _running(directory) is not None:
            raise UsageError(f"a lab is already running in {directory}", "stop it with: vsphere-ai lab down")
        _sweep(directory)
        argv = [sys.executable, "-m", "vsphere_ai.lab", "--directory", str(directory), "--port", str(settings.port)]
        argv += ["--scenario", str(scenario.resolve())] if scenario else []
        argv += ["--run-jobs"] if settings.run_jobs else []
        argv += ["--exit-with", str(exit_with)] if exit_with else []
        return _spawn(directory, argv, scenario, patience)


@contextlib.contextmanager
def _alone(directory: Path, patience: Patience) -> Iterator[None]:
    """Hold the lock of a directory; a start of someone else is waited for while it makes progress."""
    from filelock import FileLock, Timeout

    lock, wait = FileLock(directory / LOCK), starting.StartWait(directory, patience)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=0.1)
        except Timeout:
            wait.check(f"another command is starting a lab in {directory}, which did not start")
    try:
        yield
    finally:
        lock.release()


def _spawn(directory: Path, argv: list[str], scenario: Path | None, patience: Patience) -> RunningLab:
    log = directory / "lab.log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    wait = starting.StartWait(directory, patience)
    try:
        while True:
            if process.poll() == InputError.exit_code:
                faults = [line.partition(": ")[2] for line in _tail(log).splitlines()]
                raise InputError([Diagnostic(Mark(str(scenario)), fault) for fault in faults])
            if process.poll() is not None:
                raise LabFailed(f"the lab did not start:\n{_tail(log)}", f"its log is {log}")
            if (directory / "lab.json").exists():
                with contextlib.suppress(LabFailed):  # too busy to answer: it is asked again
                    running = _running(directory)
                    if running is not None:
                        return running
            wait.check("the lab did not start")
            time.sleep(0.02)
    except BaseException:  # also Ctrl-C: no half-started lab is left
        process.kill()
        process.wait()
        _sweep(directory)
        raise


def stop(directory: Path, *, timeout: float = 10.0) -> bool:
    """Stop the lab of a directory and remove its files; return whether one was running."""
    lab = find(directory)
    if lab is None:
        return False
    end = time.monotonic() + timeout
    with contextlib.suppress(ProcessLookupError):
        os.kill(lab.pid, signal.SIGTERM)
        while time.monotonic() < end and _alive(lab.pid):
            time.sleep(0.02)
        if _alive(lab.pid):
            os.kill(lab.pid, signal.SIGKILL)
    _sweep(directory)
    return True


def check_scenario(path: Path | None) -> str:
    """Read a scenario file and return its digest, so that a bad one is refused before anything starts."""
    from vsphere_ai.lab.scenario_file import digest, load

    load(path)
    return digest(path)


def check_faults(path: Path) -> str:
    """Read a fault file and return its text, so that a bad one is refused before anything starts."""
    from vsphere_ai.lab.faults.rule_file import load
    from vsphere_ai.language.yaml_files.document import text_of

    load(path)
    return text_of(path)


def _alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)  # when it is a child of this very process, collect it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _tail(log: Path) -> str:
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
    except OSError:
        return ""


def _sweep(directory: Path) -> None:
    folders.sweep(directory)
    for name in FILES:
        (directory / name).unlink(missing_ok=True)
    keys = directory / "host_keys"
    if keys.is_dir():
        for key in keys.iterdir():
            key.unlink(missing_ok=True)
        keys.rmdir()
