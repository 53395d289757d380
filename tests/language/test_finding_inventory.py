"""An inventory that nobody named says whom to trust and which commands to run: it has to be one's own."""

import os
import stat
from types import SimpleNamespace

import pytest

from vsphere_ai import workbench
from vsphere_ai.errors import UsageError

TEXT = "vcenters:\n  lab:\n    address: vc.lab.local\n    username: u\n    password: env:P\n"


@pytest.fixture
def above(tmp_path, monkeypatch):
    """An inventory in the folder above this one."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    file = tmp_path / "vsphere-ai.yaml"
    file.write_text(TEXT, encoding="utf-8")
    file.chmod(0o664)
    return file


def owned_by(monkeypatch, owners):
    """Let files by these names belong to others."""
    real = workbench.Path.stat

    def stat_of(path, **more):
        found = real(path, **more)
        if path.name not in owners:
            return found
        return SimpleNamespace(st_uid=owners[path.name], st_mode=found.st_mode, st_size=found.st_size)

    monkeypatch.setattr(workbench.Path, "stat", stat_of)


def test_it_is_found_above(above):
    assert workbench.find_inventory(None).path == above


def test_one_that_everybody_can_change_is_refused_unless_named(above):
    above.chmod(above.stat().st_mode | stat.S_IWOTH)
    with pytest.raises(UsageError, match="can be changed by everybody, and was not named") as caught:
        workbench.find_inventory(None)
    assert caught.value.remedy == f"if it is the right one: -i {above}"
    assert workbench.find_inventory(above).path == above


def test_one_of_another_user_is_refused(above, monkeypatch):
    owned_by(monkeypatch, {above.name: os.getuid() + 4711})
    with pytest.raises(UsageError, match="belongs to another user, and was not named"):
        workbench.find_inventory(None)


@pytest.mark.parametrize("owner", ["root", "folder"])
def test_one_of_root_or_of_who_owns_this_folder_is_taken(above, monkeypatch, owner):
    other = os.getuid() + 4711
    owned_by(monkeypatch, {above.name: other, "work": other} if owner == "folder" else {above.name: 0})
    assert workbench.find_inventory(None).path == above
