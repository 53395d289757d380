"""Progress of a run: whether it gets on, by the steps in its logs and by NCCL, and which rank it waits for.

Rules: a job is stalled when the time since its last step exceeds a multiple of the mean step, the warm-up left out, and
never before its first step (NVIDIA's cluster-readiness-engine, adaptive stall detection). A communicator hangs when its
counts of collectives do not grow between two questions although they differ; the rank with the fewest is the suspect
(NCCL's user guide, RAS). A rank that NCCL cannot reach is one in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import duration
from vsphere_ai.training.job import StepPattern
from vsphere_ai.training.ras import Communicator, RankProcess, RankState, RasAnswer

Verdict = Literal["going", "stalled", "hung", "unknown"]
STARTING = 7
"""ncclInProgress: the state of a rank that is not ready yet."""


class StepClock(BaseModel):
    """The steps that a log shows: the last one, how many were seen, seconds since the last and between two of them."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    step: int
    count: int
    age: float
    mean: float | None = None


@dataclass(frozen=True)
class Suspect:
    """A rank that others may wait for: where it runs, down to the GPU, and why it is named.

    `rank` is its number in the largest communicator, or of its log; `gpu` is the address of its GPU on the host.
    """

    rank: int
    vm: str
    host: str
    reason: str
    gpu: str = ""
    pid: int = 0


@dataclass(frozen=True)
class JobProgress:
    """Whether a run goes on: a verdict with its reason, the ranks that may hold it up, and notes."""

    verdict: Verdict
    reason: str
    suspects: tuple[Suspect, ...] = ()
    notes: tuple[str, ...] = ()


Clocks = Mapping[str, Mapping[str, StepClock]]
"""Clocks by the name of the VM and of the process that writes the log."""


def limit_of(clock: StepClock, steps: StepPattern) -> float | None:
    """Return the seconds without a step after which a log's job is stalled; None before there is a mean."""
    return max(steps.stall * clock.mean, float(steps.at_least)) if clock.mean is not None else None


def judged(
    nodes: Sequence[Node], clocks: Clocks, steps: StepPattern, answers: Sequence[RasAnswer] = (), silence: str = ""
) -> JobProgress:
    """Return how a run gets on. `answers` are none, one or two of NCCL in the order of time, or `silence` says why."""
    newest = _newest(clocks)
    limit = limit_of(newest, steps) if newest else None
    stalled = newest is not None and limit is not None and newest.age > limit
    suspects = tuple(dict.fromkeys(_of_answers(nodes, answers)))
    if stalled and not suspects:
        suspects = tuple(_of_clocks(nodes, clocks))
    notes = (f"NCCL was not asked about its ranks: {silence}",) if silence else ()
    if newest is None:
        said = "no step was seen in its logs"
        if not suspects and len(answers) > 1 and _grows(*answers):
            return JobProgress("going", f"{said}; NCCL starts collectives", (), notes)
        return JobProgress("hung" if suspects else "unknown", said, suspects, notes)
    said = f"step {newest.step}, {duration(newest.age)} ago"
    if newest.mean is not None:
        said += f", every {_short(newest.mean)}"
    if limit is not None and not stalled:
        dead = {p for each in answers[-1:] for p in each.dead}
        return JobProgress("hung", said, suspects, notes) if dead else JobProgress("going", said, (), notes)
    if not stalled:
        return JobProgress("hung" if suspects else "unknown", f"{said}: too few steps to judge", suspects, notes)
    over = "" if limit is None else f": more than {_short(limit)}"
    return JobProgress("hung" if suspects else "stalled", said + over, suspects, notes)


def needs_second(nodes: Sequence[Node], clocks: Clocks, steps: StepPattern, first: RasAnswer) -> bool:
    """Return whether NCCL has to be asked again: unless steps come in time, and it has no rank to name."""
    found = judged(nodes, clocks, steps, (first,))
    return found.verdict != "going" or bool(first.unresponsive)


def _newest(clocks: Clocks) -> StepClock | None:
    """Return the clock that decides: of those with a mean, else of all, the one whose last step is the newest."""
    every = [clock for own in clocks.values() for clock in own.values()]
    return min([c for c in every if c.mean is not None] or every, key=lambda c: c.age, default=None)


def _of_clocks(nodes: Sequence[Node], clocks: Clocks) -> Iterator[Suspect]:
    """Yield the processes whose log is behind: those with the smallest last step, where steps differ."""
    steps = {clock.step for own in clocks.values() for clock in own.values()}
    for node in nodes if len(steps) > 1 else ():
        for name, clock in clocks.get(node.vm, {}).items():
            rank = name.removeprefix("rank-")
            if clock.step == min(steps):
                reason = f"its log is at step {clock.step}, others at {max(steps)}"
                yield Suspect(int(rank) if rank.isdecimal() else -1, node.vm, node.host, reason)


def _of_answers(nodes: Sequence[Node], answers: Sequence[RasAnswer]) -> Iterator[Suspect]:
    if not answers:
        return
    last = answers[-1]
    before = {each.id: each for each in answers[0].communicators} if len(answers) > 1 else {}
    largest = sorted(last.communicators, key=lambda c: c.size or len(c.ranks), reverse=True)
    named: set[RankProcess] = set()
    silent = {each.pid: each for each in last.unresponsive}
    for each in largest:
        for state, reason in _held_up(each, before.get(each.id), last):
            # the table names a rank that does not answer by its number, and its process elsewhere
            process = state.process or (next(iter(silent.values())) if len(silent) == 1 else None)
            if process not in named:
                named |= {process} if process else set()
                yield _suspect(nodes, state.rank, process, reason)
    for process in last.unresponsive:
        if process not in named:
            yield _suspect(nodes, -1, process, _unreachable(process, last))


def _held_up(now: Communicator, before: Communicator | None, answer: RasAnswer) -> Iterator[tuple[RankState, str]]:
    for state in now.missing:
        yield state, _unreachable(state.process, answer)
    for state in now.ranks:
        if state.error not in (0, STARTING):
            yield state, f"NCCL has error {state.error} there"
    if before is not None and _counts(before) == _counts(now):
        behind = now.behind()
        for state, number in behind:
            yield state, f"it started {number} collective{'s' if number > 1 else ''} fewer than others, which wait"


def _unreachable(process: RankProcess | None, answer: RasAnswer) -> str:
    return "NCCL holds it for dead" if process in answer.dead else "it does not answer NCCL"


def _grows(before: RasAnswer, now: RasAnswer) -> bool:
    known = {each.id: _counts(each) for each in before.communicators}
    return any(each.id in known and _counts(each) != known[each.id] for each in now.communicators)


def _counts(of: Communicator) -> object:
    return {r.rank: dict(r.counts) for r in of.ranks}, dict(of.most), of.unlisted


def _suspect(nodes: Sequence[Node], rank: int, process: RankProcess | None, reason: str) -> Suspect:
    node = node_of(nodes, process.host) if process else None
    if node is None or process is None:
        return Suspect(rank, process.host if process else "", "", reason, pid=process.pid if process else 0)
    gpu = next((g.host_pci for g in node.gpus if g.index == process.gpu), "")
    return Suspect(rank, node.vm, node.host, reason, gpu, process.pid)


def node_of(nodes: Sequence[Node], address: str) -> Node | None:
    """Return the node that has an address: of its control network, or of a rail."""
    return next((n for n in nodes if address in (n.address, *(r.address for r in n.rails if r.address))), None)


def _short(seconds: float) -> str:
    return duration(seconds) if seconds >= 10 else f"{seconds:.1f}s"
