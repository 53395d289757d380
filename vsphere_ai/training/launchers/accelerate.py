"""Accelerate of Hugging Face: a configuration for each machine, and `accelerate launch` on each."""

from __future__ import annotations

import json

from vsphere_ai.training.launch import Launch, LaunchPlan, LaunchProcess, NodeFile, NodeLaunch
from vsphere_ai.training.on_node import rank_file

CONFIG_FILE = "accelerate.yaml"


def launch(plan: LaunchPlan) -> Launch:
    """Return `accelerate launch` on each node."""
    plan.even("Accelerate")
    nodes = []
    for number, node in enumerate(plan.nodes):
        what, unfinished = plan.what(plan.per_node_values(number))
        start = (plan.program("accelerate"), "launch", "--config_file", f"{plan.run_dir}/{CONFIG_FILE}")
        process = LaunchProcess(
            f"node-{number}",
            (*start, *_program(plan, what, unfinished)),
            {**plan.env(number), **plan.threads(number)},
            plan.ranks[number],
        )
        files: tuple[NodeFile, ...] = (NodeFile(CONFIG_FILE, config(plan, number)),)
        files += (NodeFile("rank.py", rank_file(), executable=True),) if unfinished else ()
        nodes.append(NodeLaunch(node, (process,), files, plan.nccl(number)))
    return Launch(plan.job, "accelerate", plan.run, tuple(nodes))


def config(plan: LaunchPlan, number: int) -> str:
    """Return the configuration of a machine as YAML. Source: Accelerate, commands/config/config_args.py."""
    options = plan.job.accelerate
    several = plan.world_size > 1 or options.distributed_type != "MULTI_GPU"
    values: dict[str, str | int | bool | dict[str, str]] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": options.distributed_type if several else "NO",
        "mixed_precision": options.mixed_precision,
        "num_machines": len(plan.nodes),
        "num_processes": plan.world_size,
        "machine_rank": number,
        "main_process_ip": plan.head.address,
        "main_process_port": plan.job.port,
        "rdzv_backend": "static",
        "same_network": True,
    }
    if values["distributed_type"] == "DEEPSPEED":
        # without it Accelerate runs DeepSpeed's own launcher, pdsh, on each machine (utils/launch.py)
        values["deepspeed_config"] = {"deepspeed_multinode_launcher": "standard"}
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())


def _program(plan: LaunchPlan, what: tuple[str, ...], unfinished: bool) -> tuple[str, ...]:
    if unfinished or plan.job.command is not None:
        return ("--no_python", *(plan.by_rank_file(what) if unfinished else what))
    return ("--module", *what) if plan.job.module is not None else what
