"""Everything that can go wrong, sorted by who has to act; each carries its exit code and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


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


WITHHELD = "what is here cannot be used; nothing of the file is shown, because a link leads to it from another folder"
_withheld: dict[str, str] = {}
"""Files of which no error quotes anything, by the names under which they are read, with the files themselves."""


def withhold(name: str, file: str) -> None:
    """Have no `InputError` quote from a file that is read under a name, and was not named itself."""
    _withheld[name] = file


def _shown(fault: Diagnostic) -> Diagnostic:
    file = _withheld.get(fault.mark.file)
    return fault if file is None else Diagnostic(fault.mark, WITHHELD, f"to see what is wrong, name the file: {file}")


REPORT_IT = "this is a defect of vsphere-ai; please report it, with what it prints with --debug"


class VsphereAiError(Exception):
    """Base of every error an operator may see.

    `exit_code` is the process's exit code, `title` what the message begins with, `remedy` what to do, `rule` the id of
    what is wrong, for programs. A subclass has what it does not state from its base; its `remedy` is for errors without
    one.
    """

    exit_code = 70
    title = "internal error"
    rule = "internal"
    usual_remedy = ""

    def __init_subclass__(cls, exit_code: int = 0, title: str = "", rule: str = "", remedy: str = "") -> None:
        cls.exit_code, cls.title, cls.rule = exit_code or cls.exit_code, title or cls.title, rule or cls.rule
        cls.usual_remedy = remedy or cls.usual_remedy

    def __init__(self, message: str, remedy: str = "", *, rule: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy or self.usual_remedy
        self.rule = rule or self.rule


class InputError(VsphereAiError, exit_code=65, title="invalid input", rule="input"):
    """A playbook or an inventory is wrong; holds every fault found in one run.

    `compared_with` is the vCenter that was read when the faults were found, in words; "" where none was.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.compared_with = ""
        self.diagnostics = tuple(sorted(map(_shown, diagnostics)))
        super().__init__("\n".join(f"{d.mark}: {d.message}" for d in self.diagnostics))


class UsageError(VsphereAiError, exit_code=64, title="usage", rule="usage"):
    """The command line cannot be carried out as given."""


class Refused(VsphereAiError, exit_code=1, title="refused", rule="plan.refused"):
    """The plan has problems; nothing was changed."""


class Conflict(VsphereAiError, exit_code=3, title="conflict", rule="conflict"):
    """A saved plan is stale or edited, or another user changed the object."""


class ConcurrentChange(Conflict, rule="object.changed"):
    """VCenter did not take a change, because the object is not in the version the change was made for."""


class Denied(VsphereAiError, exit_code=4, title="denied", rule="denied"):
    """Credentials, permissions, TLS certificates or SSH host keys were not accepted."""


class Unreachable(VsphereAiError, exit_code=5, title="unreachable", rule="unreachable"):
    """A server did not answer in time."""


class Unparsed(Unreachable, rule="vcenter.unparsed"):
    """A server answered what the API library has no words for, as one newer than the library may."""


class HostUnhealthy(VsphereAiError, exit_code=6, title="host unhealthy", rule="host.unhealthy"):
    """A host did not come back as it should; the roll-out stopped there."""


class DidNotReboot(HostUnhealthy, title="not rebooted", rule="host.not-rebooted"):
    """A host was seen up, with its old boot time, for longer than an order to reboot takes to have an effect."""


class NoRoom(HostUnhealthy, title="hosts out of service", rule="rollout.over-budget"):
    """Other hosts of a cluster went out of service since it was planned, so no further one of it is started."""


class StepFailed(VsphereAiError, exit_code=1, title="step failed", rule="step.failed"):
    """vCenter or a host refused a step."""


class GuestStillRuns(StepFailed, rule="vm.guest-still-runs"):
    """A guest was asked to shut down and has not within its time; it may still do so."""


class VimFault(StepFailed):
    """vCenter refused a call. `fault` is the WSDL name of the fault's type, `detail` its fields as plain values.

    `task` is the reference of the task that ended with it; empty where the call was refused, and there is no task.
    """

    task = ""

    def __init__(self, message: str, remedy: str, detail: Mapping[str, object]) -> None:
        super().__init__(message, remedy)
        self.detail = detail
        self.fault = str(detail.get("_typeName", ""))
        self.rule = f"fault.{self.fault}" if self.fault else self.rule


class OutcomeUnknown(VsphereAiError, exit_code=9, title="outcome unknown", rule="outcome.unknown"):
    """A change was sent and its result could not be read; it does not count as done.

    `task` is the reference of the task it became, where that is known.
    """

    def __init__(self, message: str, remedy: str = "", *, task: str = "", rule: str = "") -> None:
        super().__init__(message, remedy, rule=rule)
        self.task = task


class OutOfSight(OutcomeUnknown, exit_code=5, title="unreachable", rule="outcome.out-of-sight"):
    """A change was sent, and vCenter could not be reached since then to see its result."""


class Locked(VsphereAiError, exit_code=7, title="locked", rule="locked"):
    """Another run works on this vCenter."""


class Storage(VsphereAiError, exit_code=8, title="journal", rule="journal"):
    """The journal cannot be written or read; nothing may be changed without it."""


class NotVerified(VsphereAiError, exit_code=1, title="not verified", rule="step.not-verified"):
    """The step was accepted, but reading back does not show the wanted state."""


SERIOUSNESS = (70, 8, 9, 6, 4, 5, 3, 7, 1, 2, 0)


def most_serious(codes: Iterable[int]) -> int:
    """Return the exit code to end with when several apply."""
    return min(codes, key=lambda c: SERIOUSNESS.index(c) if c in SERIOUSNESS else -1, default=0)
