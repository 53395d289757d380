"""Live view of a fleet as lines: a row per vCenter, those that matter first where not all fit."""

from __future__ import annotations

import pytest

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.model.text import columns
from vsphere_ai.planning.outcome import RunEvent
from vsphere_ai.planning.scheduling.expected_time import StepTimes, Usual
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.report.fleets import fleet_live


def planned(number, vm="vm-1"):
    return PlannedStep(f"s{number:03}", Step(target=Target("vm", vm, f"VirtualMachine:{vm}"), summary="upgrade"), ())


STEPS = (planned(1), planned(2, "vm-2"))
TIMES = StepTimes({p.id: Usual(60.0, 3) for p in STEPS}, runs=3)


def view(*names):
    made = fleet_live.FleetLive("20261127-230248-a664", dict.fromkeys(names, 2))
    for name in names:
        made.begin(name, fleet_live.StartedRun(STEPS, TIMES))
    return made


def row(lines, name):
    return next(line for line in lines if line.split()[:1] == [name])


def test_a_row_has_state_steps_time_and_what_is_under_way():
    shown = view("berlin", "munich")
    shown.see("berlin", RunEvent("start", STEPS[0]), 10.0)
    lines = shown.lines(80, 24, 11.0)
    assert row(lines, "berlin").split()[1:5] == ["working", "0", "of", "2"]
    assert row(lines, "berlin").endswith("vm-1: upgrade")
    assert "nothing of it is in flight" in row(lines, "munich")
    shown.see("berlin", RunEvent("failed", STEPS[0], "no"), 12.0)
    lines = shown.lines(80, 24, 13.0)
    assert "1 of 2" in row(lines, "berlin")
    assert any("1 failed" in line and "1 of 4 steps" in line for line in lines)
    shown.end("berlin", "failed", "vm-1: no")
    assert row(shown.lines(80, 24, 14.0), "berlin").endswith("vm-1: no")


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (200, 8)])
def test_fifty_vcenters_fit_and_the_failed_ones_are_seen(size):
    names = [f"site-{n:02}" for n in range(50)]
    shown = view(*names)
    for name in names[:40]:
        shown.end(name, "done", "")
    shown.end("site-17", "failed", "esx01: it did not come back")
    lines = shown.lines(*size, 5.0)
    assert len(lines) < size[1]
    assert max(map(columns, lines)) < size[0]
    assert row(lines, "site-17")
    more = next(line for line in lines if " more: " in line)
    assert "done" in more


def test_it_says_what_stopping_means():
    shown = view("berlin")
    shown.see("berlin", RunEvent("start", STEPS[0]), 1.0)
    shown.see("berlin", RunEvent("stopping"), 2.0)
    text = "\n".join(shown.lines(100, 24, 3.0))
    assert "stopping: 1 step in flight" in text
    assert "vsphere-ai fleet resume 20261127-230248-a664" in text
    assert "left" not in text.splitlines()[-4]
