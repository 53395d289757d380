"""Document of a run: everything that its journal holds of it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.documents.runs.summaries import RunSummaryDocument
from vsphere_ai.model.steps import PendingKind
from vsphere_ai.model.variables import VariableValue
from vsphere_ai.model.world import World
from vsphere_ai.planning.document import ItemDocument
from vsphere_ai.planning.scheduling.expected_time import Estimate
from vsphere_ai.planning.scheduling.placed import PlacedHost
from vsphere_ai.planning.scheduling.schedule import Impact


class RunScopeDocument(DocumentPart):
    """What narrowed a run: the inventory, the vCenter in it, and the limit."""

    inventory: str
    vcenter: str
    address: str
    limit: str


class ApprovedPart(DocumentPart):
    """What of the approved plan is shown."""

    items: tuple[ItemDocument, ...]
    impact: Impact
    placed: Annotated[tuple[PlacedHost, ...], Field(description="Hosts with the VMs that were on them.")] = ()
    expected: Estimate | None = None
    variables: tuple[VariableValue, ...] = ()


class BegunStepDocument(DocumentPart):
    """A step that was begun; in state `begun` its outcome is not known. Times are UTC, ISO 8601."""

    attempt: int
    id: str
    target: str
    ref: str
    summary: str
    what: Annotated[str, Field(description="Its type.")]
    kinds: Annotated[str, Field(description="The kinds it serves, separated by spaces.")]
    state: str
    began: str
    ended: str | None
    error: str | None
    task: Annotated[str | None, Field(description="The last task that vCenter made of it.")]


class StepNameDocument(DocumentPart):
    """A step that was not begun."""

    id: str
    target: str
    summary: str


class PendingActionDocument(DocumentPart):
    """A pending action, or one that was; times are UTC, ISO 8601."""

    kind: PendingKind
    name: str
    ref: str
    detail: str
    opened: str
    sent: Annotated[str | None, Field(description="When the command that causes it was sent; null: never.")]
    closed: Annotated[str | None, Field(description="null: it is pending.")]


class RunDocument(RunSummaryDocument, PrintedDocument):
    """What `run show` prints."""

    printed_by: ClassVar = ("run show",)

    world: Annotated[World | None, Field(description="The vCenter as the inventory has it.")] = None
    ended: Annotated[str | None, Field(description="null: it has not ended, or was cut off.")]
    attempts: int
    signal: int | None
    stopped: Annotated[str, Field(description="Why it was stopped, where the operator has not sent the signal.")] = ""
    open: Annotated[tuple[str, ...], Field(description="What could not be put back at its end, in sentences.")]
    operation: Annotated[str, Field(description="Its name in vCenter's tasks and logs.")]
    lock: Literal["none", "local", "vcenter"] | None
    process: int
    vsphere_ai: str
    scope: RunScopeDocument
    approved: ApprovedPart
    steps: tuple[BegunStepDocument, ...]
    not_begun: tuple[StepNameDocument, ...]
    pending_actions: tuple[PendingActionDocument, ...]
    journal: str
