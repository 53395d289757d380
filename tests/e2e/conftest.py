"""The real command line, run in this process against a lab that runs in another."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from support.bookkeeping import is_bookkeeping
from support.places import INVENTORY
from support.printed import judge
from support.vm_sets import FARM, Sets
from support.vm_sets import INVENTORY as POOLS

from vsphere_ai.cli.console import json_stream, streams
from vsphere_ai.connect.wire.answers import PlainResponse
from vsphere_ai.runs import journal


class Cli:
    """Runs `vsphere-ai ARGS`; keeps what it printed, and what it says to programs.

    `error` is the id of the error that ended the command, `remarks` the ids and texts of what was said on standard
    error beside it.
    """

    def __init__(self, capsys, folder):
        self.capsys, self.folder = capsys, folder
        self.out = self.err = self.error = ""
        self.remarks = ()

    def __call__(self, *arguments):
        from vsphere_ai.cli.main import main

        command, *rest = (str(a) for a in arguments)
        estate = command in ("plan", "apply", "check", "verify", "show")
        code = main([command, *(["-i", str(INVENTORY)] if estate and "-i" not in rest else []), *rest])
        self.out, self.err = self.capsys.readouterr()
        self.error, self.remarks = json_stream.failure(), streams.remarks()
        if ("-o", "json") in pairwise(rest):
            judge([command, *rest], self.out)
        return code

    def run(self, *arguments):
        """Run a command that carries something out, as JSON lines; return its exit code."""
        return self(*arguments, "-o", "json")

    @property
    def rules(self):
        """The ids of the remarks."""
        return {rule for rule, _ in self.remarks}

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def summary(self):
        return self.lines[-1]

    @property
    def events(self):
        return [line for line in self.lines if line["type"] == "event"]

    def outcomes(self, *states):
        """Targets and ids of the steps that ended so: `{("esx01.lab.local", "host.unhealthy")}`."""
        return {(o["target"], o["rule"]) for o in self.summary["outcomes"] if o["state"] in states}

    @property
    def failed(self):
        return self.outcomes("failed", "unknown")

    def text(self, rule):
        """What was said under an id, by remarks and events."""
        events = (e for e in self.events if e.get("rule") == rule) if self.out.startswith('{"type": "run"') else ()
        return "\n".join([*(text for each, text in self.remarks if each == rule), *(e["text"] for e in events)])

    def pending(self):
        """What the runs of this machine have left to put back: `{("maintenance", "esx01.lab.local")}`."""
        return {(p.kind, p.target.name) for record in journal.every() for p in record.pending()}

    def states(self):
        """The states of the runs of this machine, the oldest one first."""
        assert self("run", "list", "-o", "json") == 0
        return [run["state"] for run in json.loads(self.out)["runs"]]

    def file(self, text, name="play.yml"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def plan(self, playbook, *more):
        """Return a plan as JSON, whatever its exit code."""
        self("plan", playbook, "-o", "json", *more)
        return json.loads(self.out)

    def problems(self, playbook, *more):
        """Targets and rule ids of what is wrong with a plan: `{("esx01.lab.local", "mig.layout")}`."""
        return {(p["target"]["name"], p["rule"]) for p in self.plan(playbook, *more)["problems"]}


@pytest.fixture
def cli(capsys, tmp_path, lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")  # no line of interest is wrapped
    return Cli(capsys, tmp_path)


@pytest.fixture
def ledger(lab):
    """Return the lab's own list of changes that took effect: `ledger()` or `ledger("train-01", "PowerOnVM_Task")`.

    Without what a run writes in vCenter of itself, which `support.bookkeeping` tells.
    """

    def entries(target=None, call=None):
        found = [e for e in lab.get("/lab/ledger")["entries"] if not is_bookkeeping(e)]
        return [e for e in found if target in (None, e["object"]) and call in (None, e["call"])]

    return entries


@pytest.fixture
def farm(lab):
    """Return the lab's own picture of the farm: `farm()["vms"]["train-01"]`."""

    def read():
        state = lab.get("/lab/farm")
        return {kind: {o["name"]: o for o in state[kind]} for kind in ("hosts", "vms")}

    return read


@pytest.fixture
def answers(monkeypatch):
    """Rewrite what the lab answers, on its way to pyVmomi: `answers(pattern, replacement)`; returns what was seen."""
    seen = []

    def begin(pattern, replacement):
        real = PlainResponse._whole

        def whole(self):
            body, count = re.subn(pattern, replacement, real(self), flags=re.DOTALL)
            seen.append(count)
            return body

        monkeypatch.setattr(PlainResponse, "_whole", whole)
        return seen

    return begin


@pytest.fixture
def sets(cli, make_lab, monkeypatch):
    """A farm with a template; `sets(*arguments)` runs a command with its inventory."""
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return Sets(cli, lab, cli.file(POOLS, "inventory.yml"))


@pytest.fixture
def make_sets(cli, make_lab, monkeypatch):
    """Return a function that starts a lab of a scenario's text, for sets of VMs with pools of addresses."""

    def make(text):
        lab = make_lab(text)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        return Sets(cli, lab, cli.file(POOLS, "inventory.yml"))

    return make
