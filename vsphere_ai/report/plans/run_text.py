"""Run as text: one line per event, and at its end what was done, read back, and could not be put back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

from vsphere_ai.model.steps import AsPlanned, Destroy
from vsphere_ai.model.text import counted, duration, safe
from vsphere_ai.planning.outcome import Outcome, RunEvent, RunOutcome, failures
from vsphere_ai.report.folding import FEW, Named, alike, fitted, how_many, nameless, names, of_sample, shape
from vsphere_ai.report.layout import grouped

TARGETS = ("verified", "failed", "unknown", "changed and not read back", "not changed")
WORDS = {"start": "…", "done": "done", "failed": "FAILED", "unknown": "UNKNOWN", "skipped": "skipped"}


def event_text(event: RunEvent, total: int) -> str:
    """Return one event as a line: target, step number of the total, what happened."""
    if event.planned is None:
        return f"{event.what}: {safe(event.text)}"
    step, number = event.planned.step, int(event.planned.id.lstrip("s"))
    head = f"{safe(step.target.name):<18} [{number}/{total}] {safe(step.summary)}"
    if event.what == "start":
        return head
    if event.what == "progress":
        return f"{head} — {safe(event.text)}"
    took = f" ({duration(event.seconds)})" if event.seconds >= 1 else ""
    why = f": {safe(event.text)}" if event.text else ""
    return f"{head} — {WORDS.get(event.what, event.what)}{took}{why}"


def run_text(run: RunOutcome, width: int = 10_000, *, full: bool = False) -> str:
    """Return what happened: steps done, what was read back, what failed and why, what could not be put back.

    What failed on many targets for the same reason is said once, with their names; with `full` each time.
    """
    total = len(run.outcomes)
    verified = len(run.verified())
    found = [f"{counted(verified, 'target')} verified"] if verified or not run.destroyed else []
    found += [f"{counted(run.destroyed, 'VM')} destroyed"] if run.destroyed else []
    lines = [", ".join([f"{run.count('done')} of {total} steps done in {duration(run.seconds)}", *found])]
    lines += _balance(run) if any(o.state != "done" for o in run.outcomes) else []
    lines += [f"detached, not deleted: {', '.join(map(safe, run.kept_disks))}"] if run.kept_disks else []
    lines += [safe(line) for line in _failures(run, full=full)]
    if run.unstarted:
        steps = "1 step was" if run.unstarted == 1 else f"{run.unstarted} steps were"
        lines.append(f"{steps} not started{' because of that' if failures(run.outcomes) else ''}")
    if run.interrupted:
        lines.append(run.stopped)
    known = frozenset(o.planned.step.target.name for o in run.outcomes)
    for title, sentences in (("PUT BACK", run.put_back), ("EXTERNAL CHANGES", run.external_changes)):
        lines += [title, *(f"  {safe(line)}" for line in _sentences(sentences, known, full=full))] if sentences else []
    lines += ["LEFT OPEN", *(f"  ! {safe(line)}" for line in run.open)] if run.open else []  # each by its name
    return fitted("\n".join(lines), width)


def _sentences(found: Sequence[str], known: frozenset[str], *, full: bool) -> Iterator[str]:
    """Yield sentences; of more than a few that differ in names only, the first and how many there are."""
    for same in grouped((nameless(text, known), text) for text in found).values():
        if full or len(same) <= FEW:
            yield from same
        else:
            yield f"{same[0]}, and {len(same) - 1} more like that"


def _balance(run: RunOutcome) -> Iterator[str]:
    """Yield how the steps ended, and what that means for their targets: each is counted once."""
    steps = Counter("not started" if o.state == "skipped" else o.state for o in run.outcomes)
    yield f"  steps    {_counts(steps, ('done', 'failed', 'unknown', 'not started'))}"
    own = grouped((o.planned.step.target, o) for o in run.outcomes)
    yield f"  targets  {_counts(Counter(map(_became, own.values())), TARGETS)}"


def _counts(found: Mapping[str, int], order: Sequence[str]) -> str:
    return ", ".join(f"{found[each]} {each}" for each in order if found.get(each))


def _became(outcomes: Sequence[Outcome]) -> str:
    """Return what became of a target in one of the words of `TARGETS`."""
    states = {o.state for o in outcomes}
    sure = any(o.state == "done" and isinstance(o.planned.step, AsPlanned | Destroy) for o in outcomes)
    if states & {"unknown", "failed"}:
        return "unknown" if "unknown" in states else "failed"
    if "done" not in states:
        return "not changed"
    return "verified" if sure else "changed and not read back"


def _failures(run: RunOutcome, *, full: bool) -> Iterator[str]:
    """Yield what failed; equal failures once, and of more than a few that differ in values only, one."""
    failed = list(failures(run.outcomes))
    known = frozenset(o.planned.step.target.name for o in failed)
    found = alike(((_Failure.of(o), o.planned.step.target) for o in failed), lambda f, t: f.shape(t, known), full=full)
    for each in found:
        more = f": {how_many(each.targets)} alike{of_sample(each)}" if each.sample else ""
        yield f"{each.value.word}  {names(each.targets)}{more}: {each.value.summary}"
        yield from (f"        {text}" for text in (each.value.message, each.value.remedy) if text)


@dataclass(frozen=True)
class _Failure:
    word: str
    summary: str
    message: str = ""
    remedy: str = ""

    @classmethod
    def of(cls, outcome: Outcome) -> _Failure:
        word = "UNKNOWN" if outcome.state == "unknown" else "FAILED"
        error, summary = outcome.error, outcome.planned.step.summary
        return cls(word, summary, error.message, error.remedy) if error else cls(word, summary)

    def shape(self, target: Named, known: frozenset[str]) -> tuple[str, ...]:
        return tuple(nameless(shape(text, target), known) for text in astuple(self))
