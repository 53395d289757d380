"""CPU of planning a set of 200 VMs that do not exist yet, against planning 200 that do, in a vCenter of 10,000 VMs.

Run it with ``python bench/sets.py``. Both are planned in turn; exits 1 when the ratio of the medians is more than 1.5.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from large import planned

from vsphere_ai.lab import process

MOST_RATIO = 1.5
FARM = """\
name: sets-in-{vms}
timing: {{boot_seconds: 0.2, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}, {{name: others}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
hosts:
  - name: gpu[01:50].lab.local
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
  - name: esx[001:084].lab.local
    cluster: others
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
vms:
  - {{name: ubuntu, host: gpu01.lab.local, folder: ai, network: dvpg-lan, template: true}}
  - {{name: "there-[001:200]", host: "gpu[01:50].lab.local", folder: ai, network: dvpg-lan}}
  - {{name: "vm-[00001:{others:05}]", host: "esx[001:084].lab.local", power: on, network: dvpg-lan}}
"""
HOSTS = "- hosts: gpu[01:50].lab.local\n  pvrdma_host: {vmknic: vmk2, firewall: true}\n"
MORE = "  hardware: {version: 19}\n  vgpu: [grid_a100-10c]\n"
THERE = f"{HOSTS}- vms: there-[001:200]\n{MORE}  pvrdma: [{{port_group: dvpg-rdma, protocol: rocev2}}]\n"
NEW = f"""{HOSTS}- vms: new-[001:200]
{MORE}  vm_set:
    name: new
    source: ubuntu
    cluster: gpu-a
    nics:
      - {{name: mgmt, port_group: dvpg-lan, primary: true, addresses: mgmt}}
      - {{name: rdma1, port_group: dvpg-rdma, type: pvrdma, protocol: rocev2, addresses: rail1}}
"""
INVENTORY = """\
lab: true
pools:
  mgmt: {subnet: 10.99.0.0/16, gateway: 10.99.0.1}
  rail1: {subnet: 172.16.0.0/16}
"""


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vms", type=int, default=10_000, help="VMs of the vCenter")
    parser.add_argument("--times", type=int, default=3, help="runs of each; the medians are compared")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
        directory = Path(name)
        texts = {"farm.yml": FARM.format(vms=given.vms, others=given.vms - 201), "inventory.yml": INVENTORY}
        for file, text in {**texts, "there.yml": THERE, "new.yml": NEW}.items():
            (directory / file).write_text(text, "utf-8")
        process.start(directory, directory / "farm.yml", exit_with=os.getpid(), timeout=600)
        figures: dict[str, list[float]] = {"there": [], "new": []}
        try:
            for _ in range(given.times):
                for which, own in figures.items():
                    own.append(planned(directory, directory / f"{which}.yml", directory / "inventory.yml")[1])
        finally:
            process.stop(directory)
    there, new = (statistics.median(own) for own in figures.values())
    print(f"plan of 200 VMs that are there, of {given.vms:,}   {there:6.2f} s of CPU")
    print(f"plan of 200 VMs of a set, to be made           {new:6.2f} s of CPU, {new / there:.2f} times as much")
    return int(new / there > MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
