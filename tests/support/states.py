"""A small farm with a VM in each state that stands in the way of a change, as a scenario of the lab."""

STATES = """\
name: states
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
hosts:
  - name: esx[01:02].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    gpus: [{pci: "0000:3b:00.0", board: a100-40gb}]
    ssh: {running: true}
vms:
  - {name: plain, host: esx01.lab.local, folder: ai}
"""
DRAIN = STATES.replace("name: states", "name: drain").replace("folder: ai}", "folder: ai, power: on}")
"""The same with its VM running."""
AGENTS = """\
  - {name: "vCLS (1)", host: esx01.lab.local, power: on, agent: vcls, memory_gb: 1, tools: running}
  - {name: guard-01, host: esx01.lab.local, power: on, agent: com.vmware.vim.eam, memory_gb: 1}
"""


def states(*vms: str) -> str:
    """Return the farm with VMs besides the plain one; each is the inside of a mapping: ``name: x, ft: true``."""
    return STATES + "".join(f"  - {{host: esx01.lab.local, folder: ai, {vm}}}\n" for vm in vms)
