"""What a run changes only for its own time, and has to put back: a step opens a debt, another one settles it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from vsphere_ai.state import Target
from vsphere_ai.steps import Lifecycle, Step, Wait

Kind = Literal["maintenance", "ssh", "off", "reboot"]
OPENS: dict[str, Kind] = {
    "enter-maintenance": "maintenance",
    "start-ssh": "ssh",
    "power-off": "off",
    "reboot": "reboot",
}
SETTLES: dict[str, Kind] = {"exit-maintenance": "maintenance", "stop-ssh": "ssh", "power-on": "off"}


@dataclass(frozen=True)
class Debt:
    """One thing owed to a target. `detail` of a reboot is the boot time before it."""

    kind: Kind
    target: Target
    detail: str = ""


class Book(Protocol):
    """Where debts and steps are written down before and after they happen (see `journal.Journal`)."""

    def begin(self, step: str, target: Target, summary: str, debt: Debt | None) -> None:
        """Note that a step is about to be sent, and the debt it makes."""

    def end(self, step: str, state: str, error: str = "", settles: Debt | None = None) -> None:
        """Note how a step ended, and the debt it settled."""

    def settle(self, debt: Debt) -> None:
        """Note that a debt was settled outside of a step."""


class NoBook:
    """Writes nothing down; for runs that nobody could resume."""

    def begin(self, step: str, target: Target, summary: str, debt: Debt | None) -> None:
        """Note nothing."""

    def end(self, step: str, state: str, error: str = "", settles: Debt | None = None) -> None:
        """Note nothing."""

    def settle(self, debt: Debt) -> None:
        """Note nothing."""


def opened_by(step: Step, *, own_ssh: bool, detail: str = "") -> Debt | None:
    """Return the debt a step makes. SSH that was found running is not ours to stop."""
    kind = OPENS.get(step.action) if isinstance(step, Lifecycle) else None
    if kind is None or (kind == "ssh" and not own_ssh):
        return None
    return Debt(kind, step.target, detail if kind == "reboot" else "")


def settled_by(step: Step) -> Debt | None:
    """Return the debt a step settles."""
    if isinstance(step, Wait) and step.until == "host-back":
        return Debt("reboot", step.target)
    kind = SETTLES.get(step.action) if isinstance(step, Lifecycle) else None
    return Debt(kind, step.target) if kind else None
