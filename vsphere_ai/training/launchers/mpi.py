"""mpirun of Open MPI on the first node, which starts the processes of all nodes over SSH.

Its own traffic stays on the control network, daemons (`oob_tcp`) and messages (`btl_tcp`) alike; the tree spawn of its
daemons, in which nodes log in to each other, is off. Source: Open MPI's mpirun(1) and FAQ, versions 4 and 5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from vsphere_ai.model.names.written_names import host_address
from vsphere_ai.training.launch import (
    RUN_VARIABLE,
    VARIABLES_FILE,
    Launch,
    LaunchPlan,
    LaunchProcess,
    NodeFile,
    NodeLaunch,
    refuse,
)
from vsphere_ai.training.on_node import rank_file

HOST_FILE = "hostfile"
KEY_FILE, KNOWN_HOSTS_FILE, CONFIG_FILE = "mesh_key", "mesh_known_hosts", "mesh_config"


def launch(plan: LaunchPlan) -> Launch:
    """Return mpirun on the first node; each process gets its variables from `rank.py`."""
    size = plan.even("mpirun")
    shared = shared_variables(plan)
    what, _ = plan.what(plan.per_job_values())
    argv = (
        "mpirun",
        *("-np", str(plan.world_size), "--hostfile", f"{plan.run_dir}/{HOST_FILE}"),
        *("--map-by", f"ppr:{size}:node", "--bind-to", "none"),
        *control_network(plan),
        *ssh_options(plan),
        *(word for name in shared for word in ("-x", name)),
        *plan.job.mpi.arguments,
        *plan.by_rank_file(what),
    )
    return on_head(plan, argv, shared)


def on_head(plan: LaunchPlan, argv: tuple[str, ...], shared: Mapping[str, str]) -> Launch:
    """Return a launch whose only command runs on the first node and starts the processes of all."""
    ranks = tuple(rank for own in plan.ranks for rank in own)
    nodes = []
    for number, node in enumerate(plan.nodes):
        # DeepSpeed hands over variables with certain names only, and mpirun no mark of the run: rank.py sets all
        every = {**shared, **plan.env(number), RUN_VARIABLE: plan.run}
        files = [NodeFile("rank.py", rank_file(), executable=True)]
        files += [NodeFile(VARIABLES_FILE, json.dumps(every, indent=2) + "\n")]
        files += [NodeFile(HOST_FILE, host_file(plan))] if number == 0 else []
        processes = (LaunchProcess("launcher", argv, shared, ranks),) if number == 0 else ()
        nodes.append(NodeLaunch(node, processes, tuple(files), plan.nccl(number)))
    mesh = len(plan.nodes) > 1
    notes: tuple[str, ...] = ()
    if mesh and not plan.job.mpi.ssh_mesh:
        notes = ("rank 0's node has to be able to log in to the others over SSH; 'mpi: {ssh_mesh: true}' sees to it",)
    return Launch(plan.job, "mpi", plan.run, tuple(nodes), notes, needs_mesh=mesh and plan.job.mpi.ssh_mesh)


def shared_variables(plan: LaunchPlan) -> dict[str, str]:
    """Return the variables that are the same on all nodes, with those by which the processes find rank 0.

    Secrets are not among them: a launcher may write what it hands over into commands. `rank.py` reads them of a file.
    """
    first, *others = (plan.env(number) for number in range(len(plan.nodes)))
    same = {name: value for name, value in first.items() if all(o.get(name) == value for o in others)}
    same = {name: value for name, value in same.items() if name not in plan.job.secrets}
    return {**same, "MASTER_ADDR": plan.head.address, "MASTER_PORT": str(plan.job.port)}


def host_file(plan: LaunchPlan) -> str:
    """Return Open MPI's host file: a line per node, ``ADDRESS slots=N``, in the order of the ranks."""
    pairs = zip(plan.nodes, plan.processes, strict=True)
    return "".join(f"{host_address(f'address of the VM {n.vm}', n.address)} slots={slots}\n" for n, slots in pairs)


def control_network(plan: LaunchPlan) -> tuple[str, ...]:
    """Return the options that keep Open MPI's own traffic on the control network, and off the RDMA NICs."""
    networks = plan.networks()
    if len(plan.nodes) == 1:
        return ("--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp")
    return (
        *("--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"),
        *("--mca", "btl_tcp_if_include", networks, "--mca", "oob_tcp_if_include", networks),
        *("--mca", "plm_rsh_no_tree_spawn", "1"),
    )


def ssh_options(plan: LaunchPlan) -> tuple[str, ...]:
    """Return how mpirun logs in with the key of this run; nothing without one."""
    if not plan.job.mpi.ssh_mesh or len(plan.nodes) == 1:
        return ()
    return ("--mca", "plm_rsh_agent", f"ssh -F {plan.run_dir}/{CONFIG_FILE}")


def require_mesh(plan: LaunchPlan, launcher: str) -> None:
    """Refuse a launcher that logs in to other nodes where the job names an address that a host file cannot hold."""
    if any(":" in node.address for node in plan.nodes):
        raise refuse("ipv6", f"{launcher} takes no IPv6 address in a list of hosts", "use names of hosts")
