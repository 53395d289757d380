"""torchrun: one agent per node that starts the node's processes.

The nodes of a job are known, so the rendezvous is static; c10d is for elastic jobs only. Source: PyTorch, torchrun
(Elastic Launch). With c10d the ranks of nodes are PyTorch's choice, and `is_host` says which node keeps the store:
found by comparing names of hosts, it may be none.
"""

from __future__ import annotations

from vsphere_ai.training.launch import Launch, LaunchPlan, LaunchProcess, NodeFile, NodeLaunch, refuse
from vsphere_ai.training.on_node import rank_file


def launch(plan: LaunchPlan) -> Launch:
    """Return an agent for each node."""
    options = plan.job.torchrun
    if options.legacy and (options.elastic or options.max_restarts):
        raise refuse("legacy", "torch.distributed.launch neither restarts nor scales", "leave legacy out")
    nodes, notes = [], []
    for number, node in enumerate(plan.nodes):
        values = plan.per_job_values() if options.elastic else plan.per_node_values(number)
        if options.elastic:
            values = {k: v for k, v in values.items() if k not in ("world_size", "nodes")}
        what, unfinished = plan.what(values)
        agent = _legacy(plan, number) if options.legacy else (plan.program("torchrun"), *_where(plan, number))
        argv = (*agent, *_program(plan, what, unfinished, legacy=options.legacy))
        process = LaunchProcess(
            f"node-{number}", argv, {**plan.env(number), **plan.threads(number)}, plan.ranks[number]
        )
        files = (NodeFile("rank.py", rank_file(), executable=True),) if unfinished else ()
        nodes.append(NodeLaunch(node, (process,), files, plan.nccl(number)))
    if options.elastic:
        notes.append("elastic: PyTorch gives ranks to nodes anew at each rendezvous; they need not be in this order")
    fewest = int(options.elastic.partition(":")[0]) if options.elastic else None
    return Launch(plan.job, "torchrun", plan.run, tuple(nodes), tuple(notes), fewest=fewest)


def _where(plan: LaunchPlan, number: int) -> tuple[str, ...]:
    """Return the options that say how the agents find each other."""
    options, head, node = plan.job.torchrun, plan.head, plan.nodes[number]
    per_node = f"--nproc-per-node={plan.processes[number]}"
    restarts = (f"--max-restarts={options.max_restarts}",) if options.max_restarts else ()
    if options.elastic:
        _require_range(plan, options.elastic)
        return (
            f"--nnodes={options.elastic}",
            per_node,
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={_bracketed(head.address)}:{options.rendezvous_port}",
            f"--rdzv-id={plan.run}",
            f"--rdzv-conf=is_host={'true' if number == 0 else 'false'}",
            f"--local-addr={node.address}",
            *restarts,
        )
    if len(plan.nodes) == 1:
        return ("--standalone", "--nnodes=1", per_node, *restarts)
    return (
        f"--nnodes={len(plan.nodes)}",
        f"--node-rank={number}",
        per_node,
        f"--master-addr={head.address}",
        f"--master-port={plan.job.port}",
        f"--local-addr={node.address}",
        *restarts,
    )


def _legacy(plan: LaunchPlan, number: int) -> tuple[str, ...]:
    return (
        plan.job.python,
        "-m",
        "torch.distributed.launch",
        "--use_env",
        f"--nnodes={len(plan.nodes)}",
        f"--node_rank={number}",
        f"--nproc_per_node={plan.processes[number]}",
        f"--master_addr={plan.head.address}",
        f"--master_port={plan.job.port}",
    )


def _program(plan: LaunchPlan, what: tuple[str, ...], unfinished: bool, *, legacy: bool) -> tuple[str, ...]:
    if unfinished:
        return ("--no_python" if legacy else "--no-python", *plan.by_rank_file(what))
    if plan.job.command is not None:
        return ("--no_python" if legacy else "--no-python", *what)
    return ("-m", *what) if plan.job.module is not None else what


def _require_range(plan: LaunchPlan, elastic: str) -> None:
    least, most = map(int, elastic.split(":"))
    if not least <= len(plan.nodes) <= most:
        raise refuse("elastic", f"the job has {len(plan.nodes)} nodes, and elastic is {elastic}", "change one of them")


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
