"""What a run changes only for its own time, and has to put back: a step opens a debt, another one settles it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke, Lifecycle, Step, Wait

Kind = Literal["maintenance", "ssh", "ssh-on", "off", "reboot", "restart", "gate", "lock"]
OPENS: dict[str, Kind] = {
    "enter-maintenance": "maintenance",
    "start-ssh": "ssh",
    "power-off": "off",
    "reboot": "reboot",
}
SETTLES: dict[str, Kind] = {
    "exit-maintenance": "maintenance",
    "stop-ssh": "ssh",
    "start-ssh": "ssh-on",
    "power-on": "off",
}
WAITED: dict[str, tuple[Kind, ...]] = {"host-back": ("reboot", "restart"), "healthy": ("gate",)}


@dataclass(frozen=True)
class Pending:
    """One thing owed to a target. `detail` of a reboot, and of a restart, is the boot time before it.

    A `restart` is owed from a change on that counts only after one: nothing in vCenter may tell that it waits for that.

    A `gate` is owed from entering maintenance mode on: nobody has seen yet that the host is healthy again.
    """

    kind: Kind
    target: Target
    detail: str = ""


class Record(Protocol):
    """Where debts and steps are written down before and after they happen (see `journal.Journal`)."""

    def begin(self, id: str, step: Step, all_pending: Sequence[Pending]) -> None:
        """Note that a step is about to be sent, and the debts it makes."""

    def end(self, id: str, state: str, error: str = "", settles: Sequence[Pending] = ()) -> None:
        """Note how a step ended, and the debts it settled."""

    def settle(self, *all_pending: Pending) -> None:
        """Note that debts were settled outside of a step."""

    def rebooted(self, host: Target, *, did: bool) -> None:
        """Note whether a host did reboot, which the step that ordered it could not know."""

    def all_pending(self) -> tuple[Pending, ...]:
        """Return what is still owed, by this attempt or an earlier one."""


class NoRecord:
    """Writes nothing down; for runs that nobody could resume."""

    def begin(self, id: str, step: Step, all_pending: Sequence[Pending]) -> None:
        """Note nothing."""

    def end(self, id: str, state: str, error: str = "", settles: Sequence[Pending] = ()) -> None:
        """Note nothing."""

    def settle(self, *all_pending: Pending) -> None:
        """Note nothing."""

    def rebooted(self, host: Target, *, did: bool) -> None:
        """Note nothing."""

    def all_pending(self) -> tuple[Pending, ...]:
        """Return nothing."""
        return ()


def opened_by(step: Step, *, own_ssh: bool, restarts_ssh: bool = False, detail: str = "") -> tuple[Pending, ...]:
    """Return the debts a step makes.

    SSH that was found running is not ours to stop, but ours to start again after a reboot that stops it.
    """
    if isinstance(step, Invoke) and step.needs_reboot:
        return (Pending("restart", step.target, detail),)
    kind = OPENS.get(step.action) if isinstance(step, Lifecycle) else None
    if kind is None or (kind == "ssh" and not own_ssh):
        return ()
    if kind == "maintenance":
        return (Pending(kind, step.target), Pending("gate", step.target))
    if kind != "reboot":
        return (Pending(kind, step.target),)
    again = (Pending("ssh-on", step.target),) if restarts_ssh else ()
    return (Pending(kind, step.target, detail), *again)


def settled_by(step: Step) -> tuple[Pending, ...]:
    """Return the debts a step settles."""
    if isinstance(step, Wait):
        return tuple(Pending(kind, step.target) for kind in WAITED.get(step.until, ()))
    kind = SETTLES.get(step.action) if isinstance(step, Lifecycle) else None
    return (Pending(kind, step.target),) if kind else ()
