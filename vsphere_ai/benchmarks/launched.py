"""Runs of benchmarks that were launched like jobs: how they ended, and what of them is left on VMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.job import OwnNode
from vsphere_ai.training.run import LaunchResult, NodeRun

Logs = Mapping[str, Mapping[str, str]]
"""Ends of logs by the names of the VM and of the file; a node whose logs cannot be read has none."""


@dataclass(frozen=True)
class Carried:
    """A run that is over: how it stood at last, what it wrote, and `why` it did not end well (empty: it did)."""

    run: LaunchResult
    logs: Logs
    why: str = ""


def own_nodes(nodes: Sequence[Node]) -> tuple[OwnNode, ...]:
    """Return nodes as a job lists them; their names and addresses are vCenter's."""
    return tuple(OwnNode.model_construct(name=n.vm, address=n.address, gpus=len(n.gpus)) for n in nodes)


def remaining(result: LaunchResult) -> list[str]:
    """Return where processes of a run are left, or may be."""
    found = []
    for vm, node in result.found.items():
        if isinstance(node, VsphereAiError):
            found.append(f"{vm}: whether processes of {result.run} are left is not known: {node.message}")
        elif node.left or (node.pids and node.state in ("ended", "unknown")):
            shown = ", ".join(map(str, node.left or node.pids))
            found.append(f"{vm}: processes of {result.run} are left: {shown}")
        elif node.unsure:
            found.append(f"{vm}: nvidia-smi does not answer: whether a GPU has a process of {result.run} is not known")
    return found


def left_of(run: LaunchResult) -> tuple[Finding, ...]:
    """Return what of a run is left on VMs, as failures."""
    return tuple(of_run("bench.left", "fail", text, "end them, or reboot the guest") for text in remaining(run))


def why_not_well(found: LaunchResult) -> str:
    """Return why a run that is over did not end well."""
    head = found.head
    if isinstance(head, VsphereAiError):
        return head.message
    if head.outcome == "done":
        return ""
    return _named(head, found) or f"the run is {head.outcome or head.state}"


def _named(head: NodeRun, found: LaunchResult) -> str:
    """Return the reason of the supervisor, with the name of the VM in place of the number of its node."""
    text = head.reason
    for number, node in enumerate(found.nodes):
        text = text.replace(f" on node {number} ", f" on {node.vm} ").replace(f"node {number} ", f"{node.vm} ")
    return text
