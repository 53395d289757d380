"""Notes of SSH that was started for reading: kept when the writer dies or cannot stop it, gone when all went well."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from contextlib import nullcontext
from functools import partial

import pytest
from support.raising import refused

from vsphere_ai.connect import service
from vsphere_ai.errors import Denied, OutcomeUnknown, Storage, Unreachable, VimFault
from vsphere_ai.model.facts import Facts
from vsphere_ai.runs import ssh_markers

HOST = "HostSystem:host-12"


def test_a_note_is_gone_when_all_went_well():
    with ssh_markers.noted("uuid-1", HOST):
        assert ssh_markers.left("uuid-1") == (), "its writer lives"
    assert ssh_markers.left("uuid-1") == ()


def test_a_note_that_cannot_be_flushed_is_let_go(monkeypatch):
    def full(_folder):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ssh_markers, "flush", full)
        with refused(Storage, "journal", "No space left"), ssh_markers.noted("uuid-1", HOST):
            pass
    assert not ssh_markers.is_held("uuid-1", HOST), "nobody would be able to read that host"
    with ssh_markers.noted("uuid-1", HOST):
        assert ssh_markers.is_held("uuid-1", HOST)


def test_a_note_stays_when_it_could_not_be_stopped():
    with pytest.raises(RuntimeError), ssh_markers.noted("uuid-1", HOST):
        raise RuntimeError
    assert ssh_markers.left("uuid-1") == (HOST,)
    assert ssh_markers.left("uuid-2") == (), "another vCenter's hosts are not ours"
    ssh_markers.forget("uuid-1", HOST)
    assert ssh_markers.left("uuid-1") == ()


def test_a_note_stays_when_its_writer_is_killed():
    child = os.fork()
    if not child:
        with ssh_markers.noted("uuid-1", HOST):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert ssh_markers.left("uuid-1") == (HOST,)
    with ssh_markers.noted("uuid-1", HOST):
        assert ssh_markers.left("uuid-1") == ()


def test_notes_are_the_owners_only(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "own"))
    with ssh_markers.noted("uuid-1", HOST):
        (note,) = (tmp_path / "own" / "ssh" / "uuid-1").iterdir()
        assert stat.S_IMODE(note.stat().st_mode) == 0o600


def test_without_a_note_nothing_is_started(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(Storage, match=r"Not a directory|File exists"), ssh_markers.noted("uuid-1", HOST):
        raise AssertionError("not reached")


def test_the_second_process_waits_until_the_first_has_stopped_it():
    first, done = threading.Event(), []

    def read_first():
        with ssh_markers.noted("uuid-1", HOST):
            first.set()
            time.sleep(0.3)
            done.append("first")

    other = threading.Thread(target=read_first)
    other.start()
    first.wait(5)
    assert ssh_markers.is_held("uuid-1", HOST)
    assert not ssh_markers.is_held("uuid-2", HOST)
    with ssh_markers.noted("uuid-1", HOST):
        assert done == ["first"]
        assert ssh_markers.held("uuid-1") == (HOST,), "the second one's note is there, though the first removed its own"
    other.join()
    assert ssh_markers.held("uuid-1") == ssh_markers.left("uuid-1") == ()


def test_nobody_waits_for_ever(monkeypatch):
    monkeypatch.setattr(ssh_markers, "PATIENCE", 0.2)
    with (
        ssh_markers.noted("uuid-1", HOST),
        refused(Unreachable, "ssh.being-read"),
        ssh_markers.noted("uuid-1", HOST),
    ):
        raise AssertionError("not reached")
    assert ssh_markers.held("uuid-1") == ssh_markers.left("uuid-1") == ()


# -- what is started is stopped, and told of only where it may still run

STOPPED = Facts(HOST, {"name": "esx01", "config.service.service": ({"key": "TSM-SSH", "running": False},)})


class VCenter:
    """Remembers calls; refuses some of them."""

    def __init__(self, runs=None, **refused):
        self.refused, self.calls, self.runs = refused, [], runs

    def resolve_path(self, ref, path):
        return "HostServiceSystem:1"

    def call(self, ref, method, args):
        self.calls.append(method)
        if method in self.refused:
            raise self.refused[method] if self.runs is None else self.refused.pop(method)

    def read_objects(self, refs, paths):
        if self.runs is None:
            raise Unreachable("away")
        return {HOST: Facts(HOST, {"config.service.service": ({"key": "TSM-SSH", "running": self.runs},)})}


def read_over(vcenter, fails=None):
    with service.running(vcenter, STOPPED, partial(ssh_markers.noted, "uuid-1")):
        if fails is not None:
            raise fails


@pytest.mark.parametrize("fails", [None, Denied("wrong password"), KeyboardInterrupt()])
def test_what_was_stopped_again_is_not_reported(fails):
    vcenter = VCenter()
    with pytest.raises(type(fails)) if fails is not None else nullcontext():
        read_over(vcenter, fails)
    assert vcenter.calls == ["StartService", "StopService"]
    assert ssh_markers.left("uuid-1") == ()


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (Denied("HostServiceSystem:1: no"), ()),
        (VimFault("no", "", {}), ()),
        (Unreachable("away"), ()),
        (OutcomeUnknown("lost"), (HOST,)),
    ],
)
def test_a_note_stays_only_where_ssh_may_have_been_started(answer, left):
    vcenter = VCenter(StartService=answer)
    with pytest.raises(type(answer)) as caught:
        read_over(vcenter)
    assert vcenter.calls == ["StartService"]
    assert "HostServiceSystem" not in caught.value.message
    assert ssh_markers.left("uuid-1") == left


@pytest.mark.parametrize(
    ("method", "runs", "calls"),
    [
        ("StartService", True, ["StartService", "StopService"]),
        ("StartService", False, ["StartService", "StartService", "StopService"]),
        ("StopService", False, ["StartService", "StopService"]),
        ("StopService", True, ["StartService", "StopService", "StopService"]),
    ],
)
def test_a_lost_answer_is_looked_up_and_what_had_no_effect_is_sent_once_more(method, runs, calls):
    vcenter = VCenter(runs, **{method: OutcomeUnknown("lost")})
    read_over(vcenter)
    assert vcenter.calls == calls
    assert ssh_markers.left("uuid-1") == ()


def test_a_note_stays_where_ssh_could_not_be_stopped():
    with pytest.raises(service.LeftRunning):
        read_over(VCenter(StopService=Denied("no")), Denied("wrong password"))
    assert ssh_markers.left("uuid-1") == (HOST,)
