"""An inventory that was found and not named says whom to trust and which commands to run: it has to be one's own."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from support import raising

from vsphere_ai.errors import UsageError
from vsphere_ai.language.inventories import inventory
from vsphere_ai.security import file_ownership

TEXT = "vcenters:\n  lab:\n    address: vc.lab.local\n    username: u\n    password: env:P\n"
ALICE, MALLORY = 4711, 4712
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.fixture
def project(monkeypatch):
    """A folder that every user can look into, with an inventory; this process works in a folder below it."""
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    top.chmod(0o755)
    folder = top / "project"
    (folder / "work").mkdir(parents=True)
    file = folder / "vsphere-ai.yaml"
    file.write_text(TEXT, encoding="utf-8")
    file.chmod(0o644)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.chdir(folder / "work")
    yield folder
    os.seteuid(os.getuid())
    shutil.rmtree(top)


def found():
    return inventory.find_inventory(None).path


def refused(project, why):
    file = project / "vsphere-ai.yaml"
    with raising.refused(UsageError, "inventory.unsafe") as caught:
        found()
    assert why in caught.value.message
    assert caught.value.remedy == f"if it is the right one: -i {file}"
    assert inventory.find_inventory(file).path == file, "named, it is taken"


def test_it_is_found_above(project):
    assert found() == project / "vsphere-ai.yaml"


@pytest.mark.parametrize("what", ["vsphere-ai.yaml", ".", ".."])
@pytest.mark.parametrize("bit", [0o020, 0o002])
def test_one_that_others_can_change_or_replace_is_refused(project, what, bit):
    path = project / what
    path.chmod(path.stat().st_mode | bit)
    refused(project, f"{path.resolve()} can be changed by others")


def test_a_folder_like_tmp_is_fine_above_but_not_around_it(project):
    project.parent.chmod(0o1777)
    assert found() == project / "vsphere-ai.yaml"
    project.chmod(0o1777)
    refused(project, f"{project} can be changed by others (mode 1777)")


@needs_root
@pytest.mark.parametrize("what", ["vsphere-ai.yaml", ".", ".."])
def test_root_takes_none_of_another_user(project, what):
    """Not even where the folder they work in is that user's, too."""
    os.chown(project / "work", MALLORY, MALLORY)
    os.chown(project / what, MALLORY, MALLORY)
    refused(project, f"{(project / what).resolve()} belongs to another user (uid {MALLORY})")


@needs_root
def test_users_take_their_own_and_roots(project):
    for path in (project, project / "work"):
        os.chown(path, ALICE, ALICE)
    os.seteuid(ALICE)
    assert found() == project / "vsphere-ai.yaml"
    os.seteuid(0)
    os.chown(project / "vsphere-ai.yaml", MALLORY, MALLORY)
    os.seteuid(ALICE)
    refused(project, "belongs to another user")


@needs_root
@pytest.mark.parametrize(("caller", "user", "taken"), [(ALICE, 0, True), (MALLORY, 0, False), (ALICE, MALLORY, False)])
def test_with_sudo_the_callers_files_are_taken(project, monkeypatch, caller, user, taken):
    """As git does it: the variable counts for root only, whom anybody who may call sudo can be."""
    for path in (project, project / "work", project / "vsphere-ai.yaml"):
        os.chown(path, ALICE, ALICE)
    monkeypatch.setenv("SUDO_UID", str(caller))
    os.seteuid(user)
    if taken:
        assert found() == project / "vsphere-ai.yaml"
    else:
        refused(project, f"belongs to another user (uid {ALICE})")


@pytest.mark.parametrize("text", ["", "root", "-1", "+4711", "4711 ", "²"])
def test_a_broken_sudo_uid_names_nobody(monkeypatch, text):
    monkeypatch.setenv("SUDO_UID", text)
    assert file_ownership._trusted() == {0, os.geteuid()}


@needs_root
def test_links_are_followed_and_belong_to_the_user_too(project):
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    (project / "vsphere-ai.yaml").rename(elsewhere / "shared.yaml")
    (project / "vsphere-ai.yaml").symlink_to("../step")
    (project.parent / "step").symlink_to(elsewhere / "shared.yaml")
    assert found() == project / "vsphere-ai.yaml"
    elsewhere.chmod(0o777)
    refused(project, f"{elsewhere} can be changed by others")
    elsewhere.chmod(0o755)
    os.chown(project.parent / "step", MALLORY, MALLORY, follow_symlinks=False)
    refused(project, f"{project.parent / 'step'} belongs to another user")


def test_how_it_was_found_is_said(project, monkeypatch, tmp_path):
    assert inventory.find_inventory(None).found == "found in a folder above this one"
    monkeypatch.chdir(project)
    assert inventory.find_inventory(None).found == "found in this folder"
    assert inventory.find_inventory(project / "vsphere-ai.yaml").found == "given with -i"
    (project / "vsphere-ai.yaml").rename(project / "other.yaml")
    monkeypatch.setattr(inventory, "running_lab", lambda: project / "other.yaml")
    assert inventory.find_inventory(None).found == "of the running lab"
