"""TensorFlow: one process per task, each with TF_CONFIG: the same cluster for all, and its own task.

Source: TensorFlow guide, distributed training, "Setting up the TF_CONFIG environment variable".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from vsphere_ai.training.launch import Launch, LaunchPlan, LaunchProcess, NodeLaunch, refuse
from vsphere_ai.training.ranks import ranks_of

PARAMETER_SERVER, WORKER, CHIEF = "ps", "worker", "chief"


@dataclass(frozen=True)
class ClusterTask:
    """A task of the cluster: its type, its number among those, its node and its port there."""

    type: str
    index: int
    node: int
    port: int

    @property
    def name(self) -> str:
        """The name of its log."""
        return f"{self.type}-{self.index}"


def launch(plan: LaunchPlan) -> Launch:
    """Return a process for each task; parameter servers are started first."""
    tasks = tasks_of(plan)
    cluster = cluster_of(plan, tasks)
    nodes = []
    for number, node in enumerate(plan.nodes):
        own = [_process(plan, task, cluster) for task in tasks if task.node == number]
        nodes.append(NodeLaunch(node, tuple(own), nccl=plan.nccl(number)))
    listens = tuple((task.node, task.port) for task in tasks)
    return Launch(plan.job, "tensorflow", plan.run, tuple(nodes), listens=listens)


def tasks_of(plan: LaunchPlan) -> tuple[ClusterTask, ...]:
    """Return the tasks: workers on the first nodes, one each, and parameter servers on the nodes from the last on."""
    options, count = plan.job.tensorflow, len(plan.nodes)
    workers = count if options.workers is None else options.workers
    if workers > count:
        help = "a worker uses all GPUs of its node: give 'workers' at most the number of nodes"
        raise refuse("workers", f"the job has {workers} workers and {count} nodes", help)
    used: Counter[int] = Counter()
    found = []
    places = [(WORKER, index, index) for index in range(workers)]
    places += [(PARAMETER_SERVER, index, count - 1 - index % count) for index in range(options.parameter_servers)]
    for kind, index, node in places:
        if options.chief and kind == WORKER:
            kind, index = (CHIEF, 0) if index == 0 else (WORKER, index - 1)
        found.append(ClusterTask(kind, index, node, options.port + used[node]))
        used[node] += 1
    return tuple(found)


def cluster_of(plan: LaunchPlan, tasks: tuple[ClusterTask, ...]) -> dict[str, list[str]]:
    """Return the cluster: the addresses of the tasks of each type, in their order."""
    kinds = (kind for kind in (CHIEF, WORKER, PARAMETER_SERVER) if any(t.type == kind for t in tasks))
    return {kind: [_address(plan, task) for task in tasks if task.type == kind] for kind in kinds}


def tf_config(cluster: Mapping[str, list[str]], task: ClusterTask) -> str:
    """Return TF_CONFIG of a task."""
    return json.dumps({"cluster": cluster, "task": {"type": task.type, "index": task.index}})


def _process(plan: LaunchPlan, task: ClusterTask, cluster: Mapping[str, list[str]]) -> LaunchProcess:
    is_server = task.type == PARAMETER_SERVER
    values = {**plan.per_job_values(), "node_rank": task.node, "local_size": 1, "local_rank": 0, "rank": task.index}
    what, _ = plan.what(values)
    # a parameter server takes no GPU from the worker beside it
    own = {"TF_CONFIG": tf_config(cluster, task), **({"CUDA_VISIBLE_DEVICES": ""} if is_server else {})}
    ranks = () if is_server else (ranks_of([1] * len(plan.nodes))[task.node],)
    return LaunchProcess(task.name, plan.argv(what), {**plan.env(task.node), **own}, ranks, order=0 if is_server else 1)


def _address(plan: LaunchPlan, task: ClusterTask) -> str:
    address = plan.nodes[task.node].address
    return f"[{address}]:{task.port}" if ":" in address else f"{address}:{task.port}"
