"""T-46: a wrong password is tried once per run, whatever the number of hosts: no account gets locked."""

from __future__ import annotations

import pytest
from support.labs import started

pytestmark = pytest.mark.lab
HOSTS = 16
FARM = f"""
name: many
timing: {{boot_seconds: 0.2, task_seconds: 0.005}}
clusters: [{{name: gpu-a}}]
hosts:
  - name: esx[01:{HOSTS}].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    graphics_default: sharedDirect
    gpus: [{{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}]
    ssh: {{running: true, policy: on}}
"""
PLAY = "- hosts: all\n  mig: {mode: enabled}\n  rolling: {evacuate: power_off}\n"
# `show` leaves out what it cannot read and says so; `check` judges by what vCenter shows
COMMANDS = [("plan", 4), ("apply", 4), ("check", None), ("show", 0), ("verify", 4)]


@pytest.fixture(scope="module")
def many(tmp_path_factory):

    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("many")
    (directory / "farm.yml").write_text(FARM, encoding="utf-8")
    yield started(directory, directory / "farm.yml")
    process.stop(directory)


@pytest.fixture
def farm(many):
    many.post("/lab/reset")
    return many


@pytest.fixture
def arguments(tmp_path):
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")

    def of(command):
        more = [] if command == "show" else [tmp_path / "play.yml"]
        return [command, *more, *(["--yes"] if command == "apply" else [])]

    return of


def ssh_attempts(lab):
    return sum(h["ssh"]["login_attempts"] for h in lab.get("/lab/farm")["hosts"])


@pytest.mark.parametrize(("command", "code"), COMMANDS)
def test_a_wrong_ssh_password_is_tried_on_one_host_once(
    farm, tool, inventory_of, arguments, monkeypatch, command, code
):
    monkeypatch.setenv("WRONG", "not the password")
    inventory = inventory_of(farm, ssh_password="env:WRONG")
    result = tool(*arguments(command), "-i", inventory, "--parallel", "16")
    assert ssh_attempts(farm) == 1
    assert code is None or result == code, tool.err
    assert farm.get("/lab/ledger")["entries"] == []
    if command == "plan":
        assert tool.out.count("[ssh.denied]") >= 1


@pytest.mark.parametrize(("command", "code"), COMMANDS)
def test_a_wrong_vcenter_password_is_tried_once(farm, tool, inventory_of, arguments, monkeypatch, command, code):
    monkeypatch.setenv("WRONG", "not the password")
    assert tool(*arguments(command), "-i", inventory_of(farm, password="env:WRONG")) == 4
    state = farm.get("/lab/farm")
    assert (state["refused_logins"], state["logins"], ssh_attempts(farm)) == (1, 0, 0)
    assert "is not tried again" in tool.err


def test_no_account_is_locked_by_any_number_of_commands(farm, tool, inventory_of, arguments, monkeypatch):
    """Four wrong runs are four failures on one host; a fifth on that host would lock it for 15 minutes."""
    monkeypatch.setenv("WRONG", "not the password")
    inventory = inventory_of(farm, ssh_password="env:WRONG", name="wrong.yml")
    for command in ("plan", "apply", "verify", "plan"):
        tool(*arguments(command), "-i", inventory, "--parallel", "16")
    assert ssh_attempts(farm) == 4
    assert tool(*arguments("plan"), "-i", inventory_of(farm)) == 0, tool.out
    assert ssh_attempts(farm) == 4 + HOSTS


@pytest.mark.parametrize("how", ["another key", "wrong passphrase"])
def test_a_wrong_key_is_tried_on_one_host_once(farm, tool, inventory_of, arguments, monkeypatch, tmp_path, how):
    """A key counts as an attempt like a password; what cannot be opened never gets to a host."""
    import json

    import paramiko

    paramiko.RSAKey.generate(2048).write_private_key_file(str(tmp_path / "key"), password="right passphrase")
    monkeypatch.setenv("PASSPHRASE", "right passphrase" if how == "another key" else "wrong")
    inventory = inventory_of(farm)
    document = json.loads(inventory.read_text(encoding="utf-8"))
    del document["ssh"]["password"]
    document["ssh"] |= {"key_file": str(tmp_path / "key"), "key_passphrase": "env:PASSPHRASE"}
    inventory.write_text(json.dumps(document), encoding="utf-8")
    tried = []
    real = paramiko.Transport.auth_publickey
    monkeypatch.setattr(paramiko.Transport, "auth_publickey", lambda *a, **k: tried.append(1) or real(*a, **k))
    assert tool(*arguments("plan"), "-i", inventory, "--parallel", "16") == 4, tool.out + tool.err
    assert len(tried) == (1 if how == "another key" else 0)
    assert farm.get("/lab/ledger")["entries"] == []


def test_with_the_right_password_every_host_is_logged_in_to(farm, tool, inventory_of, arguments):
    """The counter counts: without this the tests above could pass because nobody connects."""
    assert tool(*arguments("plan"), "-i", inventory_of(farm)) == 0, tool.out
    assert ssh_attempts(farm) == HOSTS
