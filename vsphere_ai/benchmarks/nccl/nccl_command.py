"""Command line of a trial with nccl-tests: mpirun on the first VM, a process per GPU, and the variables of NCCL.

Flags are those of Open MPI 4 and 5. MPI talks over TCP on the control network, so that it is not on the RDMA devices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.benchmarks.nccl.collectives import COLLECTIVES, TYPES
from vsphere_ai.benchmarks.slow_part.layers import LAYERS
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.errors import UsageError
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.nodes import Node

REDUCTIONS = ("sum", "prod", "min", "max", "avg", "mulsum")
_SIZE = re.compile(r"\d{1,15}[KMGT]?", re.IGNORECASE)


@dataclass(frozen=True)
class NcclTest:
    """What is run: a collective from `least` to `most` bytes (``8``, ``1G``), each size times `factor`.

    `gpus` is the number of GPUs per VM, None: all. `folder` is where the programs are; empty: in the PATH of the
    guest. `suffix` is that of programs built with MPI. `type` of the numbers, `reduction` and `root` are those of the
    collective; `check`: results are compared with the right ones; `graph` is how often a CUDA graph is replayed, 0: no
    graph. `UsageError` for what nccl-tests cannot take.
    """

    operation: str = "all_reduce"
    least: str = "8"
    most: str = "8G"
    factor: int = 2
    iterations: int = 20
    warmup: int = 5
    gpus: int | None = None
    folder: str = ""
    suffix: str = ""
    type: str = "float"
    reduction: str = "sum"
    root: int = 0
    check: bool = True
    graph: int = 0

    def __post_init__(self) -> None:
        if self.operation not in COLLECTIVES:
            raise UsageError(f"there is no collective '{self.operation}'", f"there are: {', '.join(COLLECTIVES)}")
        for size in (self.least, self.most):
            if not _SIZE.fullmatch(size):
                raise UsageError(f"'{size}' is no size", "give bytes such as 8, 64M or 8G")
        if _bytes(self.least) > _bytes(self.most):
            raise UsageError(f"the smallest size {self.least} is above the largest {self.most}", "exchange them")
        for what, name, known in (("type", self.type, tuple(TYPES)), ("reduction", self.reduction, REDUCTIONS)):
            if name not in known:
                raise UsageError(f"nccl-tests has no {what} '{name}'", f"there are: {', '.join(known)}")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the program; those of its defaults are left out, but for sizes, iterations and warm-up."""
        usual = ("-d", self.type, "float"), ("-o", self.reduction, "sum"), ("-r", self.root, 0), ("-G", self.graph, 0)
        more = [word for flag, value, default in usual if value != default for word in (flag, str(value))]
        more += [] if self.check else ["-c", "0"]
        sizes = ("-b", self.least, "-e", self.most, "-f", str(self.factor), "-g", "1")
        return (*sizes, "-n", str(self.iterations), "-w", str(self.warmup), *more)

    @property
    def program(self) -> str:
        """Path of the program in the guest."""
        name = f"{COLLECTIVES[self.operation].program}{self.suffix}"
        return f"{self.folder.rstrip('/')}/{name}" if self.folder else name


def _bytes(size: str) -> int:
    """Return the bytes of a size as nccl-tests reads it."""
    unit = "KMGT".find(size[-1].upper()) + 1
    return int(size[:-1] if unit else size) << (10 * unit)


def processes(test: NcclTest, trial: Trial, nodes: Mapping[str, Node]) -> int:
    """Return the processes per VM, one per GPU: the fewest GPUs of a VM; `UsageError` where no number is known."""
    if trial.gpus:
        return len(trial.gpus)
    known = test.gpus or min(len(nodes[vm].gpus) for vm in trial.vms)
    if not known:
        lacking = ", ".join(vm for vm in trial.vms if not nodes[vm].gpus)
        raise UsageError(f"how many GPUs have {lacking}?", "give --gpus", rule="usage.gpus")
    return known


def ranks_of(test: NcclTest, trial: Trial, nodes: Mapping[str, Node]) -> int:
    """Return the number of ranks of a trial."""
    return processes(test, trial, nodes) * len(trial.vms)


def command(
    test: NcclTest, trial: Trial, nodes: Mapping[str, Node], settings: Mapping[str, str], agent: str = ""
) -> tuple[str, ...]:
    """Return the argv of a trial, for the first of its VMs; `settings` are variables for NCCL.

    `agent` is the command with which mpirun logs in to the other VMs, empty: ssh as the guest has it.
    """
    each = processes(test, trial, nodes)
    hosts = ",".join(f"{nodes[vm].address}:{each}" for vm in trial.vms)
    variables = {"NCCL_DEBUG": "INFO", **settings, **_restricted(trial, nodes)}
    argv = ["mpirun", "-np", str(each * len(trial.vms)), "-H", hosts, "--map-by", f"ppr:{each}:node"]
    argv += ["--bind-to", "none", "--mca", "btl", "tcp,self", "--mca", "plm_rsh_no_tree_spawn", "1"]
    control = {nodes[vm].interface for vm in trial.vms}
    own = next(iter(control)) if len(control) == 1 else ""
    if name := own or ",".join(f"{nodes[vm].address}/32" for vm in trial.vms if ":" not in nodes[vm].address):
        argv += ["--mca", "btl_tcp_if_include", name, "--mca", "oob_tcp_if_include", name]
    if agent and len(trial.vms) > 1:
        argv += ["--mca", "plm_rsh_agent", agent]
    for variable, value in variables.items():
        argv += ["-x", f"{variable}={value}"]
    return (*argv, "-x", "LD_LIBRARY_PATH", test.program, *test.arguments)


def _restricted(trial: Trial, nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return the variables that restrict a trial to some rails, GPUs, or ways."""
    found = dict(LAYERS.get(trial.layer, {}))
    if trial.gpus:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, trial.gpus))
    if trial.rails:
        found["NCCL_IB_HCA"] = "=" + ",".join(hcas_of([nodes[vm] for vm in trial.vms], trial.rails))
    return found


def hcas_of(nodes: Sequence[Node], rails: Sequence[int]) -> list[str]:
    """Return the RDMA devices of some rails; `UsageError` where the VMs do not name them alike."""
    named = {
        node.vm: [f"{r.rdma_device}:{r.port}" for n in rails for r in node.rails if r.number == n and r.rdma_device]
        for node in nodes
    }
    first = next(iter(named.values()), [])
    other = next((vm for vm, devices in named.items() if devices != first or len(devices) != len(rails)), None)
    if other is not None:
        text = f"the RDMA devices of rails {', '.join(map(str, rails))} of {other} differ or are not known"
        raise UsageError(text, f"see: vsphere-ai health {shell_word(other)}")
    return first
