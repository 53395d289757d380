from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.raising import refused

from vsphere_ai.errors import Storage
from vsphere_ai.security.state_dir import lab_dir, own_folder, own_state_dir, state_dir


def test_the_environment_says_where_state_is_kept(monkeypatch, tmp_path):
    monkeypatch.delenv("VSPHERE_AI_LAB_DIR", raising=False)
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    assert state_dir() == tmp_path
    assert lab_dir() == tmp_path / "lab"
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", "somewhere")
    assert lab_dir() == Path.cwd() / "somewhere"


def test_without_it_the_users_state_folder_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("VSPHERE_AI_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_dir().name == "vsphere-ai"
    assert state_dir().is_absolute()


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "not" / "there"))
    return tmp_path / "not" / "there"


def test_what_is_missing_is_made_for_us_alone(state):
    before = os.umask(0)
    try:
        assert own_folder("runs") == state / "runs"
    finally:
        os.umask(before)
    assert [oct(f.stat().st_mode)[-3:] for f in (state, state / "runs")] == ["700", "700"]


def test_others_may_see_the_names_in_the_state_folder_only(state):
    own_folder("runs")
    state.chmod(0o755)
    assert own_folder("runs") == state / "runs"
    (state / "runs").chmod(0o750)
    with refused(Storage, "journal.folder", state / "runs") as caught:
        own_folder("runs")
    assert caught.value.remedy.startswith(f"chmod 700 {state / 'runs'}")


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_nobody_else_may_write_to_the_state_folder(state, mode):
    own_state_dir()
    state.chmod(mode)
    with refused(Storage, "journal.folder", state) as caught:
        own_folder("locks")
    assert caught.value.remedy.startswith(f"chmod go-w {state}")
    assert not (state / "locks").exists()


def test_a_link_is_not_followed(state, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    state.parent.mkdir()
    state.symlink_to(tmp_path / "elsewhere")
    with refused(Storage, "journal.folder", state, "link"):
        own_folder("runs")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_somebody_elses_folder_is_refused(state, monkeypatch):
    own_folder("runs")
    monkeypatch.setattr(os, "getuid", lambda: state.stat().st_uid + 1)
    with refused(Storage, "journal.folder", state, state.stat().st_uid):
        own_folder("runs")


@pytest.mark.parametrize("where", ["there", "."])
def test_a_file_in_its_place(state, where):
    path = (state / ".." / where).resolve()
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    with refused(Storage, "journal", path):
        own_folder("runs")
