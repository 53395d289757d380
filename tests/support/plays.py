"""How playbooks for the lab's own farm begin: what several kinds need before they can be tried alone."""

from __future__ import annotations

ONE = "- hosts: esx01.lab.local\n  rolling: {evacuate: power_off}\n"
READY = "- hosts: esx0[1:3].lab.local\n  pvrdma_host: {vmknic: vmk2, firewall: true}\n"
SHARED = f"{ONE}  graphics: {{default_type: shared_direct}}\n"
FUNCTIONS = '- hosts: esx02.lab.local\n  sriov: {"0000:5e:00.0": 4}\n  rolling: {evacuate: power_off}\n'
THROUGH = FUNCTIONS + '  passthrough: {"0000:86:00.0": true}\n'
