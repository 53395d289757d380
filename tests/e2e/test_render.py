"""Objects for pods on VMs of the simulated farm: from a guest's own report to a manifest that passes its check."""

from __future__ import annotations

import json
import time

import pytest
import yaml
from pyVmomi import vim
from support.places import INVENTORY

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
    end = time.monotonic() + 20
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
    assert cli("render", family, "train-04", "-i", inventory, "--format", "json") == 0
    assert json.loads(cli.out)["objects"] == documents
    assert len(ledger()) == before
    text = json.dumps(documents)
    assert ("node-4" in text, "rail1" in text) == (True, True)


def test_a_vm_that_holds_no_block_is_refused_and_a_name_is_suggested(cli, inventory):
    assert cli("render", "spiderpool", "train-01", "-i", inventory, "--format", "json") == 1
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
