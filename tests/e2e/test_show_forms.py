"""`show -o json|name`: the plays of the playbook, and the names of the objects it is about."""

from __future__ import annotations

import json

import pytest
import yaml
from support.places import INVENTORY

pytestmark = pytest.mark.lab


def test_json_has_the_plays_of_the_playbook_and_name_its_objects(cli):
    assert cli("show", "train-0[1:2]", "-i", INVENTORY) == 0
    plays = yaml.safe_load(cli.out)
    assert cli("show", "train-0[1:2]", "-i", INVENTORY, "-o", "json") == 0
    document = json.loads(cli.out)
    assert document["playbook"] == plays
    assert document["vcenter"]["name"]
    assert sorted(o["name"] for o in document["objects"]) == ["train-01", "train-02"]
    assert {o["kind"] for o in document["objects"]} == {"vm"}
    assert cli("show", "train-0[1:2]", "-i", INVENTORY, "-o", "name") == 0
    assert sorted(cli.out.splitlines()) == ["train-01", "train-02"]


def test_a_file_is_a_playbook(cli):
    path = cli.folder / "farm.yml"
    assert cli("show", "train-01", "-i", INVENTORY, "-o", "json", "--to", path) == 64
    assert not path.exists()


def test_a_run_is_no_pattern(cli):
    assert cli("show", "20260101-000000-dead", "-i", INVENTORY) == 64
