"""How long steps took is read from the journals of one vCenter's last runs, and only of steps that were done."""

from __future__ import annotations

import pytest
from support.journals import act, create

from vsphere_ai.model.state import Target
from vsphere_ai.planning.scheduling.expected_time import sort_of
from vsphere_ai.runs import journal
from vsphere_ai.runs.past_durations import LATEST, past_durations

VM = Target("vm", "train-01", "VirtualMachine:vm-1")
OFF = act(VM, "power-off", "shut down (guest shutdown only)")


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """A clock of the journals that is set by hand."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    moment = [0]
    monkeypatch.setattr(journal, "now", lambda: f"2026-11-24T{moment[0] // 3600:02}:{moment[0] // 60 % 60:02}:00+00:00")
    return moment


def run(clock, *minutes, instance="uuid-1", state="done"):
    record = create({"instance": instance})
    for number, each in enumerate(minutes):
        record.begin(f"s{number:03}", OFF, ())
        clock[0] += each * 60
        record.end(f"s{number:03}", state)
    record.close()


def test_the_median_of_steps_that_were_done(clock):
    run(clock, 1, 2, 9)
    run(clock, 3, 4)
    run(clock, 50, state="failed")
    run(clock, 60, instance="uuid-2")
    seconds, runs = past_durations("uuid-1", sort_of)
    assert (dict(seconds), runs) == ({"power-off shut": (180.0, 5)}, 2)


def test_no_run_no_number(clock):
    assert past_durations("uuid-1", sort_of) == ({}, 0)


def test_only_the_latest_runs_count(clock, monkeypatch):
    monkeypatch.setattr("vsphere_ai.runs.past_durations.LATEST", 2)
    assert LATEST == 20
    for minutes in (40, 1, 1):
        run(clock, minutes)
    names = sorted(path.stem for path in journal.runs_dir().glob("*.db"))
    assert len(names) == 3
    seconds, runs = past_durations("uuid-1", sort_of)
    assert runs == 2
    assert seconds["power-off shut"][0] in (60.0, 1230.0)  # runs of one second have no order
