"""The real command line, run in this process against a lab that runs in another."""

from __future__ import annotations

import json
import re

import pytest
from support.places import INVENTORY

from vsphere_ai.connect.answers import Answer


class Cli:
    """Runs `vsphere-ai ARGS`; keeps what it printed."""

    def __init__(self, capsys, folder):
        self.capsys, self.folder = capsys, folder
        self.out = self.err = ""

    def __call__(self, *arguments):
        from vsphere_ai.cli.main import main

        command, *rest = (str(a) for a in arguments)
        estate = command in ("plan", "apply", "check", "verify", "show")
        code = main([command, *(["-i", str(INVENTORY)] if estate and "-i" not in rest else []), *rest])
        self.out, self.err = self.capsys.readouterr()
        return code

    def file(self, text, name="play.yml"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def plan(self, playbook, *more):
        """Return a plan as JSON, whatever its exit code."""
        self("plan", playbook, "--format", "json", *more)
        return json.loads(self.out)


@pytest.fixture
def cli(capsys, tmp_path, lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")  # no line of interest is wrapped
    return Cli(capsys, tmp_path)


@pytest.fixture
def ledger(lab):
    """Return the lab's own list of changes that took effect: `ledger()` or `ledger("train-01", "PowerOnVM_Task")`."""

    def entries(target=None, call=None):
        found = lab.get("/lab/ledger")["entries"]
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
        real = Answer._whole

        def whole(self):
            body, count = re.subn(pattern, replacement, real(self), flags=re.DOTALL)
            seen.append(count)
            return body

        monkeypatch.setattr(Answer, "_whole", whole)
        return seen

    return begin
