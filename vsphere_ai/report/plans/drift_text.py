"""Drift as text and JSON: settings that are not as a playbook wants them, and what prevented comparing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.runs.drift_lines import DifferenceDocument, DriftPart
from vsphere_ai.model.text import counted, safe, shown
from vsphere_ai.planning.document import plain
from vsphere_ai.planning.drift import Difference, differences
from vsphere_ai.planning.planner import Plan
from vsphere_ai.report.folding import names
from vsphere_ai.report.layout import grouped


def drift_text(plan: Plan) -> str:
    """Return a line per field that drifted and per problem, equal ones of several targets once, and the counts."""
    return "\n".join([*_lines(tuple(differences(plan).values())), drift_counts(plan)])


def drift_counts(plan: Plan) -> str:
    """Return how many settings are in the desired state, how many are not, and how many problems there are."""
    drifted = len(plan.changed())
    same = len(plan.items) - drifted
    settings = f"{same} of {len(plan.items)} settings in the desired state"
    return f"{settings}, {drifted} differ, {counted(len(plan.problems), 'problem')}"


def change_text(appeared: Sequence[Difference], gone: Sequence[Difference], plan: Plan) -> str:
    """Return what appeared (``+``) and what is gone (``-``) since the reading before, and the counts."""
    new, old = (_lines(each) for each in (appeared, gone))
    return "\n".join([*(f"+{line[1:]}" for line in new), *(f"-{line[1:]}" for line in old), drift_counts(plan)])


def drift_part(appeared: Sequence[Difference], gone: Sequence[Difference], plan: Plan) -> DriftPart:
    """Return the same as a part of a document."""
    return DriftPart(
        as_wanted=not plan.changed() and not plan.problems,
        drifted=len(plan.changed()),
        problems=len(plan.problems),
        appeared=tuple(map(_document, appeared)),
        gone=tuple(map(_document, gone)),
    )


def _lines(found: Sequence[Difference]) -> Iterator[str]:
    for text, targets in grouped((difference_text(d), d.target) for d in found if not d.problem).items():
        yield safe(f"  ~ {names(targets)}  {text}")
    for text, targets in grouped((difference_text(d), d.target) for d in found if d.problem).items():
        yield safe(f"  ! {names(targets)}  {text}")


def difference_text(found: Difference) -> str:
    """Return a difference in a sentence without its target."""
    if found.problem:
        return f"{found.problem.message}  [{found.problem.rule}]"
    if found.change is None:
        return f"{found.kind} is to be made anew"
    name = found.change.name.replace("_", " ")
    return f"{found.kind} {name} is {shown(found.change.before)}, wanted {shown(found.change.after)}"


def _document(found: Difference) -> DifferenceDocument:
    if found.problem:
        return DifferenceDocument(target=found.target, problem=FindingDocument.of(found.problem))
    change = found.change
    before, after = (plain(change.before), plain(change.after)) if change else (None, None)
    field = change.name if change else ""
    return DifferenceDocument(target=found.target, kind=found.kind, field=field, before=before, after=after)
