"""Somebody who edits playbooks, applies them, loses the tool in the middle and goes on; and what repeats it."""

from __future__ import annotations

import json
import os
import time
import traceback
from pathlib import Path
from pprint import pformat

from support.places import ROOT

FAILURES = Path(os.environ.get("RELIABILITY_FAILURES", ROOT / ".failures"))
"""Where the steps that failed are kept as tests; git knows nothing of it."""
ROLLING = {"max_unavailable": 1, "evacuate": "power_off", "timeout": "1m"}
SHARED = {"default_type": "shared_direct"}
HOSTS = {
    "nothing": None,
    "rdma": {"hosts": "esx[01:03].lab.local", "pvrdma_host": {"vmknic": "vmk2", "firewall": True}},
    "no firewall": {"hosts": "esx[01:03].lab.local", "pvrdma_host": {"vmknic": "vmk2", "firewall": False}},
    "slices": {"hosts": "esx01.lab.local", "graphics": SHARED, "mig": {"mode": "enabled"}, "rolling": ROLLING},
    "layout": {"hosts": "esx03.lab.local", "graphics": SHARED, "mig": {"layout": ["3g.20gb", "2g.10gb"]},
               "rolling": ROLLING},
    "other layout": {"hosts": "esx03.lab.local", "graphics": SHARED, "mig": {"layout": ["1g.5gb", "3g.20gb"]},
                     "rolling": ROLLING},
    "small layout": {"hosts": "esx03.lab.local", "graphics": SHARED, "mig": {"layout": ["1g.5gb", "1g.5gb"]},
                     "rolling": ROLLING},
}  # fmt: skip
ADAPTER = {"port_group": "dvpg-rdma", "protocol": "rocev2"}
VMS = {
    "adapter": {"pvrdma": [ADAPTER]},
    "two adapters": {"pvrdma": [ADAPTER, ADAPTER]},
    "no adapter": {"pvrdma": []},
    "version": {"hardware": {"version": 19}},
    "memory": {"hardware": {"memory_reservation": "full"}},
    "slice": {"vgpu": ["grid_a100-3-20c"]},
    "no slice": {"vgpu": []},
}
NAMES = tuple(f"train-0{n}" for n in range(1, 7))
FAULTS = (
    {"on": "any-mutation", "probability": 0.1, "times": 2, "do": "lost-reply"},
    {"on": "any", "probability": 0.01, "times": 1, "do": "expire-session"},
    {"on": "RetrievePropertiesEx", "probability": 0.2, "times": 3, "do": 503},
    {"on": "any-mutation", "probability": 0.1, "times": 1, "do": {"delay": "300ms"}},
    {"on": "any", "probability": 0.02, "times": 2, "when": "before", "do": "reset"},
)
REPORTED = {0, 1, 5, 6, 9}  # done; refused or a step failed; unreachable; a host's health unknown; outcome unknown


REPLAY = '''"""{why}

Run it with: .venv/bin/python -m pytest {path}
A kill comes as many milliseconds after the start of a command as it says, and so does not always strike the same call.
"""

from {module} import {name}
from reliability.conftest import learned, mission, r0_lab, tool  # noqa: F401 - the farm and the command line

STEPS = {steps}


def test_the_same_steps(mission, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    operator = {name}(mission, tmp_path)
    for what, given in STEPS:
        operator.do(what, **given)
'''


class Operator:
    """What they can do; `do` calls it by name, and writes a test of all that was done when something is wrong."""

    failures = FAILURES

    def __init__(self, mission, folder):
        self.mission, self.playbook, self.folder = mission, folder / "any.yml", folder
        self.hosts, self.vms = "rdma", {}
        self.killed = self.half = self.looked = False
        self.steps = []

    def do(self, what, /, **given):
        self.steps.append((what, given))
        try:
            getattr(self, what)(**given)
        except Exception as error:
            kept = self._keep(error)
            print(f"the same steps as a test: .venv/bin/python -m pytest {kept}\n{kept.read_text(encoding='utf-8')}")
            raise

    def _keep(self, error):
        """Write a test that does the same steps, without Hypothesis; return its path."""
        self.failures.mkdir(exist_ok=True)
        path = self.failures / f"test_{time.strftime('%Y%m%d_%H%M%S')}_{os.getpid()}_{len(self.steps)}.py"
        (why, *_) = traceback.format_exception_only(error)[-1].splitlines()
        module, name = type(self).__module__.removeprefix("tests."), type(self).__name__
        words = {"why": why[:100].replace("\\", "/").replace('"', "'"), "path": path, "module": module, "name": name}
        text = REPLAY.format(**words, steps=pformat(self.steps, width=110, sort_dicts=False))
        path.write_text(text, encoding="utf-8")
        return path

    def fresh(self):
        self.mission.lab.post("/lab/reset")
        for journal in self.folder.glob("state/runs/*"):
            journal.unlink()

    def write_hosts(self, hosts):
        self.hosts = hosts

    def write_vm(self, name, what):
        self.vms = {**self.vms, name: {**self.vms.get(name, {}), **VMS[what]}}

    def leave_vm_out(self, name):
        self.vms = {n: v for n, v in self.vms.items() if n != name}

    def fault(self, fault, number):
        self.mission.lab.set_faults([fault], seed=number)

    def apply(self, kill):
        if not self.looked:
            self.mission.lab.mark()
            self.killed = False
        plays = [HOSTS[self.hosts]] if HOSTS[self.hosts] else []
        plays += [{"vms": n, **v} for n, v in sorted(self.vms.items())]
        self.playbook.write_text(json.dumps(plays), encoding="utf-8")
        self._end(self.mission.tool.start("apply", "-i", self.mission.inventory, self.playbook, "--yes"), kill)

    def resume(self, kill):
        self._end(self.mission.tool.start("resume"), kill)

    def _end(self, going, kill):
        before = self._runs()
        ended = going.wait() if kill is None else going.kill_after(kill / 1000)
        self.mission.lab.clear_faults()
        self.killed = self.killed or ended.code < 0
        self.half = bool(self.mission.unfinished())
        # cut off before it had begun a run, it may have left SSH running: that is not how the next one finds it
        self.looked = ended.code != 0 and self._runs() == before
        assert ended.code in REPORTED or ended.code < 0, ended.text
        self._never(ended)
        if not ended.code:
            self._wanted(ended)

    def _runs(self):
        return len(list(self.folder.glob("state/runs/*.db")))

    def _never(self, ended):
        """What may not happen, however it ended."""
        bad = {v["name"]: v["findings"] for v in self.mission.lab.check()["invariants"] if not v["ok"]}
        for name in ("maintenance", "services", "power", *(("sessions",) if self.killed else ())):
            bad.pop(name, None)
        assert not bad, f"{bad}\n{ended.text}"

    def _wanted(self, ended):
        """What has to be so when a command says that all is well."""
        bad = {v["name"]: v["findings"] for v in self.mission.lab.check()["invariants"] if not v["ok"]}
        if self.killed:
            bad.pop("sessions", None)
        assert not bad, f"{bad}\n{ended.text}"
        assert not self.half, ended.text
        left = self.mission.tool(
            "plan", "-i", self.mission.inventory, self.playbook, "--detailed-exitcode", "--start-ssh"
        )
        assert left.code == 0, f"{left.text}\n{ended.text}"

    def end(self):
        self.mission.lab.clear_faults()
