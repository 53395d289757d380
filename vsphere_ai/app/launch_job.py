"""Jobs of training: read from their file, with the nodes that they run on."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.nodes import NodesRequest, NodesResult, list_nodes
from vsphere_ai.app.nodes_checked import Nodes
from vsphere_ai.app.session import EstateRequest
from vsphere_ai.errors import Diagnostic, InputError, Refused
from vsphere_ai.gpu import live
from vsphere_ai.language.document import Faults, load, require
from vsphere_ai.language.validation import Place, validate
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.vm_sets import members_of
from vsphere_ai.training.job import Mode, OwnNode, SetNodes, TrainingJob


@dataclass(frozen=True)
class LaunchRequest:
    """A job, the mode in which it is launched, and the estate of the set that it names."""

    job: Path
    mode: Mode
    estate: EstateRequest = field(default_factory=EstateRequest)
    preflight: bool = True
    """Guests are asked first, and nothing starts where something stands against it."""


def load_job(path: Path) -> TrainingJob:
    """Read a job; `InputError` with every fault in it, `UsageError` when there is no such file."""
    require(path, "job")
    faults = Faults()
    document = load(path, faults)
    job = validate(TrainingJob, document.data, Place(document, (), faults))
    faults.raise_any()
    if job is None:
        raise InputError([Diagnostic(document.mark_of(), "this is no job")])
    return job


def job_nodes(
    job: TrainingJob, path: Path, estate: EstateRequest, emit: Emit = ignore, *, usable: bool = True
) -> Nodes:
    """Return the nodes of a job that was read from `path`: the VMs of its set, or those that it lists.

    With them come the states that vCenter shows of the VMs of a set. `usable`: refuse a set with a VM that cannot run
    the job now.
    """
    if isinstance(job.nodes, SetNodes):
        wanted = NodesRequest((), path.parent / job.nodes.playbook, job.nodes.set, job.nodes.nic, estate)
        found = list_nodes(wanted, emit, (live.RUNNING,) if usable and job.has_host_topology else ())
        if usable:
            _require_usable(found, job.nodes.set)
        return found.nodes, found.states
    return tuple(map(_own, job.nodes)), {}


def _require_usable(found: NodesResult, name: str) -> None:
    """Refuse a set with a VM that is missing or off, or without the addresses that it was given; all are named."""
    missing = [m.name for m in members_of(found.estate) if m.set == name and not m.exists and not m.leaving]
    wrong = [f"{vm}: it does not exist yet" for vm in missing]
    for node in found.nodes:
        state = found.states[node.vm]
        lost = [text for text in state.leased if text not in state.reported]
        if state.power != "poweredOn":
            wrong.append(f"{node.vm}: it is not powered on")
        elif lost:
            wrong.append(f"{node.vm}: its guest does not report {', '.join(lost)}, which it was given")
        elif not node.address:
            wrong.append(f"{node.vm}: no address of it is known")
    if wrong:
        help = "apply the playbook, or look at the network of the guests"
        raise Refused("\n".join(wrong), help, rule="launch.nodes")


def new_run(job: TrainingJob) -> str:
    """Return a name for a run of a job that no other run has."""
    return f"{job.training_job}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def _own(node: OwnNode) -> Node:
    rails = (
        Rail(r.interface, r.address, r.rail, rdma_device=r.rdma_device, port=r.port, gid_index=r.gid_index)
        for r in node.rails
    )
    gpus = tuple(map(NodeGpu, range(node.gpus)))
    return Node(node.name, node.address, node.interface, gpus=gpus, rails=tuple(rails))
