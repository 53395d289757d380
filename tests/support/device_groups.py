"""A farm with vSphere 8.0 whose hosts offer vendor device groups: four GPUs in two NVLink pairs, and two whole ones."""

from __future__ import annotations

PAIR = "Nvidia:2@nvidia_h100l-94c%NVLink"
FOUR = "Nvidia:4@nvidia_h100l-94c"
WHOLE = "Nvidia:2@10de:2321"
SCENARIO = f"""
name: groups
vcenter: {{version: 8.0.2, build: 22617221, api: 8.0.2.0}}
timing: {{boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}]
switches: [{{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.54.16
    memory_gb: 2048
    graphics_default: sharedDirect
    gpus:
      - {{pci: 0000:3b:00.0, board: h100-94gb, graphics_type: sharedDirect, link: a}}
      - {{pci: 0000:5e:00.0, board: h100-94gb, graphics_type: sharedDirect, link: b}}
      - {{pci: 0000:86:00.0, board: h100-94gb, graphics_type: sharedDirect, link: a}}
      - {{pci: 0000:af:00.0, board: h100-94gb, graphics_type: sharedDirect, link: b}}
    nics: [{{name: vmnic0, pci: 0000:18:00.0, switch: dvs-lan}}]
    device_groups:
      - {{name: "{PAIR}", vgpu: nvidia_h100l-94c}}
      - {{name: "{FOUR}", vgpu: nvidia_h100l-94c, count: 4}}
    ssh: {{running: true, policy: on}}
  - name: esx02.lab.local
    cluster: gpu-a
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.54.16
    gpus:
      - {{pci: 0000:3b:00.0, board: h100-94gb, link: a}}
      - {{pci: 0000:86:00.0, board: h100-94gb, link: a}}
    nics: [{{name: vmnic0, pci: 0000:18:00.0, switch: dvs-lan}}]
    device_groups: [{{name: "{WHOLE}", device: "10de:2321"}}]
    ssh: {{running: true, policy: on}}
vms:
  - {{name: train-01, host: esx01.lab.local, power: on, hardware: 20, network: dvpg-lan}}
  - {{name: train-02, host: esx02.lab.local, power: on, hardware: 20, network: dvpg-lan}}
  - {{name: train-04, host: esx01.lab.local, power: on, hardware: 20, network: dvpg-lan}}
"""
