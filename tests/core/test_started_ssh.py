"""Notes of SSH that was started for reading: kept when the writer dies or cannot stop it, gone when all went well."""

from __future__ import annotations

import os
import signal
import stat

import pytest

from vsphere_ai import started_ssh
from vsphere_ai.errors import Storage

HOST = "HostSystem:host-12"


def test_a_note_is_gone_when_all_went_well():
    with started_ssh.noted("uuid-1", HOST):
        assert started_ssh.left("uuid-1") == (), "its writer lives"
    assert started_ssh.left("uuid-1") == ()


def test_a_note_stays_when_it_could_not_be_stopped():
    with pytest.raises(RuntimeError), started_ssh.noted("uuid-1", HOST):
        raise RuntimeError
    assert started_ssh.left("uuid-1") == (HOST,)
    assert started_ssh.left("uuid-2") == (), "another vCenter's hosts are not ours"
    started_ssh.forget("uuid-1", HOST)
    assert started_ssh.left("uuid-1") == ()


def test_a_note_stays_when_its_writer_is_killed():
    child = os.fork()
    if not child:
        with started_ssh.noted("uuid-1", HOST):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert started_ssh.left("uuid-1") == (HOST,)
    with started_ssh.noted("uuid-1", HOST):
        assert started_ssh.left("uuid-1") == ()


def test_notes_are_the_owners_only(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "own"))
    with started_ssh.noted("uuid-1", HOST):
        (note,) = (tmp_path / "own" / "ssh" / "uuid-1").iterdir()
        assert stat.S_IMODE(note.stat().st_mode) == 0o600


def test_without_a_note_nothing_is_started(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(Storage, match=r"Not a directory|File exists"), started_ssh.noted("uuid-1", HOST):
        raise AssertionError("not reached")
