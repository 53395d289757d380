"""Documents of `launch`: commands of each node, how a run stands on its nodes, and what its processes wrote."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument


class NcclSettingDocument(DocumentPart):
    """A setting of NCCL, and why it has its value."""

    name: str
    value: Annotated[str | None, Field(description="null: not set.")]
    reason: str


class NodeFileDocument(DocumentPart):
    """A file that is written on a node."""

    name: str
    text: str
    executable: bool


class NodeProcessDocument(DocumentPart):
    """A process of a node, with its ranks."""

    name: str
    order: Annotated[int, Field(description="Processes of the same number are started together, 0 first.")]
    ranks: tuple[int, ...]
    argv: tuple[str, ...]
    env: dict[str, str]


class NodeLaunchDocument(DocumentPart):
    """What is started on a node."""

    rank: int
    vm: str
    address: str
    host: str | None
    gpus: int
    nccl: tuple[NcclSettingDocument, ...]
    processes: tuple[NodeProcessDocument, ...]
    files: tuple[NodeFileDocument, ...]


class LaunchDocument(PrintedDocument):
    """What `launch MODE --dry-run` prints."""

    printed_by: ClassVar = ("launch --dry-run",)

    job: str
    mode: str
    run: str
    notes: tuple[str, ...]
    nodes: tuple[NodeLaunchDocument, ...]


class StepsDocument(DocumentPart):
    """Steps that a log shows: the last one, and seconds since it and between two of them."""

    step: int
    age: float
    mean: float | None


class NodeErrorDocument(DocumentPart):
    """Why a node could not be asked."""

    rule: str
    message: str


class NodeStateDocument(DocumentPart):
    """How a run stands on a node; where the node could not be asked, it has an error and nothing else."""

    rank: int
    vm: str
    host: str | None
    error: NodeErrorDocument | None = None
    state: Annotated[str, Field(description="waiting, running, stopping, stopped, ended or unknown.")] = ""
    processes: dict[str, int | None] = Field(default_factory=dict, description="Exit codes; null: it runs.")
    left: Annotated[tuple[int, ...], Field(description="Processes that could not be ended.")] = ()
    unsure: Annotated[bool, Field(description="Whether a GPU still has a process of the run is not known.")] = False
    steps: dict[str, StepsDocument] = Field(default_factory=dict, description="By log.")
    supervisor: Annotated[bool, Field(description="Whether the supervisor of the run is alive.")] = False


class SuspectDocument(DocumentPart):
    """A rank that others may wait for; null is what is not known."""

    rank: int | None
    vm: str
    host: str | None
    gpu: Annotated[str | None, Field(description="PCI address on the host.")]
    pid: int | None
    reason: str


class ProgressDocument(DocumentPart):
    """Whether a run gets on."""

    verdict: Literal["going", "stalled", "hung", "unknown"]
    reason: str
    suspects: tuple[SuspectDocument, ...]
    notes: tuple[str, ...]


class JobRunDocument(PrintedDocument):
    """How a run of a job stands: what `launch status`, `launch stop` and `launch MODE` print."""

    printed_by: ClassVar = ("launch", "launch status", "launch stop")

    run: str
    outcome: Annotated[str | None, Field(description="done, failed or stopped; null: not ended, or not known.")]
    reason: str | None
    attempt: int
    over: Annotated[bool, Field(description="Whether no process of it runs any more.")]
    progress: Annotated[ProgressDocument | None, Field(description="null: it was not looked at.")]
    scripts: Annotated[
        dict[str, dict[str, tuple[str, ...]]], Field(description="File of the job -> its SHA-256 -> VMs that have it.")
    ]
    lost: Annotated[dict[str, str], Field(description="VMs without which it goes on, and why.")]
    nodes: tuple[NodeStateDocument, ...]


class LogsDocument(PrintedDocument):
    """What `launch logs` prints."""

    printed_by: ClassVar = ("launch logs",)

    run: str
    logs: Annotated[
        dict[str, dict[str, str] | None], Field(description="VM -> file -> its end; null: the VM cannot be asked.")
    ]
