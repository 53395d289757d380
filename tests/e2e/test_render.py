"""Objects for pods on VMs of the simulated farm: from a guest's own report to a manifest that passes its check."""

from __future__ import annotations

import json
import re
import time

import pytest
import yaml
from pyVmomi import vim
from support.gates import LONG
from support.places import INVENTORY
from support.vm_sets import FARM, KEY
from support.vm_sets import INVENTORY as SETS

pytestmark = pytest.mark.lab
MAC = "00:50:56:00:00:07"
PLAY = f"""
- datacenters: DC0
  port_groups:
    dvpg-rdma: {{security: {{forged_transmits: true}}, mac_learning: true}}
- vms: train-04
  adapters: [{{type: vmxnet3, port_group: dvpg-rdma, mac: '{MAC}'}}]
"""
NETWORK = {"rail1": {"match": {"macaddress": MAC}, "set-name": "rail1", "addresses": ["172.16.2.33/23"]}}
METADATA = {"local-hostname": "node-4", "network": {"version": 2, "ethernets": NETWORK}}


@pytest.fixture
def inventory(cli):
    text = INVENTORY.read_text("utf-8")
    return cli.file(f"{text}\npools:\n  rail1: {{subnet: 172.16.2.0/23, per_node: 27}}\n", "pools.yml")


@pytest.fixture
def running(cli, soap):
    """A VM that was given a network file and has come up with it."""
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    vm = soap.vm("train-04")
    option = vim.option.OptionValue(key="guestinfo.metadata", value=json.dumps(METADATA))
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(extraConfig=[option])))
    soap.wait(vm.PowerOnVM_Task())
    end = time.monotonic() + LONG
    while vm.guest.hostName != "node-4" and time.monotonic() < end:
        time.sleep(0.05)
    assert vm.guest.hostName == "node-4"


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("family", ["spiderpool", "network-operator"])
def test_what_a_guest_reports_is_written_and_passes_the_check(cli, inventory, family, ledger):
    before = len(ledger())
    assert cli("render", family, "train-04", "-i", inventory) == 0, cli.err
    written = cli.out
    assert "reported" in written
    documents = [each for each in yaml.safe_load_all(written) if each]
    assert cli("render", family, "--check", cli.file(written, "written.yml")) == 0, cli.out
    assert cli("render", family, "train-04", "-i", inventory, "-o", "json") == 0
    assert json.loads(cli.out)["objects"] == documents
    assert len(ledger()) == before
    text = json.dumps(documents)
    assert ("node-4" in text, "rail1" in text) == (True, True)


def test_a_vm_that_holds_no_block_is_refused_and_a_name_is_suggested(cli, inventory):
    assert cli("render", "spiderpool", "train-01", "-i", inventory, "-o", "json") == 1
    found = json.loads(cli.out)
    assert found["objects"] == []
    assert [each["rule"] for each in found["findings"]] == ["export.nothing"]
    assert cli("render", "spiderpool", "train-0x", "-i", inventory) == 64
    assert cli.error == "usage.limit"


@pytest.mark.parametrize(
    "options",
    [("--interface", "rail1"), ("--interface", "=x"), ("--interface", "dvpg-rdma=a b"), ("--namespace", "A")],
)
def test_an_option_that_means_nothing_is_refused_before_vcenter_is_asked(cli, inventory, options):
    assert cli("render", "spiderpool", "train-01", "-i", inventory, *options) == 64
    assert cli("render", "network-operator", "train-01", "-i", inventory, "--release", "a b") == 64


RAILS = (
    "  rail1: {subnet: 172.16.0.0/22, per_node: 27, node_gateway: 30, routes: [{to: 172.16.0.0/16}], quarantine: 0}\n"
)
SET = f"""
- datacenters: DC0
  port_groups:
    dvpg-rdma: {{security: {{forged_transmits: true}}, mac_learning: true}}
- vms: train-[01:02]
  vm_set:
    name: train
    source: ubuntu-22.04
    cluster: gpu-a
    folder: ai
    nics:
      - {{name: mgmt, port_group: dvpg-lan, primary: true, addresses: mgmt}}
      - {{name: rail1, port_group: dvpg-rdma, mtu: 9000, addresses: rail1}}
    users: [{{name: ops, ssh_authorized_keys: ['{KEY}']}}]
"""


def test_vms_of_a_set_give_the_blocks_that_the_plan_printed_to_their_pods(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    pools = [line for line in SETS.splitlines(keepends=True) if "rail1" not in line]
    inventory = cli.file("".join([*pools, RAILS]), "inventory.yml")
    assert cli("plan", cli.file(SET), "-i", inventory) == 0, cli.err
    planned = re.findall(r"172\.16\.\d+\.\d+/27", cli.out)
    assert set(planned) == {"172.16.0.1/27", "172.16.0.33/27"}
    assert cli("apply", cli.file(SET), "--yes", "-i", inventory) == 0, cli.err
    assert cli("render", "network-operator", "train-*", "-i", inventory, "-o", "json") == 0, cli.out
    (pool,) = (each["spec"] for each in json.loads(cli.out)["objects"] if each["kind"] == "CIDRPool")
    assert pool["staticAllocations"] == [
        {"nodeName": "train-01", "prefix": "172.16.0.0/27", "gateway": "172.16.0.30"},
        {"nodeName": "train-02", "prefix": "172.16.0.32/27", "gateway": "172.16.0.62"},
    ]
    assert pool["routes"] == [{"dst": "172.16.0.0/16"}]
    assert cli("render", "spiderpool", "train-*", "-i", inventory) == 0, cli.err
    assert cli.out.count("Not for pods") == 1
    assert "train-01, train-02: Network adapter 1 on dvpg-lan: the pool mgmt has no per_node" in cli.out
    documents = [each for each in yaml.safe_load_all(cli.out) if each]
    found = [each["spec"]["ips"] for each in documents if each["kind"] == "SpiderIPPool"]
    assert found == [["172.16.0.2-172.16.0.29"], ["172.16.0.34-172.16.0.61"]]
