"""Launchers: one module per mode, each of which turns a job into the commands of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.model.nodes import Node
from vsphere_ai.training.job import Mode, TrainingJob
from vsphere_ai.training.launch import Launch, LaunchPlan
from vsphere_ai.training.launchers import (
    accelerate,
    deepspeed,
    horovod,
    lightning,
    mpi,
    per_process,
    tensorflow,
    torchrun,
)

MOST_NAMED = 6
LAUNCHERS: Mapping[Mode, Callable[[LaunchPlan], Launch]] = {
    "torchrun": torchrun.launch,
    "env": per_process.launch,
    "mpi": mpi.launch,
    "horovod": horovod.launch,
    "deepspeed": deepspeed.launch,
    "accelerate": accelerate.launch,
    "lightning": lightning.launch,
    "tensorflow": tensorflow.launch,
}


def launch(job: TrainingJob, mode: Mode, nodes: Sequence[Node], run: str) -> Launch:
    """Return what a job runs on each of its nodes in a mode; `Refused` where it cannot run as it is written."""
    plan = LaunchPlan(job, tuple(nodes), run)
    made = LAUNCHERS[mode](plan)
    more = (replace(own, files=(*own.files, *plan.topology_files(n))) for n, own in enumerate(made.nodes))
    notes = (*made.notes, *_without_nic(job, nodes))
    return replace(made, nodes=tuple(more), listens=made.listens or _listens(plan, mode), notes=notes)


def _without_nic(job: TrainingJob, nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a note where NCCL has no NIC for training traffic, on all nodes or on some of several."""
    lacking = [node.vm for node in nodes if not node.rails]
    if len(nodes) < 2 or job.nccl == "off" or not lacking:
        return
    if len(lacking) == len(nodes):
        yield "no node has a NIC for training traffic: it goes over TCP on the control network"
    else:
        named = ", ".join(lacking[:MOST_NAMED]) + (
            f" and {len(lacking) - MOST_NAMED} more" * (len(lacking) > MOST_NAMED)
        )
        yield f"no NIC for training traffic on {named}: all ranks wait for the TCP of the control network there"


def _listens(plan: LaunchPlan, mode: Mode) -> tuple[tuple[int, int], ...]:
    """Return where rank 0 listens; torchrun alone on one node chooses a free port by itself."""
    job = plan.job
    if mode == "torchrun" or (mode == "lightning" and job.lightning.via == "torchrun"):
        if job.torchrun.elastic:
            return ((0, job.torchrun.rendezvous_port),)
        return ((0, job.port),) if len(plan.nodes) > 1 else ()
    return ((0, job.port),) if plan.world_size > 1 else ()
