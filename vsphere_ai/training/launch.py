"""Launch: what runs on each node of a job, as commands, variables and files; argument lists, never text for a shell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from vsphere_ai.errors import Refused
from vsphere_ai.model.names.written_names import host_address
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import counted
from vsphere_ai.training import nccl_topo
from vsphere_ai.training.job import Mode, Nccl, TrainingJob
from vsphere_ai.training.machine import NodeMachine
from vsphere_ai.training.nccl_env import Setting, nccl_settings
from vsphere_ai.training.placeholders import filled, final, names_in, values_of
from vsphere_ai.training.ranks import Rank, ranks_of
from vsphere_ai.training.topology import gaps

RUNS = "/var/tmp/vsphere-ai"  # noqa: S108 - what runs there refuses a folder of another user
"""Folder of run directories on a node; it is kept over a reboot."""
RANK_FILE = "rank.py"
VARIABLES_FILE = "env.json"
RUN_VARIABLE = "VSPHERE_AI_RUN"
"""Has the name of the run in each of its processes: by it they are found, counted and ended."""
TOPOLOGY_FILE = "nccl-topo.xml"


@dataclass(frozen=True)
class LaunchProcess:
    """A process that is started on a node; `name` names its log, `ranks` are those it is, or starts.

    Processes of a lower `order` are started first, on all nodes.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ranks: tuple[Rank, ...] = ()
    order: int = 0


@dataclass(frozen=True)
class NodeFile:
    """A file in the run directory of a node."""

    name: str
    text: str
    executable: bool = False


@dataclass(frozen=True)
class NodeLaunch:
    """What a node runs."""

    node: Node
    processes: tuple[LaunchProcess, ...]
    files: tuple[NodeFile, ...] = ()
    nccl: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class Launch:
    """A job as it is started: its nodes in the order of their ranks, and notes for the operator."""

    job: TrainingJob
    mode: Mode
    run: str
    nodes: tuple[NodeLaunch, ...]
    notes: tuple[str, ...] = ()
    needs_mesh: bool = False
    """Rank 0's node logs in to the others over SSH."""
    listens: tuple[tuple[int, int], ...] = ()
    """Numbers of nodes, each with a port on which a process of the job listens there."""
    fewest: int | None = None
    """Nodes with which it goes on when others are lost; None: it needs all."""
    programs: tuple[str, ...] = ()
    """Programs that its launcher runs on rank 0's node."""
    logs_in_everywhere: bool = False
    """Its launcher logs in over SSH to rank 0's node as well, where it runs."""

    @property
    def has_logins(self) -> bool:
        """Whether what runs on rank 0's node starts the processes of the others, over SSH."""
        return len(self.nodes) > 1 and not any(each.processes for each in self.nodes[1:])


def programs_of(launch: Launch) -> dict[str, tuple[str, ...]]:
    """Return the programs that a node has to have, by VM: those that start its processes, and the job's Python."""
    own, ssh = launch.job.python, ("ssh",) if launch.has_logins else ()
    return {
        each.node.vm: tuple(
            dict.fromkeys(
                (
                    own,
                    *(process.argv[0] for process in each.processes),
                    *((*ssh, *launch.programs) if each.processes else ()),
                )
            )
        )
        for each in launch.nodes
    }


def refuse(rule: str, message: str, help: str = "") -> Refused:
    """Return the error of a job that cannot be launched as it is written."""
    return Refused(message, help, rule=f"launch.{rule}")


@dataclass(frozen=True)
class LaunchPlan:
    """A job, its nodes and the name of its run; what every launcher asks for."""

    job: TrainingJob
    nodes: tuple[Node, ...]
    run: str
    topology_path: str = ""
    """Where the topology files of nodes will be; empty: in the run directory."""
    machines: Mapping[str, NodeMachine] = field(default_factory=dict)
    """What guests show of their processors, memory and GPUs, by VM; without those that were not asked."""

    def __post_init__(self) -> None:
        """Refuse an address, which a guest may have reported, that a launcher would read as anything else."""
        for node in self.nodes:
            if node.address:
                host_address(f"address of the VM {node.vm}", node.address)

    @property
    def run_dir(self) -> str:
        """The run directory on each node."""
        return f"{RUNS}/{self.run}"

    @property
    def head(self) -> Node:
        """The node of rank 0."""
        return self.nodes[0]

    @cached_property
    def processes(self) -> tuple[int, ...]:
        """Processes of each node; `Refused` where they are more than its GPUs."""
        found, asked = [], self.job.processes_per_node
        for node in self.nodes:
            have = len(node.gpus)
            number = have if asked == "gpu" else int(asked)
            if number == 0:
                help = "give processes_per_node a number"
                raise refuse("no-gpu", f"{node.vm} has no GPU, and the job starts one process for each", help)
            if have and number > have:
                help = f"give processes_per_node at most {have}"
                message = f"{node.vm} has {counted(have, 'GPU')}, and the job starts {counted(number, 'process')}"
                raise refuse("too-many", message, help)
            found.append(number)
        return tuple(found)

    @cached_property
    def ranks(self) -> tuple[tuple[Rank, ...], ...]:
        """The ranks of each node."""
        every = ranks_of(self.processes)
        return tuple(tuple(r for r in every if r.node_rank == n) for n in range(len(self.nodes)))

    @property
    def world_size(self) -> int:
        """Processes of the job."""
        return sum(self.processes)

    def even(self, launcher: str) -> int:
        """Return the number of processes of every node; `Refused` where it differs."""
        if len(set(self.processes)) > 1:
            shown = ", ".join(f"{n.vm} {p}" for n, p in zip(self.nodes, self.processes, strict=True))
            help = "give processes_per_node a number"
            raise refuse("uneven", f"{launcher} starts as many processes on each node, and there are {shown}", help)
        return self.processes[0]

    def per_node_values(self, node: int) -> dict[str, object]:
        """Return the values of the placeholders that all processes of a node share."""
        values = {**values_of(self.ranks[node][0]), **self.per_job_values()}
        return {name: value for name, value in values.items() if name not in ("rank", "local_rank")}

    def per_job_values(self) -> dict[str, object]:
        """Return the values of the placeholders that all processes of the job share."""
        head = {"master_addr": self.head.address, "master_port": self.job.port}
        counts = {"world_size": self.world_size, "nodes": len(self.nodes)}
        return {**head, **counts, "run": self.run, "run_dir": self.run_dir}

    def what(self, values: Mapping[str, object]) -> tuple[tuple[str, ...], bool]:
        """Return the job's script, module or command with its arguments, and whether each process has to fill it in.

        That is so where a placeholder is left that is not in `values`.
        """
        half = tuple(filled(each, values) for each in self.job.what)
        if names_in(half):
            return half, True
        return tuple(final(each, values) for each in self.job.what), False

    def argv(self, what: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs the job's script, module or command directly."""
        job = self.job
        module = ("-m",) if job.module is not None else ()
        return tuple(what) if job.command is not None else (job.python, "-u", *module, *what)

    def by_rank_file(self, what: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs it with each process's own placeholders and variables."""
        return (self.job.python, f"{self.run_dir}/{RANK_FILE}", *self.argv(what))

    def program(self, name: str) -> str:
        """Return a program of the job's Python environment: it lies beside its Python where that has a path."""
        python = PurePosixPath(self.job.python)
        return str(python.parent / name) if len(python.parts) > 1 else name

    def nccl(self, node: int) -> tuple[Setting, ...]:
        """Return the NCCL settings of a node; a variable that the job sets itself is not among them."""
        job = self.job
        if job.nccl == "off":
            return ()
        own = {name for name, _ in job.env}
        options = job.nccl if isinstance(job.nccl, Nccl) else Nccl()
        found = nccl_settings(self.nodes[node], options, self.nodes)
        return tuple(s for s in (*found, *self._topology(node)) if s.name not in own)

    def _topology(self, node: int) -> Iterator[Setting]:
        if self.job.has_host_topology:
            missing = gaps(self.nodes[node])
            path = None if missing else self.topology_path or f"{self.run_dir}/{TOPOLOGY_FILE}"
            reason = (
                f"{missing[0]}; the start asks the guest"
                if missing
                else "the job says it: GPUs and NICs stand where the host has them"
            )
            yield Setting("NCCL_TOPO_FILE", path, reason, of_guest=bool(missing))

    def topology_files(self, node: int) -> tuple[NodeFile, ...]:
        """Return the topology file of a node, where the job asks for it and nothing is missing for it."""
        own = self.nodes[node]
        wanted = any(s.name == "NCCL_TOPO_FILE" and s.value for s in self._topology(node))
        return (NodeFile(TOPOLOGY_FILE, nccl_topo.file_for([own], nccl_topo.written(own))),) if wanted else ()

    def env(self, node: int) -> dict[str, str]:
        """Return the variables of a node: NCCL's and the job's; those that are secrets as references."""
        values, secrets = self.per_node_values(node), self.job.secrets
        own = {name: text if name in secrets else final(text, values) for name, text in self.job.env}
        return {s.name: s.value for s in self.nccl(node) if s.value is not None} | own

    def threads(self, node: int) -> dict[str, str]:
        """Return OMP_NUM_THREADS=1 where a node has several processes and the job does not set it, as torchrun does."""
        several = self.processes[node] > 1 and "OMP_NUM_THREADS" not in dict(self.job.env)
        return {"OMP_NUM_THREADS": "1"} if several else {}

    def interface(self) -> str:
        """Return the name of the control interface; empty where it is not known, or not the same on all nodes."""
        names = {node.interface for node in self.nodes}
        return names.pop() if len(names) == 1 else ""

    def networks(self) -> str:
        """Return what Open MPI takes as its control network: the interface, else the nodes' addresses."""
        return self.interface() or ",".join(f"{node.address}/32" for node in self.nodes)
