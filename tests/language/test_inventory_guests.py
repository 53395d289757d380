"""Section `guests:` of inventories."""

from __future__ import annotations

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory

VCENTER = "vcenters: {a: {address: a, username: u, password: 'env:P'}}\n"


def loaded(tmp_path, text):
    (tmp_path / "i.yml").write_text(VCENTER + text)
    return load_inventory(tmp_path / "i.yml").guests


def test_what_it_says(tmp_path):
    guests = loaded(
        tmp_path,
        "guests:\n  username: ai\n  key_file: keys/id\n  key_passphrase: 'file:p'\n  known_hosts: k\n  port: 2222\n"
        "  connect_timeout: 3.5\n  addresses: {trn-00: '10.0.0.5:22', trn-01: 10.0.0.6}\n",
    )
    assert (guests.key_file, guests.known_hosts) == (str(tmp_path / "keys/id"), str(tmp_path / "k"))
    assert (guests.username, guests.key_passphrase, guests.connect_timeout) == ("ai", f"file:{tmp_path}/p", 3.5)
    assert guests.endpoints == {"trn-00": ("10.0.0.5", 22), "trn-01": ("10.0.0.6", 2222)}


def test_what_it_leaves_out(tmp_path):
    guests = loaded(tmp_path, "guests: {username: ai, agent: true, known_hosts: k}\n")
    assert (guests.port, guests.connect_timeout, guests.endpoints, guests.key_file) == (22, 10.0, {}, None)
    assert loaded(tmp_path, "") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{username: ai, known_hosts: k}", "one of 'key_file' and 'agent: true'"),
        ("{username: ai, known_hosts: k, key_file: a, agent: true}", "one of 'key_file' and 'agent: true'"),
        ("{username: ai, known_hosts: k, agent: true, key_passphrase: 'env:P'}", "is for a 'key_file'"),
        ("{username: ai, known_hosts: k, key_file: a, key_passphrase: secret}", "must not be in the file"),
        ("{username: ai, known_hosts: k, key_file: a, password: 'env:P'}", "password"),
        ("{username: ai, agent: true}", "known_hosts"),
        ("{username: '-oProxyCommand=x', agent: true, known_hosts: k}", "username"),
        ("{username: ai, agent: true, known_hosts: k, port: 0}", "port"),
        ("{username: ai, agent: true, known_hosts: k, connect_timeout: 0}", "connect_timeout"),
        ("{username: ai, agent: true, known_hosts: k, addresses: {v: 'ssh://h'}}", "not an address"),
        ("[]", "guests"),
    ],
)
def test_faults_are_named(tmp_path, text, said):
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, f"guests: {text}\n")
    shown = " ".join(f"{d.message} {d.help} {d.excerpt}" for d in caught.value.diagnostics)
    assert said in shown
    assert "secret" not in shown.replace("secrets", "")


def test_guests_beside_a_lab_are_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "lab"))
    (tmp_path / "lab").mkdir()
    lab = f"{VCENTER}guests: {{username: lab, key_file: id, known_hosts: k}}\n"
    (tmp_path / "lab" / "connection.yml").write_text(lab)
    (tmp_path / "i.yml").write_text("lab: true\n")
    assert load_inventory(tmp_path / "i.yml").guests.key_file == str(tmp_path / "lab" / "id")
    (tmp_path / "i.yml").write_text("lab: true\nguests: {username: own, agent: true, known_hosts: k}\n")
    assert load_inventory(tmp_path / "i.yml").guests.username == "own"
