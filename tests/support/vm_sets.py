"""A farm with a template, an inventory with pools, and the play of a set of VMs on them."""

from __future__ import annotations

import json
import uuid

from support.bookkeeping import is_bookkeeping

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPrxZoZZQhnUBg3MJrEqHEH5Oe5XoD7XeUaGsB3bnbn ops@lab"
FARM = """
name: sets
timing: {boot_seconds: 0.5, task_seconds: 0.01, shutdown_seconds: 0.05, guest_seconds: 0.1}
clusters: [{name: gpu-a, drs: fullyAutomated}]
switches:
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma, vlan: 100}]}
  - name: dvs-lan
    port_groups: [{name: dvpg-lan}, {name: dvpg-storage, vlan: 30}, {name: dvpg-dhcp, vlan: 40, dhcp: 10.40.0.0/24}]
hosts:
  - name: esx[01:02].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    gpus:
      - {pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1}
      - {pci: 0000:86:00.0, board: a100-40gb, device_id: 20f1}
    nics:
      - {name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}
      - {name: vmnic4, pci: 0000:5e:00.0, model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma}]
    ssh: {running: true, policy: off}
vms:
  - {name: ubuntu-22.04, host: esx01.lab.local, folder: ai, network: dvpg-lan, template: true, cpus: 8, memory_gb: 32}
  - {name: other-01, host: esx01.lab.local, folder: ai, network: dvpg-lan, power: on}
"""
INVENTORY = """
lab: true
pools:
  mgmt: {subnet: 10.20.0.0/24, ranges: [10.20.0.11-10.20.0.20], gateway: 10.20.0.1, quarantine: 0}
  storage: {subnet: 10.30.0.0/24, ranges: [10.30.0.11-10.30.0.20], quarantine: 0}
  rail1: {subnet: 172.16.1.0/24, ranges: [172.16.1.10-172.16.1.19], gateway: 172.16.1.254, quarantine: 0}
"""
PLAIN_HOST = """
  - name: esx03.lab.local
    cluster: gpu-a
    memory_gb: 256
    nics: [{name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}]
    vmkernel: [{name: vmk0, port_group: dvpg-lan}]
vms:"""
"""A third host, without GPUs and RDMA, which ends the list of hosts of the farm."""
HOSTS = """
- hosts: esx[01:02].lab.local
  graphics: {default_type: shared_direct}
  pvrdma_host: {vmknic: vmk2, firewall: true}
  rolling: {evacuate: power_off, max_unavailable: 2}
"""


def play(names="train-[01:04]", *, name="train", more="", nics=3, cards=(), **fields):
    """The play of a set: NICs for management, storage and RDMA, or the first of them; or these `cards`."""
    listed = cards or [
        "{name: mgmt, port_group: dvpg-lan, role: mgmt, primary: true, addresses: mgmt}",
        "{name: storage, port_group: dvpg-storage, role: storage, addresses: storage}",
        "{name: rdma1, port_group: dvpg-rdma, type: pvrdma, protocol: rocev2, role: rdma, rail: 1, addresses: rail1}",
    ]
    said = {"name": name, "source": "ubuntu-22.04", "cluster": "gpu-a", "folder": "ai", **fields}
    lines = "".join(f"    {key}: {value}\n" for key, value in said.items() if value is not None)
    cards = "".join(f"      - {nic}\n" for nic in listed[:nics])
    users = f"    users: [{{name: ops, ssh_authorized_keys: ['{KEY}']}}]\n"
    return f"\n- vms: {names!r}\n  vm_set:\n{lines}    nics:\n{cards}{users}{more}"


FULL = HOSTS + play(cpus=16, memory_gb=64, more="  hardware: {version: 19}\n  vgpu: [grid_a100-10c]\n")


class Sets:
    def __init__(self, cli, lab, inventory):
        self.cli, self.lab, self.inventory = cli, lab, inventory

    def __call__(self, command, *more):
        return self.cli(command, *more, "-i", self.inventory)

    @property
    def names(self):
        return set(self.vms())

    def addresses(self):
        """What the ledger of addresses holds: `{(set, index, NIC): address}`."""
        assert self("ipam", "show", "-o", "json") == 0, self.cli.err
        return {(e["set"], e["index"], e["nic"]): e["address"] for e in json.loads(self.cli.out)["leases"]}

    def applied(self, text, *more):
        """Apply a playbook; the plan after it is empty, and a second apply changes nothing."""
        playbook = self.cli.file(text)
        assert self("apply", playbook, "--yes", *more) == 0, self.cli.out + self.cli.err
        before = len(self.ledger())
        assert self("plan", playbook, "--detailed-exitcode") == 0, self.cli.out
        assert self("apply", playbook, "--yes") == 0
        assert len(self.ledger()) == before

    def ledger(self, target=None, call=None):
        """What the lab has changed, without the folders of the lock."""
        folders = ("CreateFolder", "Rename_Task")
        everything = [e for e in self.lab.get("/lab/ledger")["entries"] if e["call"] not in folders]
        everything = [e for e in everything if not is_bookkeeping(e)]
        found = [e for e in everything if e["call"] != "Destroy_Task" or "-" in e["object"]]
        return [e for e in found if target in (None, e["object"]) and call in (None, e["call"])]

    def vms(self):
        return {vm["name"]: vm for vm in self.lab.get("/lab/farm")["vms"]}

    def refused(self, text):
        """The rules of the problems of a plan; nothing was changed."""
        before = len(self.ledger())
        self("plan", self.cli.file(text), "-o", "json")
        found = {p["rule"] for p in json.loads(self.cli.out)["problems"]}
        assert len(self.ledger()) == before
        return found


def options(soap, name):
    return {o.key: o.value for o in soap.vm(name).config.extraConfig}


def set_options(soap, name, **spec):
    changed = [soap.vim.option.OptionValue(key=k, value=v) for k, v in spec.pop("options", {}).items()]
    soap.wait(soap.vm(name).ReconfigVM_Task(soap.vim.vm.ConfigSpec(extraConfig=changed, **spec)))


def disowned(soap, name):
    """Make a VM one that was never in a set: an identity of its own, and no mark."""
    marks = {key: "" for key in options(soap, name) if key.startswith("vsphere-ai.")}
    set_options(soap, name, options=marks, instanceUuid=str(uuid.uuid4()))
