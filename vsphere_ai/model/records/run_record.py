"""Record of a run: what its journal holds of it beside steps and pending actions, written and read by these models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from vsphere_ai.model.steps import PendingKind

JsonObject = dict[str, JsonValue]


class _RecordModel(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class Scope(_RecordModel):
    """Scope of a run: the vCenter's name in the inventory and its address, and the ``--limit`` of the command."""

    vcenter: str = ""
    address: str = ""
    limit: str = ""


class LeftPending(_RecordModel):
    """A pending action that was given up when its run was closed."""

    kind: PendingKind
    name: str
    ref: str


class Closed(_RecordModel):
    """Who closed a run, when (UTC, ISO 8601), and what was pending then."""

    at: str
    by: str
    left: tuple[LeftPending, ...] = ()


class RunRecord(_RecordModel):
    """Facts of a run as a whole. Times are UTC, ISO 8601."""

    format: int = 0
    vsphere_ai: str = ""
    """Version of vsphere-ai that began it."""
    started: str = ""
    user: str = ""
    machine: str = ""
    pid: int = 0
    born: str = ""
    """Start of the process (see `process_id.born`)."""
    what: str = ""
    """The playbook or saved plan, or ``rollback RUN``."""
    inventory: str = ""
    scope: Scope = Scope.model_construct()
    instance: str = ""
    """Instance UUID of the vCenter."""
    rolls_back: str = ""
    """The run that this one rolls back."""
    takes_over: str = ""
    """The run whose pending actions became this one's when it began."""
    out_record: str = ""
    """The run under whose name vCenter keeps what this one has out of service; empty for its own name."""
    lock: Literal["none", "local", "vcenter"] | None = None
    resumed: str = ""
    """When the last attempt began; empty for a run that was not resumed."""
    ended: bool = False
    exit_code: int | None = None
    signal: int = 0
    stopped: str = ""
    """Why it was stopped with this signal, where the operator has not sent it."""
    skipped: int = 0
    """Steps that were not started because something failed or the operator stopped the run."""
    open: tuple[str, ...] = ()
    """What could not be reverted at its end, in sentences."""
    rolled_back: str | None = None
    """The run that rolled this one back; empty where there was nothing to revert."""
    closed: Closed | None = None


class RunDocuments(_RecordModel):
    """Documents of a run, written when it begins: the approved plan, and playbooks of after and before the run."""

    approved: JsonObject = {}
    """Read by `planning.document.Approved`."""
    desired: JsonObject = {}
    before: JsonObject = {}
