"""Results of the functions of `app` that carry plans out: what was proposed, and how it ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vsphere_ai.documents.findings import FindingDocument
    from vsphere_ai.model.finding import Problem
    from vsphere_ai.model.state import Target
    from vsphere_ai.model.variables import VariableValue
    from vsphere_ai.model.world import World
    from vsphere_ai.planning.outcome import RunOutcome
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.planning.scheduling.expected_time import Estimate
    from vsphere_ai.sets.outputs import OutputValue


@dataclass(frozen=True)
class VCenterContext:
    """The vCenter of a plan, and its expected time; None without steps."""

    world: World
    estimate: Estimate | None = None


@dataclass(frozen=True)
class Proposal:
    """A plan that is to be carried out. `digest` is its SHA-256, `confirmed`: nothing is asked any more.

    `excluded` are targets that the limit leaves out of the playbook; `open_runs` says what earlier runs have left.
    `outputs` are those of the playbook as they will be; `around` is the vCenter and the expected time.
    `may_go` are references of the VMs whose destruction was confirmed already, by the run that is continued.
    `variables` are the values that the playbook's variables have.
    """

    plan: Plan
    digest: str
    around: VCenterContext
    confirmed: bool = False
    excluded: Collection[Target] = ()
    open_runs: Sequence[str] = ()
    may_go: Collection[str] = ()
    outputs: Sequence[OutputValue] = ()
    variables: Sequence[VariableValue] = ()

    @property
    def reboots(self) -> int:
        """Number of hosts that reboot, where they are several: then it has to be confirmed by this number; else 0."""
        hosts = len(self.plan.impact.reboots)
        return hosts if hosts > 1 else 0

    @property
    def destroys(self) -> int:
        """Number of VMs that the plan destroys, where that has to be confirmed by this number; else 0."""
        going = self.plan.impact.destroyed
        return len(going) if any(vm.ref not in self.may_go for vm in going) else 0

    @property
    def exit_code(self) -> int:
        """Exit code of a command that carries nothing of it out."""
        return exit_code_of(self.plan.problems) if self.plan.problems else int(bool(self.open_runs))


@dataclass(frozen=True)
class RunResult:
    """How carrying out a plan ended. `run` is None, and `record` empty, when nothing was carried out.

    `gone` are targets that were approved and are no longer in the inventory; `open_runs` says what earlier runs have
    left to put back. `exit_code` is that of the command line: 128 + the signal's number when the run was stopped.
    """

    plan: Plan
    exit_code: int
    record: str = ""
    run: RunOutcome | None = None
    gone: tuple[Target, ...] = ()
    open_runs: tuple[str, ...] = ()


def exit_code_of(problems: Iterable[Problem | FindingDocument]) -> int:
    """Return the exit code of a plan with problems: 4 when an account or a key was not accepted, 5 when out of reach.

    5 only where that is all there is: any other problem is one of the playbook's, and stays when the host answers.
    """
    rules = {p.rule for p in problems}
    if rules & {"ssh.denied", "ssh.host-key", "account.privileges"}:
        return 4
    return 5 if rules == {"ssh.unreachable"} else 1
