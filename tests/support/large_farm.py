"""A vCenter of many VMs, of which a playbook means 64: on 16 hosts with GPUs, and all others on hosts without."""

from __future__ import annotations

TRAINING, GPU_HOSTS, PLAIN_HOSTS = 64, 16, 84
_FARM = """\
name: farm-of-{vms}
timing: {{boot_seconds: 0.2, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}, {{name: others}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma, vlan: 100}}]}}
hosts:
  - name: gpu[01:{gpu_hosts:02}].lab.local
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
  - name: esx[001:{plain_hosts:03}].lab.local
    cluster: others
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
vms:
  - {{name: "train-[01:{training:02}]", host: "gpu[01:{gpu_hosts:02}].lab.local", folder: ai, network: dvpg-lan}}
  - {{name: "vm-[00001:{others:05}]", host: "esx[001:{plain_hosts:03}].lab.local", power: on, network: dvpg-lan}}
"""
PLAYBOOK = f"""\
- hosts: gpu[01:{GPU_HOSTS:02}].lab.local
  pvrdma_host: {{vmknic: vmk2, firewall: true}}
- vms: train-[01:{TRAINING:02}]
  hardware: {{version: 19}}
  vgpu: [grid_a100-3-20c]
  pvrdma: [{{port_group: dvpg-rdma, protocol: rocev2}}]
"""


def scenario(vms: int) -> str:
    """Return a scenario with so many VMs, those of the playbook among them."""
    return _FARM.format(vms=vms, training=TRAINING, others=vms - TRAINING, gpu_hosts=GPU_HOSTS, plain_hosts=PLAIN_HOSTS)
