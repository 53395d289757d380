"""CPU of planning a set of VMs that do not exist yet, against planning as many that do, in a large vCenter."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from common import Case, Row, Size, tool
from estates import lab
from run import alone

THERE_ALREADY, NEW_ONES = "plan of existing VMs", "plan of VMs of a set, to be made"
FARM = """\
name: sets-in-{vms}
timing: {{boot_seconds: 0.2, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}, {{name: others}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
hosts:
  - name: gpu[01:{gpu:02}].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    graphics_default: sharedDirect
    gpus:
      - {{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}
      - {{pci: "0000:86:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}
    nics:
      - {{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}
      - {{name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}}
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}, {{name: vmk2, port_group: dvpg-rdma}}]
    ssh: {{running: true, policy: on}}
  - name: esx[001:{plain:03}].lab.local
    cluster: others
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
vms:
  - {{name: ubuntu, host: gpu01.lab.local, folder: ai, network: dvpg-lan, template: true}}
  - {{name: "there-[001:{count:03}]", host: "gpu[01:{gpu:02}].lab.local", folder: ai, network: dvpg-lan}}
  - {{name: "vm-[00001:{others:05}]", host: "esx[001:{plain:03}].lab.local", power: on, network: dvpg-lan}}
"""
PLAY = """\
- hosts: gpu[01:{gpu:02}].lab.local
  pvrdma_host: {{vmknic: vmk2, firewall: true}}
- vms: {names}
  hardware: {{version: 19}}
  vgpu: [grid_a100-10c]
{rest}"""
PVRDMA = "  pvrdma: [{port_group: dvpg-rdma, protocol: rocev2}]\n"
VM_SET = """\
  vm_set:
    name: new
    source: ubuntu
    cluster: gpu-a
    nics:
      - {name: mgmt, port_group: dvpg-lan, primary: true, addresses: mgmt}
      - {name: rdma1, port_group: dvpg-rdma, type: pvrdma, protocol: rocev2, addresses: rail1}
"""
INVENTORY = """\
lab: true
pools:
  mgmt: {subnet: 10.99.0.0/16, gateway: 10.99.0.1}
  rail1: {subnet: 172.16.0.0/16}
"""


def measure(size: Size, times: int) -> list[Row]:
    """Plan both in turn: four VMs for each of at most 50 hosts with GPUs."""
    gpu = max(1, min(50, size.hosts // 2))
    count = min(200, 4 * gpu)
    farm = {"vms": size.vms, "gpu": gpu, "plain": size.hosts - gpu, "count": count, "others": size.vms - count - 1}
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
        folder = Path(name)
        with lab(size, folder / "lab", FARM.format(**farm)) as estate:
            inventory = folder / "inventory.yml"
            inventory.write_text(INVENTORY, "utf-8")
            works = {}
            for who, names, rest in ((THERE_ALREADY, "there", PVRDMA), (NEW_ONES, "new", VM_SET)):
                file = folder / f"{names}.yml"
                file.write_text(PLAY.format(gpu=gpu, names=f"{names}-[001:{count:03}]", rest=rest), "utf-8")
                works[who] = partial(tool, "plan", "-i", inventory, file, env=estate.env)
            case = Case("sets", f"{count} VMs", size, "cpu", {THERE_ALREADY: "limit", NEW_ONES: "ours"})
            return case.compare(works, times)


if __name__ == "__main__":
    alone(__doc__, measure)
