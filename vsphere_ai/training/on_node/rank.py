#!/usr/bin/env python3
"""Start of one process on a node: variables of its rank from those of its launcher, and placeholders in its arguments.

It runs on nodes, with Python 3.7 or later and nothing else: ``rank.py COMMAND...`` becomes the command. Open MPI counts
in OMPI_COMM_WORLD_NODE_RANK the processes of a node; the number of the node is the rank divided by the local size.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence

WRITTEN = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")
NAMES = {
    "rank": "RANK",
    "local_rank": "LOCAL_RANK",
    "node_rank": "NODE_RANK",
    "local_size": "LOCAL_WORLD_SIZE",
    "world_size": "WORLD_SIZE",
    "nodes": "NNODES",
    "master_addr": "MASTER_ADDR",
    "master_port": "MASTER_PORT",
}
BY_HOROVOD = {
    "RANK": "HOROVOD_RANK",
    "WORLD_SIZE": "HOROVOD_SIZE",
    "LOCAL_RANK": "HOROVOD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "HOROVOD_LOCAL_SIZE",
    "NODE_RANK": "HOROVOD_CROSS_RANK",
    "GROUP_RANK": "HOROVOD_CROSS_RANK",
    "NNODES": "HOROVOD_CROSS_SIZE",
}
"""Source: Horovod 0.28.1, runner/gloo_run.py, `create_slot_env_vars`."""
BY_DEEPSPEED = {
    "LOCAL_WORLD_SIZE": "LOCAL_SIZE",
    "NODE_RANK": "CROSS_RANK",
    "GROUP_RANK": "CROSS_RANK",
    "NNODES": "CROSS_SIZE",
}
"""Source: DeepSpeed 0.19.8, launcher/launch.py and constants.py; it sets RANK, LOCAL_RANK and WORLD_SIZE itself."""


def of_rank(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a rank, by those of what has started it; empty where that sets none.

    mpirun, horovodrun without MPI (Gloo), torchrun, and DeepSpeed's launcher of a node, in this order.
    """
    rank, size = environment.get("OMPI_COMM_WORLD_RANK"), environment.get("OMPI_COMM_WORLD_LOCAL_SIZE")
    if rank is not None and size is not None:
        world = int(environment["OMPI_COMM_WORLD_SIZE"])
        node = str(int(rank) // int(size))
        return {
            "RANK": rank,
            "WORLD_SIZE": str(world),
            "LOCAL_RANK": environment["OMPI_COMM_WORLD_LOCAL_RANK"],
            "LOCAL_WORLD_SIZE": size,
            "NODE_RANK": node,
            "GROUP_RANK": node,
            "NNODES": str(-(-world // int(size))),
        }
    own = {ours: environment[theirs] for ours, theirs in BY_HOROVOD.items() if theirs in environment}
    if own or "RANK" not in environment:
        return own
    own = {ours: environment[theirs] for ours, theirs in BY_DEEPSPEED.items() if theirs in environment}
    if "GROUP_RANK" in environment:
        own["NODE_RANK"] = environment["GROUP_RANK"]
    if "WORLD_SIZE" in environment and "LOCAL_WORLD_SIZE" in environment:
        own["NNODES"] = str(-(-int(environment["WORLD_SIZE"]) // int(environment["LOCAL_WORLD_SIZE"])))
    return own


def filled(text: str, environment: Mapping[str, str]) -> str:
    """Return an argument with the values of its placeholders."""
    return WRITTEN.sub(lambda m: f"{{{m.group(1)}}}" if m.group(1) else environment[NAMES[m.group(2)]], text)


def main(words: Sequence[str]) -> None:
    """Become the command."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "env.json")
    environment = dict(os.environ)
    if os.path.exists(beside):
        with open(beside) as file:
            environment.update(json.load(file))
    environment.update(of_rank(environment))
    try:
        argv = [filled(word, environment) for word in words]
    except KeyError as missing:
        sys.exit(f"rank.py: the launcher has not set {missing}")
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - no shell is wanted
    except OSError as fault:
        sys.exit(f"rank.py: {argv[0]}: {fault.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
