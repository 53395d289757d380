"""Documents of the lab: its process, its environment as it is, its faults, and its verdict on what was done in it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument

ProcessResult = Literal["started", "running", "would-start", "stopped", "would-stop", "not-running"]


class LabProcessDocument(PrintedDocument):
    """What `lab up` and `lab down` print."""

    printed_by: ClassVar = ("lab up", "lab down")

    result: Annotated[
        ProcessResult,
        Field(description="running: it ran already. would-…: --dry-run."),
    ]
    scenario: Annotated[str | None, Field(description="null: that of the package, or no lab runs.")]
    pid: int | None = None
    url: Annotated[str | None, Field(description="Of the vCenter.")] = None
    folder: Annotated[str | None, Field(description="Connection data, certificate and passwords.")] = None
    run_jobs: bool | None = None


class LabResetDocument(PrintedDocument):
    """What `lab reset` prints."""

    printed_by: ClassVar = ("lab reset",)

    scenario: str
    reset: Annotated[bool, Field(description="false: --dry-run.")]
    changes: Annotated[int, Field(description="Changes that the lab forgets.")]


class LabMarkDocument(PrintedDocument):
    """What `lab mark` prints."""

    printed_by: ClassVar = ("lab mark",)

    since: Annotated[int, Field(description="Judged is what comes after this change.")]
    marked: Annotated[bool, Field(description="false: --dry-run.")]


class LabDefectsDocument(PrintedDocument):
    """What `lab plant` prints."""

    printed_by: ClassVar = ("lab plant",)

    defects: Annotated[tuple[dict[str, JsonValue], ...], Field(description="As in a scenario.")]
    planted: Annotated[bool, Field(description="false: --dry-run; the lab has other ones.")]


class LabVcenter(DocumentPart):
    """The simulated vCenter."""

    version: str
    api: str


class LabSsh(DocumentPart):
    """SSH of a host."""

    running: bool
    policy: str
    address: str
    login_attempts: int


class LabGraphics(DocumentPart):
    """Host graphics."""

    default: str
    policy: str


class LabMig(DocumentPart):
    """Whether MIG is on, and will be after a reset."""

    capable: bool
    current: bool
    pending: bool


class LabInstance(DocumentPart):
    """A GPU instance."""

    id: int
    profile: str
    start: int
    size: int
    vm: Annotated[str | None, Field(description="The VM that uses it; null or empty: none.")]


class LabGpuState(DocumentPart):
    """A GPU of a host."""

    pci: str
    name: str
    board: str
    configured: str
    active: str
    mig: LabMig
    instances: tuple[LabInstance, ...]
    vms: tuple[str, ...]


class LabPvrdmaHost(DocumentPart):
    """What a host has for PVRDMA."""

    vmknic: str
    firewall: bool


class LabHostState(DocumentPart):
    """A host."""

    name: str
    ref: str
    cluster: Annotated[str, Field(description='"": none.')]
    version: str
    state: str
    maintenance: bool
    boot_time: str
    reboot_required: bool
    ssh: LabSsh
    graphics: LabGraphics
    gpus: tuple[LabGpuState, ...]
    pvrdma: LabPvrdmaHost


class LabPvrdmaAdapter(DocumentPart):
    """A PVRDMA adapter of a VM."""

    port_group: str
    protocol: str | None
    mac: str


class LabVmState(DocumentPart):
    """A VM."""

    name: str
    ref: str
    folder: str
    host: str
    power: str
    hardware: str
    firmware: str | None
    memory_mb: int
    memory_reserved_mb: int | None
    tools: str | None
    vgpu: tuple[str, ...]
    pvrdma: tuple[LabPvrdmaAdapter, ...]
    extra_config: dict[str, JsonValue]


class LabChange(DocumentPart):
    """A change that took effect."""

    number: int
    time: str
    object: str
    call: str
    detail: dict[str, JsonValue]
    channel: str
    ref: str
    operation: str


class LabStatusDocument(PrintedDocument):
    """What `lab status` prints."""

    printed_by: ClassVar = ("lab status",)

    scenario: str
    vcenter: LabVcenter
    hosts: tuple[LabHostState, ...]
    vms: tuple[LabVmState, ...]
    ledger: Annotated[int, Field(description="Changes that took effect.")]
    logins: int
    refused_logins: int
    sessions: int
    ledger_entries: tuple[LabChange, ...] = ()


class LabFaultRule(DocumentPart):
    """A rule, how often it was met, and how often it fired."""

    number: int
    rule: str
    met: int
    fired: int


class LabFiredFault(DocumentPart):
    """A fault that fired."""

    number: int
    time: str
    rule: Annotated[int, Field(description="Number of the rule.")]
    event: str
    object: str
    do: str
    when: str
    ledger: Annotated[int, Field(description="Changes before it.")]


class LabFaultsDocument(PrintedDocument):
    """What `lab faults` prints: the rules that there are."""

    printed_by: ClassVar = ("lab faults list", "lab faults")

    seed: int
    rules: tuple[LabFaultRule, ...]
    fired: tuple[LabFiredFault, ...]


class LabFaultsTriedDocument(PrintedDocument):
    """What `lab faults set`, `add`, `release` and `clear` print with --dry-run."""

    printed_by: ClassVar = tuple(f"lab faults {name} --dry-run" for name in ("set", "add", "release", "clear"))

    rules: Annotated[int, Field(description="Rules that would be set, added, released or removed.")]
    dry_run: Literal[True] = True


class LabInvariant(DocumentPart):
    """What must hold of a run, and what was found against it."""

    name: str
    demands: str
    ok: bool
    findings: tuple[str, ...]
    seen: str


class LabVerdictDocument(PrintedDocument):
    """What `lab judge` prints."""

    printed_by: ClassVar = ("lab judge",)

    since: Annotated[int, Field(description="Judged is what came after this entry of the ledger.")]
    entries: int
    ok: bool
    invariants: tuple[LabInvariant, ...]
