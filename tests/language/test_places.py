from __future__ import annotations

from pathlib import Path

from vsphere_ai.places import lab_dir, state_dir


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
