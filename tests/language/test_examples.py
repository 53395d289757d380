"""The playbooks and inventories of this repository are read with the kinds of the product."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.playbooks.play import from_document, to_document
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.resources import kinds

ROOT = Path(__file__).parents[2]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.name)
def test_every_playbook_is_read_and_can_be_saved(path):
    playbook = load_playbook(path, kinds())
    assert playbook.plays
    assert from_document(json.loads(json.dumps(to_document(playbook))), kinds()) == playbook


def test_there_are_playbooks_for_the_main_tasks():
    assert len(PLAYBOOKS) >= 4


def test_the_example_inventory_is_read():
    inventory = load_inventory(ROOT / "inventories" / "example.yml")
    assert inventory.vcenters["prod"].tls.ca_file == str(ROOT / "inventories" / "ca.pem")
    assert set(inventory.hosts) == {"gpu_hosts", "spare"}


def test_the_lab_inventory_is_read_beside_a_running_lab(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path))
    connection = "vcenters: {lab: {address: 127.0.0.1, username: u, password: 'file:password'}}\n"
    (tmp_path / "connection.yml").write_text(connection)
    inventory = load_inventory(ROOT / "inventories" / "lab.yml")
    assert set(inventory.hosts) == {"gpu_hosts"}
    assert set(inventory.vcenters) == {"lab"}
