"""Passwords of accounts in guests: references only, hashed at apply, in no file, and gone from a VM that is ready."""

from __future__ import annotations

import base64
import gzip
import json
import os
from pathlib import Path

import pytest
from support.vm_sets import KEY, play

from vsphere_ai.security.password_hash import sha512_crypt

pytestmark = pytest.mark.lab
WORD = "Correct-Horse-Battery-9"
KEYS = f"ssh_authorized_keys: ['{KEY}']"


def users(text, said):
    return text.replace(f"{{name: ops, {KEYS}}}", f"{{name: ops, {said}}}")


def userdata(client, name):
    """The accounts in the user data of a VM by their names, and their text as it lies in vCenter."""
    settings = {o.key: o.value for o in client.vm(name).config.extraConfig}
    packed = settings.get("guestinfo.userdata", "")
    text = gzip.decompress(base64.b64decode(packed)).decode() if packed else "{}"
    return {u["name"]: u for u in json.loads(text.removeprefix("#cloud-config\n")).get("users", ())}, packed


def written(folder):
    return b"\n".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()).decode(errors="replace")


@pytest.mark.parametrize("kind", ["env", "file", "cmd"])
def test_a_password_reaches_the_guest_as_a_hash_and_nothing_else(sets, cli, new_client, monkeypatch, tmp_path, kind):
    monkeypatch.setenv("OPS_PASSWORD", WORD)
    file = tmp_path / "secret"
    file.write_text(f"{WORD}\n")
    file.chmod(0o600)
    reference = {"env": "env:OPS_PASSWORD", "file": f"file:{file}", "cmd": f"cmd:cat {file}"}[kind]
    playbook = cli.file(users(play("train-01", nics=1, power_state="off"), f"{KEYS}, password: '{reference}'"))
    assert sets("plan", playbook) == 0
    shown = cli.out
    assert sets("apply", playbook, "--yes", "-o", "json") == 0, cli.err
    accounts, packed = userdata(new_client(sets.lab), "train-01")
    hashed, ops = accounts["ops"]["hashed_passwd"], accounts["ops"]
    _, _, rounds, salt, _ = hashed.split("$")
    assert sha512_crypt(WORD, salt, int(rounds.removeprefix("rounds="))) == hashed
    assert not ops["lock_passwd"]
    assert ops["ssh_authorized_keys"]

    everything = shown + cli.out + cli.err + written(os.environ["VSPHERE_AI_STATE_DIR"])
    assert reference in everything, "the reference is no secret"
    for secret in (WORD, hashed, packed):
        assert secret not in everything

    on = cli.file(users(play("train-01", nics=1), f"{KEYS}, password: '{reference}'"))
    assert sets("apply", on, "--yes") == 0, cli.out + cli.err
    assert userdata(new_client(sets.lab), "train-01") == ({}, "")
    assert sets("plan", on, "--detailed-exitcode") == 0, cli.out


@pytest.mark.parametrize("wrong", [f"password: {WORD}", "password: 123456789", f"password: [{WORD}]"])
def test_a_literal_password_is_refused_with_its_place_and_never_repeated(sets, cli, wrong):
    playbook = cli.file(users(play("train-01", nics=1), wrong))
    lines = Path(playbook).read_text().splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if "name: ops" in text)
    assert sets("plan", playbook) == 2 or cli.err
    assert f":{line}:{lines[line - 1].index('password:') + len('password: ') + 1}" in cli.err
    assert WORD not in cli.out + cli.err
    assert "123456789" not in cli.out + cli.err


@pytest.mark.parametrize("value", [None, "", "two\nlines"])
def test_a_password_that_is_not_there_stops_the_apply_before_it_begins(sets, cli, monkeypatch, value):
    monkeypatch.delenv("OPS_PASSWORD", raising=False)
    if value is not None:
        monkeypatch.setenv("OPS_PASSWORD", value)
    playbook = cli.file(users(play("train-01", nics=1), "password: 'env:OPS_PASSWORD'"))
    assert sets("plan", playbook) == 0, "a plan needs no secret"
    before = sets.ledger()
    assert sets("apply", playbook, "--yes") not in (0, 2)
    assert sets.ledger() == before
    assert "OPS_PASSWORD" in cli.err or "one line" in cli.err
    cli("run", "list")
    assert cli.out.strip() in ("", "No runs") or "train" not in cli.out


def test_a_user_who_could_not_log_in_is_refused(sets, cli):
    assert sets("plan", cli.file(users(play("train-01", nics=1), "sudo: true"))) != 0
    assert "log in" in cli.err


def test_a_hash_that_a_run_could_not_remove_ends_the_run(sets, cli, monkeypatch):
    monkeypatch.setenv("OPS_PASSWORD", WORD)
    playbook = cli.file(users(play("train-01", nics=1), "password: 'env:OPS_PASSWORD'"))
    sets.lab.set_faults("- {on: ReconfigVM_Task, target: train-01, nth: 1, do: {fault: RuntimeFault}}")
    assert sets("apply", playbook, "--yes", "-o", "json") == 1, f"{cli.out}\n{cli.err}\n{sets.lab.get('/lab/ledger')}"
    assert {target for target, _ in cli.failed} == {"train-01"}
