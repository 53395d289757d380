"""The next host of a rollout begins when one is back in service: nothing in between waits for time to pass."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.lab
PLAY = """\
- hosts: esx[01:02].lab.local
  mig: {mode: enabled}
  rolling: {max_unavailable: 1, evacuate: power_off, timeout: 20s, settle: 2s}
"""
MAINTENANCE = ("EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task")


class NoPause:
    """The clock for a runner, which is not to sleep."""

    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds):
        raise AssertionError(f"the runner waits for {seconds} s to pass")


def test_the_next_host_begins_when_the_one_before_is_back(lab, cli, ledger, monkeypatch):
    """Its cluster is read once it may begin, not every so often: a second look by time would come after an hour."""
    monkeypatch.setattr("vsphere_ai.execution.runner.time", NoPause())
    monkeypatch.setattr("vsphere_ai.execution.availability.AGAIN", 3600.0)
    assert cli.run("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    entered = [(e["call"], e["object"]) for e in ledger() if e["call"] in MAINTENANCE]
    first, second = entered[0][1], entered[2][1]
    assert entered == [(call, host) for host in (first, second) for call in MAINTENANCE]
    assert first != second
    told = [(e["what"], e["target"]["name"], e["summary"].partition(" ")[0]) for e in cli.events if "target" in e]
    back = told.index(("done", first, "health"))
    assert told[back + 1] == ("start", "train-03", "shut"), "its VM goes off next, with nothing in between"
    assert not [e for e in cli.events if e["what"] == "waiting"]
