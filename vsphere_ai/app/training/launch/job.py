"""Jobs of training: read from their file, with the nodes that they run on."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Emit, Remark, ignore
from vsphere_ai.app.training.nodes.checked import Nodes
from vsphere_ai.app.training.nodes.listed import NodesRequest, NodesResult, list_nodes
from vsphere_ai.errors import Refused
from vsphere_ai.gpu.smi import live
from vsphere_ai.language.yaml_files.document import Document, FaultCollector, require
from vsphere_ai.language.yaml_files.merge_keys import load
from vsphere_ai.language.yaml_files.model_files import read_model
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.vm_sets import members_of
from vsphere_ai.security.files import Outside, below
from vsphere_ai.training.job import Mode, OwnNode, SetNodes, TrainingJob


@dataclass(frozen=True)
class LaunchRequest:
    """A job, the mode in which it is launched, and the estate of the set that it names."""

    job: Path
    mode: Mode
    estate: EstateRequest = field(default_factory=EstateRequest)
    preflight: bool = True
    """Guests are asked first, and nothing starts where something blocks it."""


def load_job(path: Path) -> TrainingJob:
    """Read a job; `InputError` with every fault in it, `UsageError` when there is no such file."""
    require(path, "job")
    faults = FaultCollector()
    document = load(path, faults)
    job = read_model(TrainingJob, document, faults)
    if isinstance(job.nodes, SetNodes):
        _require_below(job.nodes.playbook, document)
    return job


def _require_below(playbook: str, document: Document) -> None:
    """Refuse a job that names a playbook outside of its folder: errors quote the lines of a playbook."""
    try:
        below(Path(document.name).parent, playbook)
    except Outside:
        faults, text = FaultCollector(), f"{playbook!r} is not a file below the folder of {document.name}"
        document.refuse(faults, ("nodes", "playbook"), text, "put the job beside the playbook, or above it")
        faults.raise_any()


def job_nodes(
    job: TrainingJob, path: Path, estate: EstateRequest, emit: Emit = ignore, *, fewest: int | None = 0
) -> Nodes:
    """Return the nodes of a job that was read from `path`: the VMs of its set, or those that it lists.

    With them come the states that vCenter shows of the VMs of a set. A set with a VM that cannot run the job now is
    refused; with `fewest`, as an elastic job has it, VMs that are off are left out while as many are on. None: all VMs
    are returned, however they are.
    """
    if isinstance(job.nodes, SetNodes):
        wanted = NodesRequest((), below(path.parent, job.nodes.playbook), job.nodes.set, job.nodes.nic, estate)
        found = list_nodes(wanted, emit, (live.RUNNING,) if fewest is not None and job.has_host_topology else ())
        if fewest is not None:
            found = _without_off(found, fewest, emit)
            _require_usable(found, job.nodes.set)
        return found.nodes, found.states
    return tuple(map(_own, job.nodes)), {}


def fewest_of(job: TrainingJob, mode: Mode) -> int:
    """Return with how many nodes an elastic job starts at least; 0: it starts with all."""
    is_torchrun = mode == "torchrun" or (mode == "lightning" and job.lightning.via == "torchrun")
    return int(job.torchrun.elastic.partition(":")[0]) if is_torchrun and job.torchrun.elastic else 0


def _without_off(found: NodesResult, fewest: int, emit: Emit) -> NodesResult:
    """Return nodes without VMs that are off, where at least `fewest` are on; VMs and hosts left out are named."""
    on = tuple(n for n in found.nodes if found.states[n.vm].power == "poweredOn")
    off = [_place(n) for n in found.nodes if n not in on]
    if not fewest or not off or len(on) < fewest:
        return found
    emit(Remark("launch.nodes", f"the job is elastic, and starts on {len(on)} VMs, without {', '.join(off)}: not on"))
    return replace(found, nodes=on)


def _place(node: Node) -> str:
    return f"{node.vm} on {node.host}" if node.host else node.vm


def _require_usable(found: NodesResult, name: str) -> None:
    """Refuse a set with a VM that is missing or off, or without the addresses that it was given; all are named."""
    missing = [m.name for m in members_of(found.estate) if m.set == name and not m.exists and not m.leaving]
    wrong = [f"{vm}: it does not exist yet" for vm in missing]
    for node in found.nodes:
        state = found.states[node.vm]
        lost = [text for text in state.leased if text not in state.reported]
        if state.power != "poweredOn":
            wrong.append(f"{_place(node)}: it is not powered on")
        elif lost:
            wrong.append(f"{_place(node)}: its guest does not report {', '.join(lost)}, which it was given")
        elif not node.address:
            wrong.append(f"{_place(node)}: no address of it is known")
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
