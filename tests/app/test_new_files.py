"""New files: all of them or none, and none in the place of another."""

from __future__ import annotations

import os

import pytest

from vsphere_ai.app.project import new_files
from vsphere_ai.app.project.new_files import require_absent, write_new
from vsphere_ai.errors import UsageError


def paths(folder):
    return folder / "one.yml", folder / "two.yml"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_they_are_their_owners_whatever_the_umask(tmp_path):
    one, two = paths(tmp_path)
    before = os.umask(0)
    try:
        write_new({one: "1", two: "zwö"})
    finally:
        os.umask(before)
    assert (one.read_text("utf-8"), two.read_text("utf-8")) == ("1", "zwö")
    assert {path.stat().st_mode & 0o777 for path in (one, two)} == {0o600}
    assert names(tmp_path) == ["one.yml", "two.yml"]


@pytest.mark.parametrize("there", ["file", "link", "folder"])
def test_where_one_is_there_none_is_written(tmp_path, there):
    one, two = paths(tmp_path)
    if there == "file":
        two.write_text("mine", "utf-8")
    elif there == "link":
        two.symlink_to("nowhere")
    else:
        two.mkdir()
    with pytest.raises(UsageError) as caught:
        write_new({one: "1", two: "2"})
    assert caught.value.rule == "usage.not-overwritten"
    assert "two.yml" in caught.value.message
    assert names(tmp_path) == ["two.yml"]
    with pytest.raises(UsageError):
        require_absent((one, two))


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("call", ["fsync", "link"])
@pytest.mark.parametrize("number", [1, 2])
def test_stopped_half_way_nothing_is_left(tmp_path, monkeypatch, fault, call, number):
    real, calls = getattr(os, call), []

    def failing(*given):
        calls.append(given)
        if len(calls) == number:
            raise fault
        return real(*given)

    monkeypatch.setattr(new_files.os, call, failing)
    with pytest.raises(fault if isinstance(fault, type) else UsageError):
        write_new(dict.fromkeys(paths(tmp_path), "text"))
    assert names(tmp_path) == []
