"""Everything that can go wrong, sorted by who has to act; each carries its exit code and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Mark:
    """A place in a file; line and column count from 1, 0 when there is no place."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, order=True)
class Diagnostic:
    """One fault in an input file: where, what was given, what would work."""

    mark: Mark
    message: str
    help: str = ""
    excerpt: str = ""


class VsphereAiError(Exception):
    """Base of every error an operator may see.

    `exit_code` is the process's exit code, `remedy` what to do, `rule` the id of what is wrong, for programs.
    """

    exit_code = 70
    title = "internal error"
    rule = "internal"

    def __init__(self, message: str, remedy: str = "", *, rule: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.rule = rule or self.rule


class InputError(VsphereAiError):
    """A playbook or an inventory is wrong; holds every fault found in one run."""

    exit_code = 65
    title = "invalid input"
    rule = "input"

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(sorted(diagnostics))
        super().__init__("\n".join(f"{d.mark}: {d.message}" for d in self.diagnostics))


class UsageError(VsphereAiError):
    """The command line cannot be carried out as given."""

    exit_code = 64
    title = "usage"
    rule = "usage"


class Refused(VsphereAiError):
    """The plan has problems; nothing was changed."""

    exit_code = 1
    title = "refused"
    rule = "plan.refused"


class Conflict(VsphereAiError):
    """A saved plan is stale or edited, or another user changed the object."""

    exit_code = 3
    title = "conflict"
    rule = "conflict"


class ConcurrentChange(Conflict):
    """VCenter did not take a change, because the object is not in the version the change was made for."""

    rule = "object.changed"


class Denied(VsphereAiError):
    """Credentials, permissions, TLS certificates or SSH host keys were not accepted."""

    exit_code = 4
    title = "denied"
    rule = "denied"


class Unreachable(VsphereAiError):
    """A server did not answer in time."""

    exit_code = 5
    title = "unreachable"
    rule = "unreachable"


class Unparsed(Unreachable):
    """A server answered what the API library has no words for, as one newer than the library may."""

    rule = "vcenter.unparsed"


class HostUnhealthy(VsphereAiError):
    """A host did not come back as it should; the roll-out stopped there."""

    exit_code = 6
    title = "host unhealthy"
    rule = "host.unhealthy"


class DidNotReboot(HostUnhealthy):
    """A host was seen up, with its old boot time, for longer than an order to reboot takes to have an effect."""

    title = "not rebooted"
    rule = "host.not-rebooted"


class NoRoom(HostUnhealthy):
    """Other hosts of a cluster went out of service since it was planned, so no further one of it is started."""

    title = "hosts out of service"
    rule = "rollout.over-budget"


class StepFailed(VsphereAiError):
    """vCenter or a host refused a step."""

    exit_code = 1
    title = "step failed"
    rule = "step.failed"


class GuestStillRuns(StepFailed):
    """A guest was asked to shut down and has not within its time; it may still do so."""

    rule = "vm.guest-still-runs"


class VimFault(StepFailed):
    """vCenter refused a call. `fault` is the WSDL name of the fault's type, `detail` its fields as plain values."""

    def __init__(self, message: str, remedy: str, detail: Mapping[str, Any]) -> None:
        super().__init__(message, remedy)
        self.detail = detail
        self.fault = str(detail.get("_typeName", ""))
        self.rule = f"fault.{self.fault}" if self.fault else self.rule


class OutcomeUnknown(VsphereAiError):
    """A change was sent and its result could not be read; it does not count as done.

    `task` is the reference of the task it became, where that is known.
    """

    exit_code = 9
    title = "outcome unknown"
    rule = "outcome.unknown"

    def __init__(self, message: str, remedy: str = "", *, task: str = "", rule: str = "") -> None:
        super().__init__(message, remedy, rule=rule)
        self.task = task


class OutOfSight(OutcomeUnknown):
    """A change was sent, and vCenter could not be reached since then to see its result."""

    exit_code = 5
    title = "unreachable"
    rule = "outcome.out-of-sight"


class Locked(VsphereAiError):
    """Another run works on this vCenter."""

    exit_code = 7
    title = "locked"
    rule = "locked"


class Storage(VsphereAiError):
    """The journal cannot be written or read; nothing may be changed without it."""

    exit_code = 8
    title = "journal"
    rule = "journal"


class NotVerified(VsphereAiError):
    """The step was accepted, but reading back does not show the wanted state."""

    exit_code = 1
    title = "not verified"
    rule = "step.not-verified"


SERIOUSNESS = (70, 8, 9, 6, 4, 5, 3, 7, 1, 2, 0)


def most_serious(codes: Iterable[int]) -> int:
    """Return the exit code to end with when several apply."""
    return min(codes, key=lambda c: SERIOUSNESS.index(c) if c in SERIOUSNESS else -1, default=0)
