"""Documents of notifications: how a run ended, and how the drift of an estate changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vsphere_ai.planning.document import SCHEMA_VERSION, plain
from vsphere_ai.planning.drift import Difference
from vsphere_ai.planning.outcome import RunOutcome, failures
from vsphere_ai.planning.planner import Plan
from vsphere_ai.report.plans.drift_text import drift_document
from vsphere_ai.report.plans.run_record import summary

if TYPE_CHECKING:
    from vsphere_ai.runs.journal import Journal

MOST = 50
"""Failures, and differences of each sort, that a notification lists; it has the number of all of them."""


def run_notification(record: Journal, run: RunOutcome, exit_code: int) -> dict[str, object]:
    """Return how a run ended: who ran what, counts of its steps, failures, and what is still pending."""
    failed = failures(run.outcomes)
    return {
        "schema_version": SCHEMA_VERSION,
        **plain(summary(record)),
        "exit_code": exit_code,
        "seconds": round(run.seconds, 1),
        **{state: run.count(state) for state in ("done", "failed", "unknown", "skipped")},
        "interrupted": run.interrupted,
        "open": list(run.open),
        "failures": [
            {
                "target": each.planned.step.target.name,
                "summary": each.planned.step.summary,
                "state": each.state,
                "error": each.error.message if each.error else each.reason,
                "rule": each.error.rule if each.error else each.rule,
            }
            for each in failed[:MOST]
        ],
    }


def drift_notification(appeared: Sequence[Difference], gone: Sequence[Difference], plan: Plan) -> dict[str, object]:
    """Return how the drift of an estate changed, and the vCenter it is in."""
    counts = {"appeared_count": len(appeared), "gone_count": len(gone)}
    said = drift_document(appeared[:MOST], gone[:MOST], plan)
    about = {"name": plan.about.name, "instance": plan.about.instance}
    return {"schema_version": SCHEMA_VERSION, "vcenter": about, **said, **counts}
