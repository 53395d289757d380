"""Runs on a real terminal: the live view at any size, colours, Ctrl-C, and a terminal that is closed."""

from __future__ import annotations

import re
import signal

import pytest
from support.places import INVENTORY, PLAYBOOKS
from support.terminal import Terminal

from vsphere_ai.model.text import columns
from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
PLAYBOOK = PLAYBOOKS / "hardware-upgrade.yml"
HOLD = "- {on: UpgradeVM_Task, nth: 1, do: hold}\n"
TIME = re.compile(r"(?:\d+s|\d+m\d\ds)(?: of ~?\d+|,|$| )")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def terminal(lab):
    opened = []

    def open_one(*more, hold=True, size=(80, 24), **environment):
        if hold:
            lab.set_faults(HOLD)
        opened.append(Terminal(lab, "apply", "-i", INVENTORY, PLAYBOOK, "--yes", *more, size=size, **environment))
        return opened[-1]

    yield open_one
    lab.clear_faults()
    for each in opened:
        each.close()


def rows(frame):
    return [line for line in frame if re.search(r" \[\d+\] ", line)]


def test_the_view_follows_the_size_and_never_cuts_a_time(terminal, lab):
    shown = terminal()
    first = shown.after(0, "upgrade to hardware")
    for size in ((120, 40), (40, 24), (80, 24)):
        assert rows(first)
        shown.resize(*size)
        count = len(shown.frames) + 1  # one may be under way
        shown.until(lambda count=count: len(shown.frames) > count + 1)
        first = shown.frames[-1]
        assert max(map(columns, first)) < size[0], first
        assert len(first) < size[1]
        assert all(TIME.search(line) for line in rows(first)), first
        # a time that no such step has shown yet is a guess, also where an earlier size of this run had one
        guessed = any("~" in TIME.search(line)[0] for line in rows(first))
        assert first[0].endswith("TIME (~ GUESS)" if guessed else "TIME"), first
    lab.clear_faults()
    assert shown.wait() == 0, shown.text[-3000:]
    assert "targets verified" in shown.text
    assert shown.text.rindex("steps done in") > shown.text.rindex("\x1b[?7h"), "the end is below the view"


def test_ctrl_c_says_what_stops_and_how_to_go_on(terminal, lab):
    shown = terminal()
    shown.after(0, "upgrade to hardware")
    assert "Ctrl-C finishes what is in flight and stops" in "\n".join(shown.frames[-1])
    count = len(shown.frames)
    shown.type("\x03")
    frame = "\n".join(shown.after(count, "nothing else starts; Ctrl-C again leaves at once"))
    (record,) = journal.every()
    assert f"go on later with: vsphere-ai resume {record.id}" in frame
    assert "stopping: " in frame
    lab.clear_faults()
    assert shown.wait() == 130
    assert "stopped by the operator" in shown.text
    assert f"vsphere-ai resume {record.id}" in shown.text.rpartition("stopped by the operator")[2]


@pytest.fixture
def hangs_up():
    """What is started under nohup ignores that its terminal is closed, and so does what it starts."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangs_up")
def test_a_terminal_that_is_closed_leaves_a_run_to_resume(terminal, lab):
    shown = terminal()
    shown.after(0, "upgrade to hardware")
    shown.process.send_signal(signal.SIGHUP)
    shown.until(lambda: "stopping" in shown.text)
    lab.clear_faults()
    assert shown.wait() == 129
    (record,) = journal.every()
    assert record.run.signal == signal.SIGHUP
    assert not record.finished


@pytest.mark.parametrize(
    ("environment", "view", "coloured"),
    [({}, True, True), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, False, False)],
)
def test_colours_and_cursor_moves_only_where_they_are_understood(terminal, lab, environment, view, coloured):
    shown = terminal(hold=view, **environment)
    if view:
        shown.after(0, "upgrade to hardware")  # nothing is drawn of a run that is done at once
        lab.clear_faults()
    assert shown.wait() == 0, shown.text[-3000:]
    assert (bool(shown.frames), bool(COLOUR.search(shown.text))) == (view, coloured)
    if not view:
        assert "\x1b" not in shown.text
    assert "steps done in" in shown.text


def test_quiet_has_the_end_only(terminal):
    shown = terminal("-q", hold=False)
    assert shown.wait() == 0
    lines = shown.text.replace("\r", "").strip().splitlines()
    assert shown.frames == []
    assert len(lines) <= 3, shown.text
    assert "steps done in" in lines[-1]
