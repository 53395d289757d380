"""Farms of 4, 256 and 1,000 VMs with hostile names, read from a lab once, for the pages of `serve`."""

from __future__ import annotations

import json
import os

import pytest

from support.labs import started
from vsphere_ai import app
from vsphere_ai.lab.front import process

FARMS = {4: 2, 256: 32, 1000: 125}
"""VMs of a farm, and its hosts."""
HOSTILE = "<script>alert(1)</script>'\"&amp;"
_FARM = """\
name: farm-of-{vms}
timing: {{boot_seconds: 0.2, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
hosts:
  - name: gpu[001:{hosts:03}].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    graphics_default: sharedDirect
    gpus:
      - {{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}}
      - {{pci: "0000:86:00.0", board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}}
    nics:
      - {{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}
      - {{name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}}
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}, {{name: vmk2, port_group: dvpg-rdma}}]
    ssh: {{running: true, policy: on}}
    pvrdma_vmknic: vmk2
vms:
  - name: "train-[0001:{half:04}]"
    host: "gpu[001:{hosts:03}].lab.local"
    folder: ai
    network: dvpg-lan
    vgpu: [grid_a100-3-20c]
    pvrdma: [dvpg-rdma]
    memory_reservation_locked: true
    power: on
  - {{name: "train-[{next:04}:{vms:04}]", host: "gpu[001:{hosts:03}].lab.local", folder: ai, network: dvpg-lan}}
  - {{name: {hostile}, host: gpu001.lab.local, folder: ai, network: dvpg-lan}}
"""
_PLAY = """\
- hosts: gpu[001:{hosts:03}].lab.local
  pvrdma_host: {{vmknic: vmk2, firewall: true}}
- vms: train-[0001:{half:04}]
  hardware: {{version: 19}}
  vgpu: [grid_a100-3-20c]
  pvrdma: [{{port_group: dvpg-rdma, protocol: rocev2}}]
"""


def read(vms, folder):
    """Return a farm in which half of the VMs, 128 at most, have a vGPU and RDMA, and the drift of some."""
    half = min(vms // 2, 128)
    text = _FARM.format(vms=vms, hosts=FARMS[vms], half=half, next=half + 1, hostile=json.dumps(HOSTILE))
    (folder / "scenario.yml").write_text(text, encoding="utf-8")
    (folder / "inventory.yml").write_text("lab: true\n", encoding="utf-8")
    wanted = folder / "wanted <b>&.yml"
    wanted.write_text(_PLAY.format(hosts=FARMS[vms], half=min(half, 32)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_STATE_DIR", str(folder / "state"))
        patch.setenv("VSPHERE_AI_LAB_DIR", str(folder / "lab"))
        os.mkdir(folder / "state", 0o700)
        os.mkdir(folder / "lab", 0o700)
        lab = started(folder / "lab", folder / "scenario.yml")
        try:
            estate = app.EstateRequest(folder / "inventory.yml", ask_hosts=False)
            return app.read_farm(app.FarmRequest(estate, (wanted,)))
        finally:
            process.stop(lab.directory)
