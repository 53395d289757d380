"""A farm, the command line that works on it, and the judge: has the run converged, whatever happened to it?"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from support.bookkeeping import is_bookkeeping
from support.gates import LONG, busy

HERE = Path(__file__).parent
R0, R1, R2 = HERE / "r0", HERE / "r1", HERE / "r2"
# how the product's waits are scaled to a farm whose hosts boot in a sixth of a second
TUNE = {
    "LOST_CALL": 1.0,
    "BOOT_JITTER": 0.02,
    "NEVER_DOWN": 2.0,
    "RECONNECTED": 2.0,
    "UNANSWERED": 2.0,
    "STILL_RUNNING": 1.0,
    "EVENTS_LAG": 0.5,
}
LIMITS = {"connect": 3.0, "answer": 5.0, "patience": 15.0, "run_patience": 30.0, "backoff": 0.05, "longest_pause": 1.0}
SLOWEST = 6.0
SAME = ("backoff", "longest_pause", "BOOT_JITTER", "EVENTS_LAG")
"""What stays as it is on a busy machine: pauses, and what is compared with times of the farm."""
FAST = "timing: {boot_seconds: 0.15, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}"
TOLD = ("id", "operation", "portgroup", "type", "vgpu")
SSH_SERVICE = ("StartService", "StopService")  # also used for reading; where it ends is an invariant of its own
AGAIN = ("ShutdownGuest", "PowerOnVM_Task", "EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task")
PUT_BACK = ("maintenance", "services", "power")
KNOWN_CODES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 65, 129, 130, 143, 137, -signal.SIGKILL}


@dataclass
class Ended:
    """How one command ended."""

    code: int
    text: str
    seconds: float


@dataclass
class Spec:
    """What is to happen to a command: a point to record or to act at, spoilt parts, shorter waits."""

    record: str = ""
    at: str = ""
    act: str = "die"
    spoil: tuple = ()
    limits: dict = field(default_factory=lambda: dict(LIMITS))
    tune: dict = field(default_factory=lambda: dict(TUNE))

    def sent(self):
        """Return it for the process of a command; on a busy machine, which answers later, limits are longer."""
        slower = min(busy(), SLOWEST)
        limits = {name: value * (1 if name in SAME else slower) for name, value in self.limits.items()}
        tune = {name: value * (1 if name in SAME else slower) for name, value in self.tune.items()}
        return {**vars(self), "limits": limits, "tune": tune}


class Going:
    """A command that is running, in a process of its own."""

    def __init__(self, tool, pid, out):
        self.tool, self.pid, self.out = tool, pid, out
        self.started = time.monotonic()
        self._handle = os.pidfd_open(pid)
        tool.say("\n")

    def signal(self, number):
        """Send a signal; nothing happens when the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def has_ended(self):
        import select

        return bool(select.select([self._handle], [], [], 0)[0])

    def kill_after(self, seconds):
        """Let it run for so long, then kill it; return how it ended."""
        import select

        select.select([self._handle], [], [], seconds)
        self.signal(signal.SIGKILL)
        return self.wait()

    def wait(self):
        code = self.tool.answer()["code"]
        os.close(self._handle)
        ended = Ended(code, self.out.read_text(encoding="utf-8", errors="replace"), time.monotonic() - self.started)
        assert "Traceback" not in ended.text, ended.text
        assert "internal error" not in ended.text, ended.text
        assert ended.code in KNOWN_CODES, f"exit code {ended.code}\n{ended.text}"
        return ended


class Tool:
    """The command line; see `crash.py`. `within` is a command that starts it somewhere else."""

    def __init__(self, folder, within=()):
        self.folder, self.number = folder, 0
        argv = [*within, sys.executable, str(HERE / "crash.py")]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.answer() == {"ready": True}

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the launcher died"
        return json.loads(line)

    def say(self, line):
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def start(self, *arguments, spec=None):
        self.number += 1
        out = self.folder / f"{self.number}.txt"
        job = {"arguments": [str(a) for a in arguments], "environment": dict(os.environ), "out": str(out),
               **(spec or Spec()).sent()}  # fmt: skip
        self.say(json.dumps(job) + "\n")
        return Going(self, self.answer()["pid"], out)

    def __call__(self, *arguments, spec=None):
        return self.start(*arguments, spec=spec).wait()

    def close(self):
        self.process.stdin.close()
        self.process.wait(LONG)


def effects(lab):
    """What took effect, counted: object, call, and the rest that does not differ from run to run.

    What a run writes down in vCenter of itself has its own tests: how often depends on what comes back together.
    """
    entries = lab.get("/lab/ledger")["entries"]
    return Counter(_key(e) for e in entries if e["call"] not in SSH_SERVICE and not is_bookkeeping(e))


def _key(entry):
    detail = dict(entry["detail"])
    if "devices" in detail and isinstance(detail["devices"], list):
        detail["devices"] = [{k: _told(d[k]) for k in TOLD if k in d} for d in detail["devices"]]
    return entry["object"], entry["call"], json.dumps(detail, sort_keys=True)


def _told(value):
    """The number of a port group that was made in the run depends on what was made at the same time."""
    return re.sub(r"^dvportgroup-\d+$", "dvportgroup", value) if isinstance(value, str) else value


def picture(lab):
    """What the farm is like, without what differs from run to run."""
    farm = lab.get("/lab/farm")
    hosts = {h["name"]: {k: v for k, v in h.items() if k != "boot_time"} for h in farm["hosts"]}
    for host in hosts.values():
        host["ssh"] = {k: host["ssh"][k] for k in ("running", "policy")}
        for gpu in host["gpus"]:  # which of several VMs alike came first, and got which slice, is chance
            gpu["vms"] = len(gpu["vms"])
            gpu["instances"] = sorted((i["profile"], bool(i["vm"])) for i in gpu["instances"])
    vms = {v["name"]: {**v, "pvrdma": [{k: p[k] for k in ("port_group", "protocol")} for p in v["pvrdma"]]}
           for v in farm["vms"]}  # fmt: skip
    return {"hosts": hosts, "vms": vms}


def everything(lab):
    """All that the farm shows and all that took effect on it, but when and how often somebody looked."""
    farm = lab.get("/lab/farm")
    hosts = [{k: v for k, v in h.items() if k not in ("boot_time", "ssh")} for h in farm["hosts"]]
    ssh = [{k: v for k, v in h["ssh"].items() if k != "login_attempts"} for h in farm["hosts"]]
    return json.dumps([hosts, ssh, farm["vms"], sorted(map(str, effects(lab).items()))], sort_keys=True)


def _differences(wanted, found, where=""):
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = sorted({*wanted, *found})
        return [d for k in keys for d in _differences(wanted.get(k), found.get(k), f"{where}/{k}")]
    return [] if wanted == found else [f"{where} is {found}, wanted {wanted}"]


class Mission:
    """One playbook on one farm, and what a run of it that nothing happened to leaves and does."""

    def __init__(self, lab, tool, playbook=R0 / "play.yml", inventory=R0 / "inventory.yml", *, max_down=1):
        self.lab, self.tool, self.playbook, self.inventory = lab, tool, playbook, inventory
        self.max_down = max_down
        self.wanted = self.done = None
        self.settled = set()
        """The farms, exactly as they were, for which `plan` has found nothing to do."""
        self.seconds, self.calls = 0.0, 0
        self.points = []

    def learn(self, record):
        """Apply once undisturbed; everything after is compared with it."""
        ended = self.apply(spec=Spec(record=str(record)))
        assert ended.code == 0, ended.text
        self.points = record.read_text(encoding="utf-8").splitlines()
        self.seconds = ended.seconds
        self.calls = sum(self.lab.get("/lab/traffic")["calls"].values())
        self.wanted, self.done = picture(self.lab), effects(self.lab)
        twice = {k: n for k, n in self.done.items() if n > 1}
        assert not twice, f"a run that nothing happened to does something twice: {twice}"

    def start(self, spec=None):
        return self.tool.start("apply", "-i", self.inventory, self.playbook, "--yes", spec=spec)

    def apply(self, spec=None):
        return self.start(spec).wait()

    def runs(self):
        ended = self.tool("run", "list", "-o", "json")
        assert ended.code == 0, ended.text
        return json.loads(ended.text)["runs"]

    def unfinished(self):
        return [r for r in self.runs() if r["state"] != "finished"]

    def go_on(self, spec=None):
        """Resume, or apply when nothing had begun."""
        return self.start_again(spec).wait()

    def start_again(self, spec=None):
        if self.unfinished():
            return self.tool.start("resume", spec=spec)
        return self.start(spec)

    def converged(self, *, sessions=False, tries=1, spec=None, stopped=0):
        """Go on until the end, and judge; see `judge` for `stopped`.

        `sessions`: whether every session must be closed (a killed tool cannot).
        """
        said = []
        for _ in range(tries):
            ended = self.go_on(spec)
            said.append(f"exit {ended.code}\n{ended.text}")
            if ended.code == 0:
                break
        self.judge("\n".join(said), sessions=sessions, code=ended.code, stopped=stopped + len(said) - 1)
        return ended

    def judge(self, said="", *, sessions=False, code=0, put_back=True, stopped=0):
        """All is in the desired state, happened once, was put back and is written down; `said` is shown if not.

        `put_back` False: what was changed for the time of the run only may stay, because nobody remembers it.
        `stopped` is how many attempts before the last one ended by themselves: each leaves no VM off, and no host in
        maintenance mode that was not sent a reboot, so that the next one may have to switch it off and on, and to enter
        and leave, once more. A killed one cannot do that.
        """
        assert code == 0, f"not brought to its end: {code}\n{said}\n{self.left()}"
        found = {
            v["name"]: v["findings"]
            for v in self.lab.check(since=0, max_down=self.max_down)["invariants"]
            if not v["ok"]
        }
        for name in (*(() if sessions else ("sessions",)), *(() if put_back else PUT_BACK)):
            found.pop(name, None)
        assert not found, f"{found}\n{said}"
        done = effects(self.lab)
        again = {key: stopped if key[1] in AGAIN else 0 for key in done}
        much = {key: count for key, count in (done - self.done).items() if count > again[key]}
        assert not much, f"too much: {much}\n{said}"
        assert not (little := self.done - done) or not put_back, f"too little: {little}\n{said}"
        wrong = _differences(self.wanted, picture(self.lab))
        wrong = [w for w in wrong if put_back or not re.search(r"/(maintenance|power|running|vms|instances|tools) ", w)]
        assert not wrong, f"{wrong}\n{said}"
        if put_back and (found := everything(self.lab)) not in self.settled:
            left = self.tool("plan", "-i", self.inventory, self.playbook, "--detailed-exitcode", "--start-ssh")
            assert left.code == 0, f"{left.text}\n{said}"
            self.settled.add(found)
        self.books(said)

    def left(self):
        """What there still is to do, for whoever reads why a test failed."""
        return self.tool("plan", "-i", self.inventory, self.playbook, "--start-ssh").text

    def books(self, said=""):
        """No run is unfinished, none owes anything, and every journal is whole."""
        for run in self.runs():
            assert run["state"] == "finished", f"{run}\n{said}"
            assert run["pending"] == [], f"{run}\n{said}"
        for path in journals():
            with contextlib.closing(sqlite3.connect(path)) as db:
                assert db.execute("pragma integrity_check").fetchall() == [("ok",)], path


def journals():
    """The journals there are, the oldest first."""
    return sorted((Path(os.environ["VSPHERE_AI_STATE_DIR"]) / "runs").glob("*.db"))
