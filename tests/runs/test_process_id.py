"""Whether the process that wrote something down still runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from vsphere_ai.runs import locks, process_id

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def stat(folder, pid, *, name="a name) S 1 (", state="S", ticks=4711):
    fields = [state, *("0" for _ in range(18)), str(ticks), "0", "0"]
    (folder / str(pid)).mkdir(exist_ok=True)
    (folder / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    (folder / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (folder / "sys/kernel/random/boot_id").write_text("boot-1\n")


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """A /proc in which this process is."""
    monkeypatch.setattr(process_id, "PROC", tmp_path)
    stat(tmp_path, os.getpid())
    return tmp_path


def test_a_process_is_known_by_its_beginning(proc):
    mine = process_id.identity()
    assert mine["born"] == "boot-1/4711"
    assert process_id.runs(mine["pid"], mine["born"])
    stat(proc, os.getpid(), ticks=4712)
    assert not process_id.runs(mine["pid"], mine["born"])
    stat(proc, os.getpid(), state="Z")
    assert process_id.born(os.getpid()) == ""


@pytest.mark.parametrize("text", ["", "1 (x) S 1", "no brackets"])
def test_what_cannot_be_read_says_nothing(proc, text):
    (proc / str(os.getpid()) / "stat").write_text(text)
    assert process_id.born(os.getpid()) == ""


def test_without_proc_the_number_has_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(process_id, "PROC", tmp_path / "none")
    assert process_id.identity()["born"] == ""
    assert process_id.runs(os.getpid())
    assert process_id.runs(os.getpid(), "written/1")
    assert not process_id.runs(0)
    assert not process_id.runs(2**31 + 1)

    def not_ours(_pid, _signal):
        raise PermissionError

    monkeypatch.setattr(os, "kill", not_ours)
    assert process_id.runs(1)
    assert not process_id.runs(1, own=True)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="this system has no /proc")
def test_a_killed_child_that_nobody_waited_for_is_gone():
    child = subprocess.Popen(SLEEP)
    try:
        born = process_id.born(child.pid)
        assert process_id.runs(child.pid, born)
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        os.kill(child.pid, 0)  # its number is still taken
        assert not process_id.runs(child.pid, born)
    finally:
        child.kill()
        child.wait()


def test_a_note_of_a_lock_knows_its_writer(proc):
    with locks.hold_here("vc", "run") as note:
        assert note.alive
        assert locks.here("vc").alive
        stat(proc, os.getpid(), ticks=1)
        assert not note.alive
