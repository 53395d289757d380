"""Farms for crossovers: a host without a VM, and VMs with vGPUs or whole devices on the others."""

from __future__ import annotations

COMMON = """
name: crossed
timing: {boot_seconds: 0.2, task_seconds: 0.01, guest_seconds: 0.05, shutdown_seconds: 0.1, vmotion_seconds: 0.05}
clusters: [{name: gpu-a, drs: manual}]
vcenter: {vgpu_vmotion: true}
switches:
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma, vlan: 100}]}
  - {name: dvs-lan, port_groups: [{name: dvpg-lan}]}
"""
NICS = """
    nics:
      - {name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}
      - {name: vmnic4, pci: 0000:5e:00.0, model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma}]
"""
GPU = "0000:3b:00.0"
VGPUS = f"""{COMMON}
hosts:
  - name: esx[01:05].lab.local
    cluster: gpu-a
    nvidia_driver: 535.161.05
    graphics_default: sharedDirect
    gpus: [{{pci: "{GPU}", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}]{NICS}
vms:
  - name: trn-[01:04]
    host: esx[01:04].lab.local
    network: dvpg-lan
    power: on
    vgpu: [grid_a100-40c]
    pvrdma: [dvpg-rdma]
    memory_reservation_locked: true
    extra_config: {{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "128"}}
"""
WHOLE = f"""{COMMON}
hosts:
  - name: esx[01:05].lab.local
    cluster: gpu-a
    nvidia_driver: 535.161.05
    gpus:
      - {{pci: "{GPU}", board: a100-40gb, device_id: 20f1}}
      - {{pci: "0000:86:00.0", board: a100-40gb, device_id: 20f1}}{NICS}
    ssh: {{running: true, policy: off}}
vms:
  - name: trn-[01:04]
    host: esx[01:04].lab.local
    network: dvpg-lan
    pvrdma: [dvpg-rdma]
    hardware: 19
"""
PASSED = f"""
- hosts: esx[01:04].lab.local
  passthrough: {{"{GPU}": true}}
  sriov: {{"0000:5e:00.0": 2}}
- hosts: esx05.lab.local
  passthrough: {{"0000:86:00.0": true}}
  sriov: {{"0000:5e:00.0": 2}}
- vms: trn-[01:03]
  pci_devices: [{{host_device: "{GPU}"}}]
- vms: trn-04
  pci_devices: [{{vendor: 10de, device: 20f1}}]
- vms: trn-01,trn-02,trn-04
  adapters: [{{type: sriov, port_group: dvpg-rdma}}]
- vms: trn-03
  adapters: [{{type: sriov, port_group: dvpg-rdma, physical_function: "0000:5e:00.0"}}]
"""
