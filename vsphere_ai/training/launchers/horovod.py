"""Horovod: horovodrun on the first node, or the mpirun that it stands for. Source: Horovod, docs/mpi.rst."""

from __future__ import annotations

from dataclasses import replace

from vsphere_ai.training.launch import Launch, LaunchPlan, refuse
from vsphere_ai.training.launchers.mpi import on_head, require_mesh, shared_variables, ssh_options


def launch(plan: LaunchPlan) -> Launch:
    """Return the command on the first node that starts all processes."""
    require_mesh(plan, "Horovod")
    plan.even("Horovod")
    shared = shared_variables(plan)
    what, _ = plan.what(plan.per_job_values())
    hosts = ",".join(f"{n.address}:{slots}" for n, slots in zip(plan.nodes, plan.processes, strict=True))
    start = _mpirun if plan.job.mpi.via == "mpirun" else _horovodrun
    argv = (*start(plan, hosts, tuple(shared)), *plan.job.mpi.arguments, *plan.by_rank_file(what))
    return replace(on_head(plan, argv, shared), mode="horovod")


def _horovodrun(plan: LaunchPlan, hosts: str, _: tuple[str, ...]) -> tuple[str, ...]:
    if plan.job.mpi.ssh_mesh and len(plan.nodes) > 1:
        help = "write 'mpi: {via: mpirun, ssh_mesh: true}', or let the nodes log in to each other"
        raise refuse("horovodrun-ssh", "horovodrun cannot be given a file of known hosts for this run only", help)
    interface = plan.interface()
    network = ("--network-interfaces", interface) if interface and len(plan.nodes) > 1 else ()
    return (plan.program("horovodrun"), "-np", str(plan.world_size), "-H", hosts, *network)


def _mpirun(plan: LaunchPlan, hosts: str, variables: tuple[str, ...]) -> tuple[str, ...]:
    networks = plan.networks()
    own = ("--mca", "btl_tcp_if_include", networks, "--mca", "oob_tcp_if_include", networks)
    return (
        *("mpirun", "-np", str(plan.world_size), "-H", hosts, "--bind-to", "none", "--map-by", "slot"),
        *(word for name in ("LD_LIBRARY_PATH", "PATH", *variables) for word in ("-x", name)),
        *("--mca", "pml", "ob1", "--mca", "btl", "^openib"),
        *(own if len(plan.nodes) > 1 else ()),
        *ssh_options(plan),
    )
