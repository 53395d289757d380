"""Pending actions: temporary changes of a run that it has to revert; a step opens one, another step closes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke, PendingKind, Reboot, StartSsh, Step

PENDING = {  # what follows the name of a target in a sentence
    "maintenance": "is in maintenance mode because of this run",
    "ssh": "has SSH running because of this run",
    "ssh-on": "had SSH running before this run rebooted it",
    "service": "has a service stopped by this run while its settings change",
    "off": "was powered off by this run",
    "moved": "was moved to another host by this run",
    "reboot": "has not returned after reboot",
    "restart": "has been changed by this run in a way that counts from its next restart on",
    "gate": "was taken out of service by this run and not seen healthy since",
    "lock": "is the lock of this run in vCenter",
}
OUT_OF_SERVICE = frozenset({"maintenance", "off", "moved", "reboot", "restart"})
"""Kinds of a target that vCenter shows otherwise than it was before the run, or that is about to change."""


@dataclass(frozen=True)
class Pending:
    """One pending action of a target. `detail` of a reboot, and of a restart, is the boot time before it.

    `detail` of a `service` is its key: it was running, and is stopped while its settings change.
    A `restart` is pending after a change that counts only from the next one on, which vCenter may not show. A `gate`
    is pending from entering maintenance mode on, until the host was seen healthy again.
    """

    kind: PendingKind
    target: Target
    detail: str = ""


class Record(Protocol):
    """Where steps and pending actions are written down before and after they happen (see `journal.Journal`)."""

    def begin(self, id: str, step: Step, opens: Sequence[Pending]) -> None:
        """Note that a step is about to be sent, and what it opens."""

    def end(self, id: str, state: str, error: str = "", closes: Sequence[Pending] = ()) -> None:
        """Note how a step ended, and what it closes."""

    def sending(self, target: Target) -> None:
        """Note that a host is about to be ordered to reboot, or a guest to shut down; without this note it was not."""

    def resolve(self, *pending: Pending) -> None:
        """Note that actions are not pending any more, outside of a step."""

    def rebooted(self, host: Target, *, did: bool) -> None:
        """Note whether a host did reboot, which the step that ordered it could not know."""

    def pending(self) -> tuple[Pending, ...]:
        """Return what is pending, from this attempt or an earlier one."""


class NoRecord:
    """Writes nothing down; for runs that cannot be resumed."""

    def begin(self, id: str, step: Step, opens: Sequence[Pending]) -> None:
        """Note nothing."""

    def end(self, id: str, state: str, error: str = "", closes: Sequence[Pending] = ()) -> None:
        """Note nothing."""

    def sending(self, target: Target) -> None:
        """Note nothing."""

    def resolve(self, *pending: Pending) -> None:
        """Note nothing."""

    def rebooted(self, host: Target, *, did: bool) -> None:
        """Note nothing."""

    def pending(self) -> tuple[Pending, ...]:
        """Return nothing."""
        return ()


def opened_by(step: Step, *, own_ssh: bool, restarts_ssh: bool = False, detail: str = "") -> tuple[Pending, ...]:
    """Return the pending actions that a step adds to its run.

    SSH that was running before the run is not stopped at its end, but started again after a reboot that stops it.
    """
    if isinstance(step, Invoke) and step.pauses:
        return (Pending("service", step.target, step.pauses),)
    if isinstance(step, Invoke) and step.needs_reboot:
        return (Pending("restart", step.target, detail),)
    if isinstance(step, StartSsh) and not own_ssh:
        return ()
    again = (Pending("ssh-on", step.target),) if isinstance(step, Reboot) and restarts_ssh else ()
    return (*(Pending(kind, step.target, detail) for kind in step.opens), *again)


def closed_by(step: Step) -> tuple[Pending, ...]:
    """Return the pending actions that a step closes."""
    if isinstance(step, Invoke) and step.resumes:
        return (Pending("service", step.target, step.resumes),)
    return tuple(Pending(kind, step.target) for kind in step.closes)
