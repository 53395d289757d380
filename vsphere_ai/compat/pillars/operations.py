"""Rules of operational excellence: the environment is as written down, ready to be changed, and measured."""

from __future__ import annotations

from vsphere_ai.compat.pillars.base import PillarCase, farm_rule, host_rule, set_rule, vm_rule
from vsphere_ai.fabric import pci
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import counted

MOST_DAYS = 30
"""Days after which a benchmark says little about the environment; NVIDIA advises one every 3 to 4 weeks."""
READINESS = "NVIDIA Cluster Readiness Engine, FAQ (burn-in every 3 to 4 weeks)"


@farm_rule(
    "operations.drift",
    "Environment as the playbook says",
    source="Azure Well-Architected Framework, Operational Excellence, Infrastructure as code",
    verdicts={
        "pass": "the playbook changes nothing",
        "warn": "it changes something",
        "unknown": "no playbook is named",
    },
    by_hand="the playbook that it differs from corrects it: `vsphere-ai apply`",
)
def drift(case: PillarCase) -> Finding | None:
    """The environment is as the playbook says: planning it finds nothing to change."""
    found = case.records.drift
    if found is None:
        return case.unknown("no playbook was compared", remedy="vsphere-ai assess PLAYBOOK")
    if not found:
        return case.passed("nothing differs from the playbook", ("plan", "empty"))
    first = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return case.warned(
        f"{counted(len(found), 'setting')} {'differs' if len(found) == 1 else 'differ'}: {first}",
        ("plan", len(found)),
        remedy="vsphere-ai apply PLAYBOOK",
    )


@vm_rule(
    "operations.numa-fit",
    "VM fits into NUMA nodes",
    source="vSphere Resource Management 7.0, Using NUMA Systems with ESXi",
    verdicts={"pass": "vCPUs and memory fit into one node, or divide evenly among nodes", "warn": "they do not"},
    reads={
        "HostSystem": (pci.NUMA, "hardware.memorySize", "summary.hardware.numCpuCores"),
        "VirtualMachine": ("config.hardware.numCPU", "config.hardware.memoryMB"),
    },
    by_hand="how large a VM is is a choice of its owner: `tuning`, or `vm_set`",
)
def numa_fit(case: PillarCase) -> Finding | None:
    """A training VM fits into one NUMA node of its host, or takes several of them whole or in equal parts."""
    host = case.farm.view.estate.host_of(case.ref)
    if host is None:
        return None
    nodes = int(case.need(pci.NUMA, host.ref).get("numNodes") or 0)
    cores, memory = int(case.need("summary.hardware.numCpuCores", host.ref)), case.need("hardware.memorySize", host.ref)
    cpus, size = int(case.need("config.hardware.numCPU")), int(case.need("config.hardware.memoryMB"))
    if nodes < 1 or cores < nodes:
        return case.unknown(f"{host.name} shows {nodes} NUMA nodes and {cores} cores")
    per_node, node_mb = cores // nodes, int(memory) // nodes // 2**20
    needed = max(-(-cpus // per_node), -(-size // node_mb))
    seen = ("hardware.numaInfo", f"{nodes} nodes of {per_node} cores and {node_mb // 1024} GB")
    mine = ("config.hardware", f"{cpus} vCPUs and {size // 1024} GB")
    if needed <= 1:
        return case.passed("fits into one NUMA node", seen, mine)
    if needed <= nodes and cpus % needed == 0:
        return case.passed(f"divides evenly among {needed} NUMA nodes", seen, mine)
    remedy = f"take at most {per_node} vCPUs and {node_mb // 1024} GB, or a multiple for several nodes"
    return case.warned(
        "vCPUs that do not divide evenly among the NUMA nodes that are needed", seen, mine, remedy=remedy
    )


@host_rule(
    "operations.in-service",
    "Host in service",
    source="vSphere Web Services API reference, HostRuntimeInfo",
    verdicts={"pass": "connected, not in maintenance mode", "warn": "in maintenance mode", "fail": "not connected"},
    uses=("host.connected", "host.maintenance"),
    by_hand="why a host is out of service is not known here",
)
def in_service(case: PillarCase) -> Finding | None:
    """The host is connected and not in maintenance mode."""
    return case.reported()


@host_rule(
    "operations.reboot-pending",
    "No restart pending",
    source="vSphere Web Services API reference, HostListSummary.rebootRequired",
    verdicts={"pass": "none", "warn": "a change takes effect at the next restart"},
    uses=("host.reboot-pending",),
    by_hand="a restart without a change is not written in a playbook",
)
def reboot_pending(case: PillarCase) -> Finding | None:
    """No change of the host waits for a restart: what is set is what is in effect."""
    return case.reported()


@vm_rule(
    "operations.no-question",
    "No question pending",
    source="vSphere Web Services API reference, VirtualMachineRuntimeInfo.question",
    verdicts={"pass": "none", "fail": "a question waits for an answer"},
    uses=("vm.question",),
    by_hand="what to answer is a choice of the owner of the VM",
)
def no_question(case: PillarCase) -> Finding | None:
    """The VM waits for no answer: while it does, it stands still."""
    return case.reported()


@set_rule(
    "operations.benchmark-recent",
    "Recent benchmark",
    source=READINESS,
    verdicts={
        "pass": f"measured in the last {MOST_DAYS} days",
        "warn": "measured earlier",
        "unknown": "no benchmark of the set is recorded",
    },
    by_hand="it takes a benchmark: `vsphere-ai bench nccl`",
)
def benchmark_recent(case: PillarCase) -> Finding | None:
    """The fabric of a set was measured recently: what was true at hand-over may have changed since."""
    found = case.records.measured.get(case.name)
    if found is None:
        return case.unknown("no benchmark of the set is recorded", remedy="vsphere-ai bench nccl PLAYBOOK")
    days = (case.records.today - found.taken).days
    seen = (found.name, found.taken.isoformat())
    if days > MOST_DAYS:
        return case.warned(f"the newest benchmark is {days} days old", seen, remedy="vsphere-ai bench nccl PLAYBOOK")
    return case.passed(f"measured {counted(days, 'day')} ago", seen)
