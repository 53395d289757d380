"""User data of sets on the lab: they reach the guest with ours, stay out of plans, and change with a new VM only."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from support.vm_sets import KEY, options, play

pytestmark = pytest.mark.lab
DATA = "{packages: [htop], runcmd: [[echo, hello]], write_files: [{path: /etc/own, content: of the play}]}"
OTHER = "{packages: [htop, iotop]}"


def given(client, name):
    """The user data of a VM that was not powered on, as cloud-init gets them."""
    packed = options(client, name)["guestinfo.userdata"]
    text = gzip.decompress(base64.b64decode(packed)).decode()
    assert text.startswith("#cloud-config\n")
    return json.loads(text.removeprefix("#cloud-config\n"))


def test_they_are_joined_with_what_the_tool_gives(sets, new_client):
    sets.applied(play("train-01", nics=1, user_data=DATA, power_state="off"))
    found = given(new_client(sets.lab), "train-01")
    assert (found["packages"], found["runcmd"]) == (["htop"], [["echo", "hello"]])
    assert [user["name"] for user in found["users"]] == ["ops"]
    assert found["ssh_pwauth"] is False
    first, *ours = [file["path"] for file in found["write_files"]]
    assert first == "/etc/own"
    assert ours
    assert all("vsphere-ai" in path for path in ours)


def test_a_guest_is_ready_with_them_and_the_plan_is_empty(sets, cli):
    sets.applied(play("train-01", nics=1, user_data=DATA))
    assert sets("plan", cli.file(play("train-01", nics=1, user_data=DATA)), "--detailed-exitcode") == 0


def test_the_plan_names_the_keys_and_other_data_need_a_new_vm(sets, cli):
    playbook = cli.file(play("train-01", nics=1, user_data=DATA))
    assert sets("plan", playbook) == 0
    assert "packages, runcmd, write_files" in cli.out
    assert "of the play" not in cli.out, "the content is not shown"
    assert sets("apply", playbook, "--yes") == 0
    assert sets.refused(play("train-01", nics=1, user_data=OTHER)) == {"vm_set.rebuild"}
    assert sets.refused(play("train-01", nics=1)) == {"vm_set.rebuild"}
    made_again = cli.file(play("train-01", nics=1, user_data=OTHER))
    assert sets("replace", made_again, "train-01", "--yes", "--destroy", "1") == 0, cli.out + cli.err
    assert sets("plan", made_again, "--detailed-exitcode") == 0, cli.out


def test_a_saved_plan_has_them_from_their_file(sets, cli, new_client, tmp_path):
    playbook = cli.file(play("train-01", nics=1, user_data="own.yml", power_state="off"))
    (tmp_path / "own.yml").write_text("#cloud-config\ntimezone: Europe/Berlin\n", encoding="utf-8")
    saved = tmp_path / "plan.json"
    assert sets("plan", playbook, "--to", saved) == 0, cli.err
    assert sets("apply", saved, "--yes") == 0, cli.out + cli.err
    assert given(new_client(sets.lab), "train-01")["timezone"] == "Europe/Berlin"


def test_a_password_beside_them_still_becomes_a_hash(sets, cli, new_client, monkeypatch):
    monkeypatch.setenv("OPS_PASSWORD", "Correct-Horse-Battery-9")
    words = f"ssh_authorized_keys: ['{KEY}']"
    text = play("train-01", nics=1, user_data="{runcmd: ['echo hashed_passwd']}", power_state="off")
    text = text.replace(words, f"{words}, password: 'env:OPS_PASSWORD'")
    assert sets("apply", cli.file(text), "--yes") == 0, cli.out + cli.err
    found = given(new_client(sets.lab), "train-01")
    assert found["users"][0]["hashed_passwd"].startswith("$6$")
    assert found["runcmd"] == ["echo hashed_passwd"]


@pytest.mark.parametrize("fields", [{"nics": 0}, {"customize": "linux_prep", "nics": 1}])
def test_guests_that_are_given_nothing_by_cloud_init_are_refused(sets, fields):
    assert "vm_set.user-data" in sets.refused(play("train-01", user_data=OTHER, **fields))
