"""DeepSpeed: its launcher on every node (`--no_ssh`), or once on the first node, with a host file.

Source: DeepSpeed, launcher/runner.py and multinode_runner.py; its Open MPI runner takes the interface eth0 unless
`--launcher_args` names another one. From the first node it hands over variables with certain names only (NCCL, PYTHON,
UCX and a few more): each process gets the others, and the name of the run, from `rank.py` on its node. It logs in to
the first host of its host file, and pdsh to all of them. pdsh 2.34 replaces `%h`, `%n` and `%u` in commands.
"""

from __future__ import annotations

import re
from dataclasses import replace

from vsphere_ai.training.launch import Launch, LaunchPlan, LaunchProcess, NodeFile, NodeLaunch, refuse
from vsphere_ai.training.launchers.mpi import HOST_FILE, host_file, on_head, require_mesh, shared_variables
from vsphere_ai.training.on_node import rank_file
from vsphere_ai.training.placeholders import PER_RANK, names_in

_PLAIN = re.compile(r"(?:[A-Za-z0-9_@+=:,./-]|%(?![hnu%])|\{[a-z_]+\})*")
"""What neither a shell nor pdsh changes; a placeholder in braces is none of a shell's."""
LOGINS = "rank 0's node has to be able to log in over SSH to the others and to itself; via: no_ssh needs no login"
PROGRAMS = {"pdsh": ("pdsh",), "openmpi": ("ompi_info", "mpirun")}
"""Programs that DeepSpeed looks for and runs, by its launcher."""


def launch(plan: LaunchPlan) -> Launch:
    """Return DeepSpeed's launcher on each node, or on the first one."""
    require_mesh(plan, "DeepSpeed")
    return _everywhere(plan) if plan.job.deepspeed.via == "no_ssh" else _from_head(plan)


def _everywhere(plan: LaunchPlan) -> Launch:
    nodes = []
    for number, node in enumerate(plan.nodes):
        what, unfinished = plan.what(plan.per_node_values(number))
        argv = (*_start(plan), "--no_ssh", "--node_rank", str(number), *_program(plan, what, unfinished))
        files = [NodeFile(HOST_FILE, host_file(plan))]
        files += [NodeFile("rank.py", rank_file(), executable=True)] if unfinished else []
        process = LaunchProcess(
            f"node-{number}", argv, {**plan.env(number), **plan.threads(number)}, plan.ranks[number]
        )
        nodes.append(NodeLaunch(node, (process,), tuple(files), plan.nccl(number)))
    return Launch(plan.job, "deepspeed", plan.run, tuple(nodes), _notes(plan))


def _from_head(plan: LaunchPlan) -> Launch:
    job, via = plan.job, plan.job.deepspeed.via
    if job.mpi.ssh_mesh:
        raise refuse("deepspeed-ssh", f"DeepSpeed's {via} launcher takes no key of one run only", "write via: no_ssh")
    shared = shared_variables(plan)
    what, _ = plan.what(plan.per_job_values())
    shell = next((each for each in what if not _PLAIN.fullmatch(each)), None)
    if via == "pdsh" and shell is not None:
        raise refuse("pdsh", f"pdsh hands '{shell}' to a shell on each node", "write via: no_ssh")
    networks = plan.networks()
    own = f"--mca btl_tcp_if_include {networks} --mca oob_tcp_if_include {networks}"
    launcher_args = ("--launcher_args", own) if via == "openmpi" and len(plan.nodes) > 1 else ()
    argv = (*_start(plan), "--launcher", via, *launcher_args, *_program(plan, what, by_rank=True))
    if via == "pdsh":  # DeepSpeed writes `export NAME=VALUE;`, in double quotes at most: rank.py has what a shell reads
        shared = {name: value for name, value in shared.items() if _PLAIN.fullmatch(value)}
    made = on_head(plan, argv, shared)
    several = len(plan.nodes) > 1
    programs = PROGRAMS[via] if several else ()
    notes = (LOGINS,) if several else ()
    return replace(made, mode="deepspeed", notes=notes, programs=programs, logs_in_everywhere=several)


def _start(plan: LaunchPlan) -> tuple[str, ...]:
    return (
        *(plan.program("deepspeed"), "--hostfile", f"{plan.run_dir}/{HOST_FILE}"),
        *("--master_addr", plan.head.address, "--master_port", str(plan.job.port)),
        *plan.job.deepspeed.arguments,
    )


def _program(plan: LaunchPlan, what: tuple[str, ...], by_rank: bool) -> tuple[str, ...]:
    if by_rank or plan.job.command is not None:
        # DeepSpeed puts --local_rank right behind the first word, which here is a program's name
        quiet = () if "--no_local_rank" in plan.job.deepspeed.arguments else ("--no_local_rank",)
        return (*quiet, "--no_python", *(plan.by_rank_file(what) if by_rank else what))
    return ("--module", *what) if plan.job.module is not None else what


def _notes(plan: LaunchPlan) -> tuple[str, ...]:
    job = plan.job
    without = "--no_local_rank" in job.deepspeed.arguments or job.command is not None
    if without or set(names_in(job.what)) & set(PER_RANK):
        return ()
    return ("DeepSpeed gives the script an argument --local_rank=N, unless its arguments have --no_local_rank",)
