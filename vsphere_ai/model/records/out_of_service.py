"""Record of what a run has out of service, as it is written in vCenter: any machine can put it back from that alone."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.model.steps import PendingKind

FORMAT = 1
AHEAD: tuple[PendingKind, ...] = ("maintenance", "off", "ssh", "service")
"""Kinds that are written for a whole window before its first act."""
ALONE: tuple[PendingKind, ...] = ("reboot", "ssh-on", "moved")
"""Kinds that are written when their step begins: what they need to know is known only then."""
KINDS = (*AHEAD, *ALONE)
"""Kinds that are written in vCenter; a health gate follows from maintenance mode, and a restart puts nothing back."""


class _Model(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")


class OutItem(_Model):
    """One thing that is out of service, or about to be; see `pending.Pending`."""

    kind: PendingKind
    of: TargetKind
    name: str
    ref: str
    detail: str = ""
    at: str = ""
    """When it was written (UTC, ISO 8601, clock of the machine of the run)."""
    uuid: str = ""
    """Instance UUID of a VM, by which it is found after it has got another reference."""

    @property
    def key(self) -> tuple[PendingKind, str]:
        """Kind and reference, which no other item of the run has."""
        return self.kind, self.ref

    @property
    def pending(self) -> Pending:
        """The pending action that it is."""
        return Pending(self.kind, Target(self.of, self.name, self.ref), self.detail)

    @classmethod
    def of_pending(cls, pending: Pending, at: str, uuid: str = "") -> OutItem:
        """Return what is written of a pending action."""
        target = pending.target
        return cls(
            kind=pending.kind,
            of=target.kind,
            name=target.name,
            ref=target.ref,
            detail=pending.detail,
            at=at,
            uuid=uuid,
        )


class OutOfService(_Model):
    """What a run has out of service. Times are UTC, ISO 8601."""

    format: Literal[1] = 1
    run: str
    what: str = ""
    """The playbook or saved plan."""
    user: str = ""
    machine: str = ""
    pid: int = 0
    born: str = ""
    """Start of its process (see `process_id.born`)."""
    written: str = ""
    items: tuple[OutItem, ...] = ()
    before: tuple[JsonValue, ...] = ()
    """What the health of its hosts is measured by (`planning.health.Found`), as JSON."""

    @property
    def holder(self) -> str:
        """Who the run was, in words."""
        return f"run {self.run} of {self.user} on {self.machine}"
