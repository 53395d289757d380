"""A farm with a template, an inventory with pools, and the play of a set of VMs on them."""

from __future__ import annotations

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
