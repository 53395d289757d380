"""Job: what a file ``job.yml`` says of a distributed training run; names, limits and defaults of its keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from vsphere_ai.security.secret_ref import is_reference
from vsphere_ai.training.placeholders import PER_RANK, names_in, require_known

MODES = ("torchrun", "env", "mpi", "horovod", "deepspeed", "accelerate", "lightning", "tensorflow")
Mode = Literal["torchrun", "env", "mpi", "horovod", "deepspeed", "accelerate", "lightning", "tensorflow"]
DEFAULT_PORT = 29500
"""Port of rank 0: PyTorch's and DeepSpeed's default."""
CONTROL_PORT = 29555
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}")
_ELASTIC = re.compile(r"([1-9]\d{0,3}):([1-9]\d{0,3})")
_SCRIPT = re.compile(r"/[^{}\n]*\.(?:py|sh|bash)")
_DURATION = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?")


def _matching(pattern: re.Pattern[str], what: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"'{text}' is no {what}\nit matches {pattern.pattern}")
        return text

    return AfterValidator(check)


def _argument(value: object) -> object:
    """Take a number as it is written; text must be one line with placeholders that there are."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        if "\n" in value:
            raise ValueError("an argument is one line\nput longer text into a file on the nodes")
        require_known(value)
    return value


def _seconds(value: object) -> object:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None or not value:
        raise ValueError("this is not a time\nwrite a number and a unit: 90s, 30m, 1h30m")
    return sum(int(number) * unit for number, unit in zip(found.groups(), (3600, 60, 1), strict=True) if number)


def _elastic(text: str) -> str:
    found = _ELASTIC.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        raise ValueError(f"'{text}' is no range of nodes\nwrite e.g. 2:4, the fewest and the most nodes")
    return text


def _path(text: str) -> str:
    if not text.startswith("/") or "\n" in text:
        raise ValueError(f"'{text}' is no absolute path\nwrite the path on the nodes, such as /shared/train.py")
    return str(PurePosixPath(text))


def _variables(value: object) -> object:
    """Take variables of a mapping: numbers as they are written."""
    if not isinstance(value, dict):
        return value
    for name in value:
        if not _VARIABLE.fullmatch(str(name)):
            raise ValueError(f"'{name}' is no name of a variable\nwrite letters, digits and _")
    return tuple((name, _argument(each)) for name, each in value.items())


def _items(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _command(value: Sequence[str]) -> Sequence[str]:
    if not value:
        raise ValueError("this must not be empty\nwrite a program and its arguments: [/usr/bin/program, --flag]")
    return value


Name = Annotated[str, _matching(_NAME, "name of a job")]
Path = Annotated[str, AfterValidator(_path)]
Argument = Annotated[str, BeforeValidator(_argument)]
Arguments = Annotated[tuple[Argument, ...], BeforeValidator(_items)]
Command = Annotated[Arguments, AfterValidator(_command)]
Seconds = Annotated[int, BeforeValidator(_seconds)]
Interface = Annotated[str, _matching(_INTERFACE, "name of an interface")]
Device = Annotated[str, _matching(_DEVICE, "name of an RDMA device")]
Address = Annotated[str, _matching(_HOST, "address or host name")]
Port = Annotated[int, Field(ge=1024, le=65535)]
Variables = Annotated[tuple[tuple[str, Argument], ...], BeforeValidator(_variables)]


class JobPart(BaseModel):
    """A part of a job."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)


class OwnRail(JobPart):
    """A NIC for training traffic of a node that the job lists itself."""

    interface: Interface
    rdma_device: Device | Literal[""] = ""
    address: Address | Literal[""] = ""
    rail: int | None = Field(default=None, ge=1, le=64)
    port: int = Field(default=1, ge=1, le=8)
    gid_index: int | None = Field(default=None, ge=0, le=255)


class OwnNode(JobPart):
    """A node that the job lists itself: a machine that no set makes."""

    name: Name
    address: Address
    interface: Interface | Literal[""] = ""
    gpus: int = Field(default=0, ge=0, le=64)
    rails: Annotated[tuple[OwnRail, ...], BeforeValidator(_items)] = ()


class SetNodes(JobPart):
    """The VMs of a set are the nodes, in the order of their indexes; `nic` is the one for SSH and control traffic."""

    playbook: str = Field(min_length=1)
    set: str = Field(min_length=1)
    nic: str = ""


class Nccl(JobPart):
    """Choices for NCCL that its settings cannot take from the nodes."""

    transport: Literal["rdma", "tcp"] = "rdma"
    traffic_class: int | None = Field(default=None, ge=0, le=255)
    """As in the quality of service of the switches: NCCL_IB_TC."""
    gdr_level: Literal["LOC", "PIX", "PXB", "PHB", "SYS"] | None = None
    """The largest distance between GPU and NIC at which GPUDirect RDMA is used."""
    queue_pairs: int | None = Field(default=None, ge=1, le=128)
    """Queue pairs per connection: 2 to 4 on a fabric that spreads flows over paths (ECMP)."""
    gid_index: Literal["auto", "set"] = "auto"
    """`set`: give the GID index, for a NCCL that does not find RoCE v2 by itself."""
    topology_file: Path | None = None
    topology: Literal["guest", "host"] = "guest"
    """`host`: each node is given a topology file that is written from the PCI and NUMA tree of its ESXi host."""
    debug: Literal["VERSION", "WARN", "INFO", "TRACE"] | None = None

    @model_validator(mode="after")
    def _one_topology(self) -> Nccl:
        if self.topology == "host" and self.topology_file is not None:
            raise ValueError("topology: host writes the file that topology_file names\nleave one of them out")
        return self


class Torchrun(JobPart):
    """Options of torchrun; `elastic` is the fewest and the most nodes, as ``2:4``."""

    elastic: Annotated[str, AfterValidator(_elastic)] | None = None
    max_restarts: int = Field(default=0, ge=0, le=1000)
    legacy: bool = False
    rendezvous_port: Port = 29400


class Mpi(JobPart):
    """Options of mpirun and of Horovod."""

    ssh_mesh: bool = False
    """A key for this run only lets rank 0's node log in to the others; it is removed after the run."""
    arguments: Arguments = ()
    via: Literal["horovodrun", "mpirun"] = "horovodrun"
    """How Horovod is started."""


class Deepspeed(JobPart):
    """Options of DeepSpeed; `no_ssh`: its launcher is started on every node by this tool."""

    via: Literal["no_ssh", "pdsh", "openmpi"] = "no_ssh"
    arguments: Arguments = ()


class Accelerate(JobPart):
    """Options of Accelerate."""

    distributed_type: Literal["MULTI_GPU", "DEEPSPEED", "FSDP"] = "MULTI_GPU"
    mixed_precision: Literal["no", "fp16", "bf16", "fp8"] = "no"


class Lightning(JobPart):
    """How processes of Lightning are started."""

    via: Literal["torchrun", "env"] = "torchrun"


class Tensorflow(JobPart):
    """Tasks of TensorFlow; without `workers` one per node. The first worker is the chief where `chief` says so."""

    workers: int | None = Field(default=None, ge=1, le=4096)
    parameter_servers: int = Field(default=0, ge=0, le=4096)
    chief: bool = False
    port: Port = 2222


class Checkpoint(JobPart):
    """Where a job writes its checkpoints: the newest entry of `dir` shows whether it made progress."""

    dir: Path


STEP = (
    r"\biteration\s+(\d+)\s*/"
    r"|(?i:\b(?:global[ _-]?step|steps?|iter(?:ation)?)\b['\"]?\s*[:=#]?\s*\[?\s*(\d+))"
    r"|(?i:\bepoch:?\s*\[\d+\]\s*\[\s*(\d+)/)"
    r"|\|\s*(\d+)/\d+\s*\["
)
"""Steps in the logs of Megatron-LM, of programs that write `step 12` or `iter: 12`, of PyTorch's examples, of tqdm."""


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as fault:
        raise ValueError(f"this is no regular expression: {fault}\nwrite e.g. 'step=(\\d+)'") from None
    if not groups:
        raise ValueError(r"the number of the step needs a group" "\n" r"write e.g. 'step=(\d+)'")
    return text


class StepPattern(JobPart):
    """How logs show a step, and after how long without one a job is stalled.

    `stall` is how many mean steps, `at_least` the seconds below which no job is stalled; the mean leaves out the
    `warm_up` first steps. Source of the rule: NVIDIA's cluster-readiness-engine, adaptive stall detection.
    """

    pattern: Annotated[str, AfterValidator(_pattern)] = STEP
    warm_up: int = Field(default=3, ge=1, le=10_000)
    stall: float = Field(default=3.0, gt=1, le=1000)
    at_least: Seconds = 30


class TrainingJob(JobPart):
    """A job. One of `script` (a Python file), `module` and `command` is what runs; paths are those of the nodes."""

    training_job: Name
    nodes: SetNodes | Annotated[tuple[OwnNode, ...], Field(min_length=1), BeforeValidator(_items)]
    script: Path | None = None
    module: Annotated[str, _matching(re.compile(r"[A-Za-z_][\w.]*"), "Python module")] | None = None
    command: Command | None = None
    args: Arguments = ()
    python: Annotated[str, _matching(re.compile(r"[A-Za-z0-9_./+-]+"), "path of Python")] = "python3"
    workdir: Path | None = None
    env: Variables = ()
    processes_per_node: Literal["gpu"] | Annotated[int, Field(ge=1, le=256)] = "gpu"
    port: Port = DEFAULT_PORT
    control_port: Port = CONTROL_PORT
    """Port of rank 0's node on which the nodes hear of each other's processes."""
    nccl: Literal["auto", "off"] | Nccl = "auto"
    start: Literal["together", "head_first", "head_last"] = "together"
    done_when: Literal["all", "head"] = "all"
    """`head`: rank 0's node ending well ends the job, and the others are stopped."""
    grace: Seconds = 10
    """Seconds between the request to end and the kill."""
    resume_cmd: Command | None = None
    checkpoint: Checkpoint | None = None
    shared: Annotated[tuple[Path, ...], BeforeValidator(_items)] = ()
    """Folders that every node has to have."""
    steps: StepPattern = StepPattern()
    torchrun: Torchrun = Torchrun()
    mpi: Mpi = Mpi()
    deepspeed: Deepspeed = Deepspeed()
    accelerate: Accelerate = Accelerate()
    lightning: Lightning = Lightning()
    tensorflow: Tensorflow = Tensorflow()

    @model_validator(mode="after")
    def _whole(self) -> TrainingJob:
        if sum(each is not None for each in (self.script, self.module, self.command)) != 1:
            raise ValueError("a job runs one thing\nwrite one of script: FILE.py, module: NAME, command: [...]")
        if self.command is not None and self.args:
            raise ValueError("'args' are those of a script or a module\nwrite them in the command")
        if self.script is not None and self.resume_cmd is not None and not self.resume_cmd[0].startswith("/"):
            raise ValueError("resume_cmd begins with the script\nwrite its path on the nodes, then its arguments")
        if not isinstance(self.nodes, SetNodes):
            names = [node.name for node in self.nodes]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"the node '{twice}' is listed twice\nlist each node once")
        for name, text in self.env:
            used = [each for each in names_in([text]) if each in PER_RANK]
            if used:
                raise ValueError(
                    f"the variable {name} is the same for all processes of a node, and {{{used[0]}}} is not\n"
                    "give it as an argument of the command"
                )
        return self

    @property
    def what(self) -> tuple[str, ...]:
        """The script, module or command with its arguments, placeholders included."""
        return self.command or (self.script or self.module or "", *self.args)

    @property
    def secrets(self) -> dict[str, str]:
        """The references of variables whose values are secrets, by their names; a URL of a file is none."""
        return {name: text for name, text in self.env if is_reference(text) and not text.startswith("file://")}

    @property
    def has_host_topology(self) -> bool:
        """Whether each node is given the topology of its host."""
        return isinstance(self.nccl, Nccl) and self.nccl.topology == "host"

    @property
    def scripts(self) -> tuple[str, ...]:
        """The files that the job runs, by their paths on the nodes; they have to be the same on every node."""
        words = (*((self.script,) if self.script else ()), *(self.command or ()), *(self.resume_cmd or ()))
        found = (each for each in words if each == self.script or _SCRIPT.fullmatch(each))
        return tuple(dict.fromkeys(found))

    def resumed(self) -> TrainingJob | None:
        """Return the job as it goes on after a failure; None where it does not say how."""
        if self.resume_cmd is None:
            return None
        first, *others = self.resume_cmd
        if self.command is not None:
            return self.model_copy(update={"command": self.resume_cmd})
        return self.model_copy(update={"script" if self.script is not None else "module": first, "args": tuple(others)})
