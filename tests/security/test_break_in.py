"""T-57, T-54: files that try to run or read something, and names that mean several objects, are refused (exit 65)."""

from __future__ import annotations

import json
import os
import re

import pytest
import yaml
from support.labs import started

from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.resources import kinds
from vsphere_ai.security import credentials
from vsphere_ai.security.secret_ref import Secret

PARTED = "version: v1\nmig-configs:\n  c: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n"
INVENTORY = """vcenters:
  vc: {address: 127.0.0.1, port: 1, username: u, password: "env:H8_PASSWORD", tls: {fingerprint: "%s"}}
""" % ("ab" * 32)  # fmt: skip
SSH = 'ssh: {known_hosts: known_hosts, password: "file:secret"}\n'
FILES = {
    "object": "- !!python/object/apply:os.system [touch pwned]\n",
    "name": "- hosts: !!python/name:os.system all\n  mig: {mode: enabled}\n",
    "module in a value": "- hosts: all\n  mig: {mode: !!python/object/new:subprocess.Popen [touch pwned]}\n",
    "own tag": "- hosts: all\n  mig: !include /etc/passwd\n",
    "binary": "- hosts: !!binary YWxs\n  mig: {mode: enabled}\n",
    "above": "- hosts: all\n  mig: {parted: {file: ../secret.yml, config: c}}\n",
    "above by a detour": "- hosts: all\n  mig: {parted: {file: inner/../../secret.yml, config: c}}\n",
    "absolute": "- hosts: all\n  mig: {parted: {file: %(outside)s/secret.yml, config: c}}\n",
    "home": "- hosts: all\n  mig: {parted: {file: ~/secret.yml, config: c}}\n",
    "link out": "- hosts: all\n  mig: {parted: {file: link.yml, config: c}}\n",
    "link to a folder out": "- hosts: all\n  mig: {parted: {file: away/secret.yml, config: c}}\n",
    "process": "- hosts: all\n  mig: {parted: {file: /proc/self/environ, config: c}}\n",
    "device": "- hosts: all\n  mig: {parted: {file: /dev/stdin, config: c}}\n",
    "nul": '- hosts: all\n  mig: {parted: {file: "secret.yml\\0.txt", config: c}}\n',
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project's folder with a secret above it and links that lead there."""
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    (tmp_path / "secret.yml").write_text(PARTED + "# hunter2 from outside\n")
    (project / "link.yml").symlink_to("../secret.yml")
    (project / "away").symlink_to("..")
    (project / "inside.yml").write_text(PARTED)
    (project / "inventory.yml").write_text(INVENTORY)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("H8_PASSWORD", "canary-of-the-environment")
    return project


@pytest.mark.parametrize("attempt", FILES)
def test_a_playbook_neither_runs_nor_reads_anything_else(project, tool, attempt):
    path = project / "play.yml"
    path.write_text(FILES[attempt].replace("%(outside)s", str(project.parent)))
    assert tool("plan", path, "-i", project / "inventory.yml") == 65
    assert f"{path}:" in tool.err
    assert "hunter2" not in tool.err
    assert "canary" not in tool.err
    assert not list(project.parent.rglob("pwned"))
    assert tool.out == ""


def test_a_file_of_the_project_is_read(project, tool):
    """Without this the refusals above could be of any file: here the vCenter that is not there stops it."""
    path = project / "play.yml"
    path.write_text("- hosts: all\n  mig: {parted: {file: inside.yml, config: c}}\n")
    assert tool("plan", path, "-i", project / "inventory.yml") == 5, tool.err


@pytest.mark.parametrize("text", ["$H8_PASSWORD", "{{H8_PASSWORD}}", "env:H8_PASSWORD", "%(HOME)s", "$${H8_PASSWORD}"])
def test_nothing_in_a_playbook_is_looked_up_in_the_environment(project, text):
    path = project / "play.yml"
    path.write_text(json.dumps([{"name": text, "hosts": text.replace(":", "_"), "mig": {"mode": "enabled"}}]))
    (play,) = load_playbook(path, kinds()).plays
    assert (play.name, play.pattern) == (text.replace("$$", "$"), text.replace(":", "_").replace("$$", "$"))


def test_a_variable_is_none_of_the_environment(project, tool):
    path = project / "play.yml"
    path.write_text('- hosts: "${H8_PASSWORD}"\n  mig: {mode: enabled}\n')
    assert tool("plan", path, "-i", project / "inventory.yml") == 65
    assert "there is no variable 'H8_PASSWORD'" in tool.err
    assert "canary" not in tool.err + tool.out


REFUSED_INVENTORIES = {
    "another variable": ('password: "env:NOT LISTED"', "a password must not be in the file"),
    "a variable in a name": ('password: "$H8_PASSWORD"', "a password must not be in the file"),
    "two references": ('password: "env:A env:B"', "a password must not be in the file"),
    "object": ("password: !!python/object/apply:os.system [touch pwned]", "is not allowed"),
    "password of nothing": ('password: "file:"', "a password must not be in the file"),
}


@pytest.mark.parametrize("attempt", REFUSED_INVENTORIES)
def test_an_inventory_names_places_of_passwords_and_nothing_else(project, tool, attempt):
    given, said = REFUSED_INVENTORIES[attempt]
    path = project / "inventory.yml"
    path.write_text(INVENTORY.replace('password: "env:H8_PASSWORD"', given))
    (project / "play.yml").write_text("- hosts: all\n  mig: {mode: enabled}\n")
    assert tool("plan", project / "play.yml", "-i", path) == 65
    assert said in tool.err
    assert "canary" not in tool.err
    assert not list(project.parent.rglob("pwned"))


@pytest.mark.parametrize("command", ["show", "doctor", "trust", "capacity"])
@pytest.mark.parametrize("why", ["another user's", "others may write there", "others may change it"])
def test_an_inventory_that_was_only_found_runs_and_reads_nothing(project, tool, monkeypatch, command, why):
    """A program and a password file of another user, in a folder that an administrator happens to work in."""
    found = project / "vsphere-ai.yaml"
    (project / "secret").write_text("canary of the file")
    (project / "secret").chmod(0o600)
    found.write_text(INVENTORY.replace("env:H8_PASSWORD", "cmd:touch pwned") + SSH)
    if why == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give files to other users")
        os.chown(project, 4711, 4711)
        os.chown(found, 4711, 4711)
    elif why == "others may write there":
        project.chmod(0o777)
    else:
        found.chmod(0o666)
    read = []
    monkeypatch.setattr(credentials, "_from_file", lambda path: read.append(path) or Secret("canary of the file"))
    arguments = ["trust", "vcenter", "vc"] if command == "trust" else [command]
    assert tool(*arguments) == 64
    assert "was not named" in tool.err
    assert f"if it is the right one: -i {found}" in tool.err
    assert not (project / "pwned").exists()
    assert read == []
    assert tool("doctor", "-i", found) == 2
    assert not (project / "pwned").exists(), "no doctor runs what an unsafe inventory says, whoever named it"
    assert read == []
    tool("show", "-i", found)
    assert (project / "pwned").exists(), "else this test says nothing"


# -- T-54

VM = {"host": "esx01.lab.local", "memory_gb": "1"}
TWINS = {
    "name": "twins",
    "timing": {"task_seconds": "0.005"},
    "clusters": [{"name": "gpu-a"}],
    "hosts": [{"name": "esx01.lab.local", "cluster": "gpu-a"}],
    "vms": [
        {"name": "train-01", "folder": "a", **VM},
        {"name": "train-01", "folder": "b", **VM},
        {"name": "train-01", "folder": "b/c", **VM},
        {"name": "Infra", "folder": "a", **VM},
        {"name": "infra", "folder": "b", **VM},
        {"name": "one%2fname", "folder": "a", **VM},
    ],
}


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("twins")
    (directory / "farm.yml").write_text(yaml.safe_dump(TWINS), encoding="utf-8")
    yield started(directory, directory / "farm.yml")
    process.stop(directory)


@pytest.fixture
def plan(twins, tool, inventory_of, tmp_path):
    """Plan a change of what a pattern means; return the exit code and the names."""
    twins.post("/lab/reset")
    inventory = inventory_of(twins)

    def run(pattern, *more):
        path = tmp_path / "play.yml"
        path.write_text(json.dumps([{"vms": pattern, "hardware": {"version": 19}}]), encoding="utf-8")
        code = tool("plan", path, "-i", inventory, "-o", "json", *more)
        return code, [i["target"]["ref"] for i in json.loads(tool.out)["items"]] if code == 0 else []

    yield run
    assert twins.get("/lab/ledger")["entries"] == []


@pytest.mark.lab
def test_of_twins_none_is_picked_and_all_are_named(plan, tool, twins):
    assert plan("train-01")[0] == 65
    assert "3 objects are called 'train-01'" in tool.err
    shown = " ".join(tool.err.split())
    for vm in twins.get("/lab/farm")["vms"]:
        if vm["name"] == "train-01":
            assert f"/vm/{vm['folder']}/train-01 ({vm['ref']})" in shown
    for path, ref in re.findall(r"(/\S+/vm/\S+) \((\S+)\)", shown):
        assert plan(path) == (0, [ref])


@pytest.mark.lab
def test_a_reference_selects_one_of_them(plan, twins):
    for vm in twins.get("/lab/farm")["vms"]:
        assert plan(vm["ref"]) == (0, [vm["ref"]])


@pytest.mark.lab
def test_names_that_differ_in_case_are_two(plan, twins):
    refs = {vm["name"]: vm["ref"] for vm in twins.get("/lab/farm")["vms"]}
    assert plan("Infra") == (0, [refs["Infra"]])
    assert plan("infra") == (0, [refs["infra"]])
    assert plan("INFRA")[0] == 65


@pytest.mark.lab
def test_the_limit_picks_none_either(plan, tool):
    assert plan("*", "--limit", "train-01")[0] == 64
    assert "3 objects are called 'train-01'" in tool.err
