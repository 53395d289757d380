"""Lines of a run as JSON: a header, one line per event, and a summary as the last line."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedLine, SchemaVersion

RUNS = ("apply", "resume", "rollback", "destroy", "replace", "adopt", "bench crossover")
"""Commands that carry out a run."""


class TargetLine(DocumentPart):
    """A host, a VM or a datacenter; `ref` is its managed object reference."""

    kind: Literal["host", "vm", "datacenter"]
    name: str
    ref: str


class WorldLine(DocumentPart):
    """The vCenter of a run by its name in the inventory, with the user there, and how the inventory was found."""

    name: str
    address: str
    user: str
    inventory: str
    found: str
    lab: bool


class RunLine(PrintedLine):
    """The first line. `digest` is the plan's, `steps` how many it has; `run` names the journal, when there is one.

    `world` is the vCenter; a command that ended before it had a plan names none.
    """

    printed_by: ClassVar = RUNS

    type: Literal["run"]
    schema_version: SchemaVersion
    digest: str
    steps: int
    run: str
    world: WorldLine | None = None


class EventLine(PrintedLine):
    """One event. Without `step` it is about the run as a whole; `seconds` counts from the start of the step.

    `rule` is the id of an error or of a reason: the text may change, the id does not.
    """

    printed_by: ClassVar = RUNS

    type: Literal["event"]
    time: str
    what: Literal["start", "progress", "done", "failed", "unknown", "skipped", "waiting", "stopping", "reverted"]
    text: str
    seconds: float
    rule: str = ""
    step: str = ""
    target: TargetLine | None = None
    summary: str = ""


class OutcomeLine(DocumentPart):
    """Outcome of one step: `error` is what stopped it, `reason` why it was not started.

    Of a health gate that is done, `reason` names the VMs that were not checked. `rule` is the id of error or reason.
    """

    step: str
    target: str
    state: Literal["done", "failed", "unknown", "skipped"]
    error: str | None
    reason: str
    rule: str


class RemarkLine(DocumentPart):
    """Something that was said on standard error, with the id of what it is about."""

    rule: str
    text: str


class SummaryLine(PrintedLine):
    """The last line. `verified` names the targets that were read back as planned, `open` what could not be put back.

    `put_back` says what was put back at the end of a run that did not reach the steps for it: hosts out of maintenance
    mode, VMs powered on, SSH stopped. `external_changes` says which power states and services another user had changed
    before the run came to them; they are not changed, and their steps are among the skipped ones. `error` is what ended
    a command that began no run, `rule` its id. `remarks` were made on standard error.
    """

    printed_by: ClassVar = RUNS

    type: Literal["summary"]
    exit_code: int
    seconds: float
    done: int
    failed: int
    unknown: int
    skipped: int
    interrupted: bool
    verified: tuple[str, ...]
    open: tuple[str, ...]
    put_back: tuple[str, ...]
    external_changes: tuple[str, ...]
    outcomes: tuple[OutcomeLine, ...]
    remarks: tuple[RemarkLine, ...]
    error: Annotated[str, Field(description="Only where it began no run.")] = ""
    rule: str = ""
