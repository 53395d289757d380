"""A run as JSON lines: a header, one line per event, and a summary as the last line."""

from __future__ import annotations

import json
from typing import Any

from vsphere_ai.apply import Event, Run
from vsphere_ai.report.plan_json import SCHEMA_VERSION, plain
from vsphere_ai.report.values import escaped


def header_line(digest: str, steps: int) -> str:
    """Return the first line."""
    return _line({"type": "run", "schema_version": SCHEMA_VERSION, "digest": digest, "steps": steps})


def event_line(event: Event, clock: str) -> str:
    """Return one event."""
    document: dict[str, Any] = {"type": "event", "time": clock, "what": event.what, "text": event.text}
    if event.planned is not None:
        step = event.planned.step
        document |= {"step": event.planned.id, "target": plain(step.target), "summary": step.summary}
    return _line({**document, "seconds": round(event.seconds, 3)})


def summary_line(run: Run) -> str:
    """Return the last line."""
    outcomes = [
        {
            "step": o.planned.id,
            "target": o.planned.step.target.name,
            "state": o.state,
            "error": o.error.message if o.error else None,
            "reason": o.reason,
        }
        for o in run.outcomes
    ]
    return _line(
        {
            "type": "summary",
            "exit_code": run.exit_code,
            "seconds": round(run.seconds, 3),
            "done": run.count("done"),
            "failed": run.count("failed"),
            "unknown": run.count("unknown"),
            "skipped": run.count("skipped"),
            "interrupted": run.interrupted,
            "verified": [t.name for t in run.verified()],
            "open": list(run.open),
            "outcomes": outcomes,
        }
    )


def _line(document: dict[str, Any]) -> str:
    return escaped(json.dumps(document, ensure_ascii=False))
