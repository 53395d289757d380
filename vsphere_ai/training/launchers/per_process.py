"""One process per GPU with the variables of its rank, started without a launcher of the framework (mode `env`)."""

from __future__ import annotations

from vsphere_ai.training.launch import Launch, LaunchPlan, LaunchProcess, NodeLaunch
from vsphere_ai.training.placeholders import values_of


def launch(plan: LaunchPlan) -> Launch:
    """Return a process for each rank."""
    nodes = []
    for number, node in enumerate(plan.nodes):
        shared = {**plan.env(number), **plan.threads(number)}
        processes = []
        for rank in plan.ranks[number]:
            what, _ = plan.what({**plan.per_job_values(), **values_of(rank)})
            own = rank.environment(plan.head.address, plan.job.port)
            processes.append(LaunchProcess(f"rank-{rank.rank}", plan.argv(what), {**shared, **own}, (rank,)))
        nodes.append(NodeLaunch(node, tuple(processes), nccl=plan.nccl(number)))
    return Launch(plan.job, "env", plan.run, tuple(nodes))
