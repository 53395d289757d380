"""Files of Slurm for the nodes of a job: slurm.conf, gres.conf, topology.conf, and those of pyxis and enroot.

Lines of a file stand below ``### FILE``. CPUs, memory and GPUs of a node are those that its guest shows; where
it was not asked, `slurmd -C` prints them on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.model.names.written_names import host_address, slurm_name, slurm_switch_names
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.exports.slurm_check import FILE
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.machine import NodeMachine

SPINE = "spine"
"""The switch above the leaves, of which nothing else is known."""


def write(plan: LaunchPlan) -> str:
    """Return the files, each below its name."""
    files = {
        "slurm.conf": _slurm(plan),
        "gres.conf": _gres(plan),
        "topology.conf": _topology(plan),
        "plugstack.conf.d/pyxis.conf": iter(["required /usr/local/lib/slurm/spank_pyxis.so"]),
        "enroot.conf": _enroot(),
    }
    texts = {name: list(lines) for name, lines in files.items()}
    return "\n".join(f"{FILE}{name}\n" + "".join(f"{x}\n" for x in lines) for name, lines in texts.items() if lines)


def _slurm(plan: LaunchPlan) -> Iterator[str]:
    yield "GresTypes=gpu"
    yield "SelectType=select/cons_tres"
    yield "ProctrackType=proctrack/cgroup"
    yield "TaskPlugin=task/cgroup,task/affinity"
    if all(_leaves(plan)):
        yield "TopologyPlugin=topology/tree"
    yield "HealthCheckProgram=/usr/sbin/nhc"
    yield "HealthCheckInterval=300"
    yield "HealthCheckNodeState=ANY"
    unknown = [_name(node) for node in plan.nodes if node.vm not in plan.machines]
    if unknown:
        yield f"# CPUs= and RealMemory= of {host_list(unknown)}: as 'slurmd -C' prints them there"
    for node in plan.nodes:
        kind, count = _gpus(plan, node)
        gres = f" Gres=gpu:{kind}{':' if kind else ''}{count}" if count else ""
        at = host_address(f"address of the VM {node.vm}", node.address)
        yield f"NodeName={_name(node)} NodeAddr={at}{_machine(plan.machines.get(node.vm))}{gres} State=UNKNOWN"
    names, name = host_list([_name(node) for node in plan.nodes]), re.sub(r"[^A-Za-z0-9_]", "_", plan.job.training_job)
    yield f"PartitionName={name} Nodes={names} Default=YES MaxTime=INFINITE"


def _gres(plan: LaunchPlan) -> Iterator[str]:
    """Yield the device files of GPUs: AutoDetect knows neither vGPUs' MIG instances nor NVLink."""
    for node in plan.nodes:
        kind, count = _gpus(plan, node)
        if count:
            files = f"[0-{count - 1}]" if count > 1 else "0"
            yield f"NodeName={_name(node)} Name=gpu{f' Type={kind}' if kind else ''} File=/dev/nvidia{files}"


def _name(node: Node) -> str:
    return slurm_name("name of the VM", node.vm)


def _gpus(plan: LaunchPlan, node: Node) -> tuple[str, int]:
    """Return the type and number of a node's GPUs: those that its guest shows, else those that vCenter does."""
    machine = plan.machines.get(node.vm)
    return (machine.gpu_type, len(machine.gpus)) if machine and machine.gpus else ("", len(node.gpus))


def _machine(machine: NodeMachine | None) -> str:
    if machine is None:
        return ""
    shape = f"Sockets={machine.sockets} CoresPerSocket={machine.cores} ThreadsPerCore={machine.threads}"
    return f" CPUs={machine.cpus} {shape} RealMemory={machine.memory}"


def _leaves(plan: LaunchPlan) -> list[str]:
    """Return the leaf switch of each node's first rail; empty where it is not known."""
    return [next((r.switch_port for r in node.rails if r.switch_port), "") for node in plan.nodes]


def _topology(plan: LaunchPlan) -> Iterator[str]:
    """Yield the switches, where the leaf of every node is known: a node in no switch could not be used with others."""
    leaves = _leaves(plan)
    if not all(leaves):
        return
    names = slurm_switch_names(dict.fromkeys(leaves), (SPINE,))
    for leaf, name in names.items():
        below = host_list([_name(n) for n, own in zip(plan.nodes, leaves, strict=True) if own == leaf])
        yield f"SwitchName={name} Nodes={below}"
    if len(names) > 1:
        yield f"SwitchName={SPINE} Switches={','.join(names.values())}"


def _enroot() -> Iterator[str]:
    yield "ENROOT_RUNTIME_PATH /run/enroot/user-$(id -u)"
    yield "ENROOT_CACHE_PATH /var/cache/enroot/user-$(id -u)"
    yield "ENROOT_DATA_PATH /var/lib/enroot/user-$(id -u)"


def host_list(names: list[str]) -> str:
    """Return names as Slurm writes them: ``trn-[01-04]`` where they are numbered without a gap, else a list."""
    parts = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    numbered = [p for p in parts if p is not None]
    if len(names) > 1 and len(numbered) == len(names):
        prefixes = {(p[1], len(p[2])) for p in numbered}
        numbers = [int(p[2]) for p in numbered]
        if len(prefixes) == 1 and numbered[0][1] and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{numbered[0][1]}[{numbered[0][2]}-{numbered[-1][2]}]"
    return ",".join(names)
