"""Events that the functions of `app` emit while they work: typed values for a caller to show, log or count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vsphere_ai.planning import outcome

if TYPE_CHECKING:
    from vsphere_ai.app.events.results import Proposal, RunResult
    from vsphere_ai.app.events.stop import Stop
    from vsphere_ai.model.records.notify_request import NotifyRequest
    from vsphere_ai.model.world import World
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.planning.scheduling.expected_time import StepTimes


StepEvent = outcome.RunEvent
"""A step of a run started, made progress or ended; or the run as a whole waits or stops."""


@dataclass(frozen=True)
class Status:
    """What is being done now, in a few words; empty when it has ended."""

    text: str


@dataclass(frozen=True)
class Remark:
    """A sentence for the operator. `rule` is the id of what it is about: the text may change, the id does not.

    Without a rule it belongs to the remark before.
    """

    rule: str
    text: str


@dataclass(frozen=True)
class Waiting:
    """A sign of life while something long is waited for, every few seconds."""

    text: str


@dataclass(frozen=True)
class OutputLine:
    """A line of what was asked for, of functions that return no more than an exit code."""

    text: str


@dataclass(frozen=True)
class BenchmarkRow:
    """A row of nccl-tests as soon as it is measured: bytes, µs, and algorithm and bus bandwidth in GB/s."""

    size: int
    time: float
    algbw: float
    busbw: float
    is_first: bool = False


@dataclass(frozen=True)
class Begun:
    """Planning begins of what is to be carried out: of a run that goes on, or of a new one."""


@dataclass(frozen=True)
class SessionOpened:
    """A session with a vCenter exists; `close` logs it out, also from another thread.

    `notify`: who is notified as its inventory has it. No login was made yet.
    """

    close: Callable[[], None]
    notify: NotifyRequest


@dataclass(frozen=True)
class LockTaken:
    """The locks of a vCenter are about to be taken; `release` removes the one in vCenter, also from another thread."""

    release: Callable[[], None]


@dataclass(frozen=True)
class LockReleased:
    """The locks of a vCenter are released; `release` is that of `LockTaken`."""

    release: Callable[[], None]


@dataclass(frozen=True)
class LockLost:
    """The lock in vCenter belongs to someone else now. A run that has started is stopped already."""


@dataclass(frozen=True)
class PlanMade:
    """A plan is made, and nothing of it carried out yet."""

    proposal: Proposal


@dataclass(frozen=True)
class PlanDeclined:
    """The caller did not confirm a plan: nothing was changed."""

    proposal: Proposal


@dataclass(frozen=True)
class RunStarted:
    """The steps of a plan are about to be carried out; `run` names the record. Calling `stop` starts no further one.

    `times`: how long each step usually takes; `world`: the vCenter that is changed.
    """

    run: str
    plan: Plan
    stop: Stop
    times: StepTimes
    world: World


@dataclass(frozen=True)
class RunEnded:
    """All steps have ended. The run is not yet recorded as ended."""

    result: RunResult


@dataclass(frozen=True)
class RunRecorded:
    """The run is recorded as ended."""

    result: RunResult


_Said = Status | Remark | Waiting | OutputLine | BenchmarkRow
_Held = SessionOpened | LockTaken | LockReleased | LockLost
_Done = Begun | PlanMade | PlanDeclined | RunStarted | StepEvent | RunEnded | RunRecorded
Event = _Said | _Held | _Done
Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing with an event: for a caller who does not listen."""


def guests_done(what: str, emit: Emit) -> Callable[[int, int], None]:
    """Return a function that reports how many of how many guests have answered, and what they are asked for."""
    return lambda done, count: emit(Status(f"{what}: {done} of {count} guests"))
