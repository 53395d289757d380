"""A playbook for every kind, and one of all kinds together, for the farm of the lab."""

from __future__ import annotations

ONE, TWO = "- hosts: esx01.lab.local\n  rolling: {evacuate: power_off}\n", "- hosts: esx02.lab.local\n  "
READY = "- hosts: esx0[1:3].lab.local\n  pvrdma_host: {vmknic: vmk2, firewall: true}\n"
SHARED = f"{ONE}  graphics: {{default_type: shared_direct}}\n"
FUNCTIONS = '- hosts: esx02.lab.local\n  sriov: {"0000:5e:00.0": 4}\n  rolling: {evacuate: power_off}\n'
THROUGH = FUNCTIONS + '  passthrough: {"0000:86:00.0": true}\n'

# each kind by itself; where it cannot be without others, these come along
ALONE = {
    "switches": "- datacenters: DC0\n  switches: {dvs-new: {mtu: 9000, uplinks: [Uplink 1]}}\n",
    "port_groups": "- datacenters: DC0\n  port_groups: {dvpg-new: {switch: dvs-rdma, vlan: 7}}\n",
    "uplinks": f"{ONE}  uplinks: {{dvs-rdma: {{}}}}\n",
    "vmkernel": f"{ONE}  vmkernel: {{dvpg-rdma: {{mtu: 4500, pvrdma: true}}}}\n",
    "pvrdma_host": READY,
    "roce": f"{ONE}  roce: {{pfc_priority: 3, trust: dscp, dscp: 26}}\n",
    "nics": f"{ONE}  nics: {{vmnic4: {{pause: {{rx: true, tx: false}}}}}}\n",
    "graphics": SHARED,
    "mig": f"{SHARED}  mig: {{mode: enabled}}\n",
    "sriov": FUNCTIONS,
    "passthrough": THROUGH,
    "kernel": f"{ONE}  kernel: {{ats_support: true}}\n",
    "hardware": "- vms: train-04\n  hardware: {version: 19, memory_reservation: full}\n",
    "vgpu": f"{SHARED}- vms: train-01\n  hardware: {{version: 19}}\n  vgpu: [grid_a100-10c]\n",
    "pvrdma": f"{READY}- vms: train-03\n  pvrdma: [{{port_group: dvpg-rdma}}]\n",
    "adapters": "- vms: train-03\n  adapters: [{port_group: dvpg-lan}, {type: e1000e, port_group: dvpg-lan}]\n",
    "pci_devices": f'{THROUGH}- vms: train-04\n  pci_devices: [{{host_device: "0000:86:00.0"}}]\n',
    "gpudirect": f"{THROUGH}  kernel: {{ats_support: true}}\n"
    '- vms: train-04\n  hardware: {version: 19}\n  pci_devices: [{host_device: "0000:86:00.0"}]\n'
    "  adapters: [{type: sriov, port_group: dvpg-rdma}]\n  gpudirect: true\n",
    "tuning": "- vms: train-04\n  tuning: {cpus: 8, cores_per_socket: 4, latency_sensitivity: high,\n"
    "           extra_config: {svga.present: 'FALSE'}}\n",
}
TOGETHER = """
- datacenters: DC0
  switches: {dvs-rdma: {mtu: 9000, nioc: true}}
  port_groups: {dvpg-rdma: {active_uplinks: [Uplink 1]}, dvpg-new: {switch: dvs-rdma, vlan: 7}}

- hosts: esx0[1:3].lab.local
  uplinks: {dvs-rdma: {Uplink 1: vmnic4}}
  vmkernel: {dvpg-rdma: {mtu: 9000, pvrdma: true}}
  pvrdma_host: {firewall: true}

- hosts: esx01.lab.local
  rolling: {evacuate: power_off}
  graphics: {default_type: shared_direct}
  mig: {mode: disabled}
  roce: {version: rocev2, pfc_priority: 3, trust: dscp, dscp: 26}
  nics: {vmnic1: {speed: auto}}
  sriov: {"0000:5e:00.0": 4}

- hosts: esx02.lab.local
  rolling: {evacuate: power_off}
  kernel: {ats_support: true}
  passthrough: {"0000:86:00.0": true}
  sriov: {"0000:5e:00.0": 4}

- vms: train-01
  hardware: {version: 19}
  vgpu: [grid_a100-10c]
  pvrdma: [{port_group: dvpg-rdma, protocol: rocev2}]
  adapters: [{port_group: dvpg-lan}, {port_group: dvpg-new}, {type: sriov, port_group: dvpg-rdma}]
  tuning: {numa_affinity: [0]}

- vms: train-04
  hardware: {version: 19}
  pci_devices: [{host_device: "0000:86:00.0"}]
  adapters: [{type: sriov, port_group: dvpg-rdma}]
  gpudirect: true
  tuning: {cpus: 8, cores_per_socket: 4, latency_sensitivity: high}
"""
