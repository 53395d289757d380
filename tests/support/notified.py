"""A document of a notification, as a run makes it at its end."""

from __future__ import annotations

from vsphere_ai.documents.runs.notifications import RunEnded
from vsphere_ai.documents.runs.summaries import PendingNameDocument


def run_ended(**more):
    values = {
        "event": "run.ended",
        "time": "2026-01-01T00:00:00+0000",
        "schema_version": 1,
        "run": "20260101-000000-abcd",
        "state": "finished",
        "started": "2026-01-01T00:00:00.000+00:00",
        "user": "ops@runner",
        "vcenter": "lab",
        "what": "play.yml",
        "exit_code": 0,
        "resume_command": None,
        "pending": (PendingNameDocument(kind="maintenance", name="esx01"),),
        "closed": None,
        "seconds": 1.5,
        "done": 1,
        "failed": 0,
        "unknown": 0,
        "skipped": 0,
        "interrupted": False,
        "open": (),
        "failures": (),
    }
    return RunEnded.model_validate({**values, **more})
