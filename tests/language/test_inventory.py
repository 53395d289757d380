from __future__ import annotations

import pytest
from support.raising import refused

from vsphere_ai.errors import InputError, UsageError
from vsphere_ai.language.inventories.inventory import HostGroup, SshSettings, VmSelector, load_inventory, split_peer

FULL = """\
vcenters:
  prod:
    address: vcenter.example.com
    username: svc@vsphere.local
    password: "file:secrets/password"
    tls: {ca_file: ca.pem}
  edge:
    address: 2001:db8::5
    port: 8443
    username: svc
    password: env:EDGE
    tls: {fingerprint: "SHA256:AB:CD%s"}
hosts:
  gpu_hosts: {cluster: gpu-a}
  spare: ["esx-[09:10]", "!esx-10"]
  one: esx-01
vms:
  training: {folder: ai/training, names: [train-*]}
ssh:
  key_file: ~/id_ed25519
  known_hosts: /etc/known_hosts
  port: 2222
  start_service: never
  addresses: {esx-01: "10.0.0.1:22022", esx-02: "[2001:db8::1]:2022", esx-03: 10.0.0.3}
""" % (":00" * 30)

LAB = """\
vcenters:
  lab: {address: 127.0.0.1, port: 4443, username: u, password: "file:password", tls: {ca_file: ca.pem}}
ssh: {username: root, password: "file:ssh_password", known_hosts: known_hosts, addresses: {esx01: "127.0.0.1:2201"}}
hosts: {gpu_hosts: {cluster: gpu-a}, rest: {names: [esx03]}}
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_everything_an_inventory_can_say(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/op")
    inventory = load_inventory(write(tmp_path / "farm" / "inventory.yml", FULL))
    base = tmp_path / "farm"
    prod, edge = inventory.vcenters["prod"], inventory.vcenters["edge"]
    assert (prod.name, prod.address, prod.port, prod.username) == (
        "prod",
        "vcenter.example.com",
        443,
        "svc@vsphere.local",
    )
    assert prod.password == f"file:{base}/secrets/password"
    assert (prod.tls.ca_file, prod.tls.fingerprint) == (f"{base}/ca.pem", None)
    assert (edge.address, edge.port, edge.password) == ("2001:db8::5", 8443, "env:EDGE")
    assert edge.tls.fingerprint == "abcd" + "00" * 30
    assert inventory.hosts["gpu_hosts"].selector == HostGroup(cluster="gpu-a")
    assert inventory.hosts["spare"].selector == HostGroup(names=("esx-[09:10]", "!esx-10"))
    assert inventory.groups("host")["one"].selector == HostGroup(names=("esx-01",))
    assert inventory.groups("vm")["training"].selector == VmSelector(folder="ai/training", names=("train-*",))
    assert (inventory.hosts["one"].mark.line, inventory.hosts["one"].mark.column) == (16, 3)
    assert inventory.ssh
    assert inventory.ssh.key_file == "/home/op/id_ed25519"
    assert inventory.ssh.known_hosts == "/etc/known_hosts"
    assert [inventory.ssh.endpoint(f"esx-0{n}") for n in (1, 2, 3, 4)] == [
        ("10.0.0.1", 22022),
        ("2001:db8::1", 2022),
        ("10.0.0.3", 2222),
        ("esx-04", 2222),
    ]
    assert inventory.ssh.endpoint("esx-04.example.com.") == ("esx-04.example.com.", 2222), "a complete name"
    assert (inventory.base, inventory.lab) == (base, False)


def test_what_an_inventory_leaves_out(tmp_path):
    text = "vcenters: {a: {address: a, username: u, password: 'env:P'}}\nssh: {password: 'env:P', known_hosts: k}\n"
    inventory = load_inventory(write(tmp_path / "i.yml", text))
    assert inventory.ssh == SshSettings(password="env:P", known_hosts=str(tmp_path / "k"))
    assert (inventory.ssh.username, inventory.ssh.port, inventory.ssh.start_service) == ("root", 22, "apply")
    assert inventory.vcenters["a"].tls.ca_file is None
    without = load_inventory(write(tmp_path / "j.yml", text.splitlines()[0]))
    assert without.ssh is None
    assert without.hosts == without.vms == {}


def test_a_lab_inventory_takes_its_connections_from_the_running_lab(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "lab"))
    path = write(tmp_path / "inventory.yml", "lab: true\nhosts: {gpu_hosts: [esx01]}\nvms: {training: [train-*]}\n")
    with refused(UsageError, "lab.not-running") as caught:
        load_inventory(path)
    assert caught.value.remedy == "start it with: vsphere-ai lab up"
    write(tmp_path / "lab" / "connection.yml", LAB)
    inventory = load_inventory(path)
    assert inventory.lab
    assert inventory.vcenters["lab"].password == f"file:{tmp_path}/lab/password"
    assert inventory.ssh
    assert inventory.ssh.endpoint("esx01") == ("127.0.0.1", 2201)
    assert inventory.hosts["gpu_hosts"].selector == HostGroup(names=("esx01",))
    assert set(inventory.hosts) == {"gpu_hosts", "rest"}
    assert set(inventory.vms) == {"training"}


def test_faults_of_a_lab_inventory_are_named_before_a_lab_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "none"))
    with refused(InputError, "input", "'host'"):
        load_inventory(write(tmp_path / "inventory.yml", "lab: true\nhost: {}\n"))


def test_a_damaged_connection_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path))
    write(tmp_path / "connection.yml", "lab: true\n")
    with pytest.raises(UsageError, match="does not say how to reach the lab"):
        load_inventory(write(tmp_path / "inventory.yml", "lab: true\n"))


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("esx01", ("esx01", 22)),
        ("esx01.lab:2201", ("esx01.lab", 2201)),
        ("[::1]:2201", ("::1", 2201)),
        ("[::1]", ("::1", 22)),
        ("2001:db8::1", ("2001:db8::1", 22)),
    ],
)
def test_an_address_with_a_port_is_taken_apart(text, peer):
    assert split_peer(text, 22) == peer


@pytest.mark.parametrize("text", ["", ":22", "a:0", "a:65536", "a b", "ssh://a", "a:b", "[]:22", "a/b", "-a"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match=r"address|port"):
        split_peer(text, 22)
