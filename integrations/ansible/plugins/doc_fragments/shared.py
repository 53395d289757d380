"""Documentation of the options that both modules have."""

from __future__ import annotations


class ModuleDocFragment:
    """The options of module_utils/command.py."""

    DOCUMENTATION = r"""
options:
  executable:
    description:
      - The program vsphere-ai on the controller.
      - Without it the environment variable E(VSPHERE_AI) names it, else it is looked for on E(PATH).
    type: path
  chdir:
    description: The folder in which it runs and looks for its inventory; without it that of the Ansible playbook.
    type: path
  inventory:
    description: The inventory of vsphere-ai, not that of Ansible; it is looked for without this.
    type: path
  vcenter:
    description: Which vCenter of the inventory, where it has several.
    type: str
  limit:
    description: Only these datacenters, hosts or VMs, as a pattern.
    type: str
  start_ssh:
    description: Allow to start a stopped SSH service of a host for reading; it is stopped again.
    type: bool
    default: false
  parallel:
    description: How many hosts and steps at a time.
    type: int
requirements: [vsphere-ai on the controller]
"""
