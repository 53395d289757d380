"""Labs by the dozen: everything is imported once, and each lab is a fork of that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Labs:
    """Starts labs; the process that forks them ends with this one."""

    def __init__(self):
        argv = [sys.executable, __file__]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == {"ready": True}

    def start(self, directory: Path, scenario: Path, seconds: float = 300.0):
        """Start a lab in a directory and return it when it serves; `AssertionError` with what it said when not."""
        from vsphere_ai.lab.front import process

        directory.mkdir(mode=0o700)
        self.process.stdin.write(json.dumps([str(directory), str(scenario)]) + "\n")
        self.process.stdin.flush()
        pid = self._answer()["pid"]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (directory / "lab.json").exists() and (found := process.find(directory)):
                return found
            if not _alive(pid):
                break
            time.sleep(0.01)
        raise AssertionError(f"the lab did not start:\n{(directory / 'lab.log').read_text(encoding='utf-8')}")

    def ways(self, scenario: Path, job) -> bool | None:
        """Return whether there is a way to do a job on a farm; None where none was found in time."""
        self.process.stdin.write(json.dumps([str(scenario), job]) + "\n")
        self.process.stdin.flush()
        return self._answer()["way"]

    def close(self):
        """End the forking process; labs that still run end with it."""
        self.process.stdin.close()
        self.process.wait(10)

    def _answer(self):
        line = self.process.stdout.readline()
        assert line, "what forks labs has died"
        return json.loads(line)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def serve() -> None:
    """Fork a lab for every line that comes, until no more come."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from vsphere_ai.lab import build
    from vsphere_ai.lab.scenario_file import load

    build.build(load(None), "warm")  # pyVmomi loads its types when they are first used
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        directory, scenario = json.loads(line)
        if not isinstance(scenario, str):
            print(json.dumps({"way": _way(Path(directory), scenario)}), flush=True)
            continue
        parent = os.getpid()
        child = os.fork()
        if not child:
            _lab(Path(directory), scenario, parent)
        print(json.dumps({"pid": child}), flush=True)


def _way(scenario: Path, job) -> bool | None:
    from honesty.exhaustive import can_be_done

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        return can_be_done(scenario, job)
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _lab(directory: Path, scenario: str, parent: int) -> None:
    from vsphere_ai.lab.front import main

    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(directory / "lab.log", os.O_WRONLY | os.O_CREAT, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = main.main(["--directory", str(directory), "--scenario", scenario, "--exit-with", str(parent)])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
