"""Documents of notifications: how a run ended, and how the drift of an estate changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vsphere_ai.documents.printed import SCHEMA_VERSION
from vsphere_ai.documents.runs.notifications import DriftChanged, FailureDocument, NamedVcenter, RunEnded
from vsphere_ai.planning.drift import Difference
from vsphere_ai.planning.outcome import Outcome, RunOutcome, failures
from vsphere_ai.planning.planner import Plan
from vsphere_ai.report.plans.drift_text import drift_part
from vsphere_ai.report.plans.run_list import summary

if TYPE_CHECKING:
    from vsphere_ai.runs.journal import Journal

MOST = 50
"""Failures, and differences of each sort, that a notification lists; it has the number of all of them."""


def run_notification(record: Journal, run: RunOutcome, exit_code: int, time: str) -> RunEnded:
    """Return how a run ended: who ran what, counts of its steps, failures, and what is still pending."""
    return RunEnded(
        event="run.ended",
        time=time,
        schema_version=SCHEMA_VERSION,
        **{**vars(summary(record)), "exit_code": exit_code},
        seconds=round(run.seconds, 1),
        done=run.count("done"),
        failed=run.count("failed"),
        unknown=run.count("unknown"),
        skipped=run.count("skipped"),
        interrupted=run.interrupted,
        open=tuple(run.open),
        failures=tuple(map(_failure, failures(run.outcomes)[:MOST])),
    )


def _failure(outcome: Outcome) -> FailureDocument:
    error, step = outcome.error, outcome.planned.step
    return FailureDocument(
        target=step.target.name,
        summary=step.summary,
        state=outcome.state,
        error=error.message if error else outcome.reason,
        rule=error.rule if error else outcome.rule,
    )


def drift_notification(
    appeared: Sequence[Difference], gone: Sequence[Difference], plan: Plan, playbook: str, time: str
) -> DriftChanged:
    """Return how the drift of an estate changed, and the vCenter it is in."""
    return DriftChanged(
        event="drift.changed",
        time=time,
        playbook=playbook,
        schema_version=SCHEMA_VERSION,
        vcenter=NamedVcenter(name=plan.about.name, instance=plan.about.instance),
        **vars(drift_part(appeared[:MOST], gone[:MOST], plan)),
        appeared_count=len(appeared),
        gone_count=len(gone),
    )
