"""A farm whose VMs have a vGPU and a PVRDMA adapter each, one VM on each host."""

from __future__ import annotations

_FARM = """
name: guests
timing: {{boot_seconds: 0.2, task_seconds: 0.01, guest_seconds: 0.05}}
clusters: [{{name: gpu-a, drs: fullyAutomated}}]
switches:
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
hosts:
  - name: esx[01:{count:02}].lab.local
    cluster: gpu-a
    nvidia_driver: 535.161.05
    graphics_default: sharedDirect
    gpus: [{{pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}]
    nics:
      - {{name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}}
      - {{name: vmnic4, pci: 0000:5e:00.0, model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}}
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}, {{name: vmk2, port_group: dvpg-rdma}}]
vms:
  - name: trn-[01:{count:02}]
    host: esx[01:{count:02}].lab.local
    folder: ai
    network: dvpg-lan
    power: on
    vgpu: [grid_a100-40c]
    pvrdma: [dvpg-rdma]
    memory_reservation_locked: true
    extra_config: {{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "128"}}
"""


def guest_farm(count, more=""):
    """Return the scenario of this many hosts and VMs `trn-01` …; `more` are lines of further VMs."""
    return _FARM.format(count=count) + more
