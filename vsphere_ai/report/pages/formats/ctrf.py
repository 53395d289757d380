"""Common Test Report Format (https://ctrf.io) of a report: JSON with a test per check, measurement or step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from vsphere_ai import __version__
from vsphere_ai.model.text import safe
from vsphere_ai.planning.document import dumps
from vsphere_ai.report.pages.values import Report, Status

STATES: Mapping[Status, str] = {"pass": "passed", "warn": "passed", "unknown": "other", "fail": "failed"}
WITHOUT_TIME = 0
"""The duration of a test that was not timed: the schema of ctrf.io requires a number of each."""
_COUNTED = ("passed", "failed", "pending", "skipped", "other")


def ctrf(report: Report) -> str:
    """Return a report in the Common Test Report Format; times are in milliseconds."""
    tests = [
        {
            "name": safe(case.name),
            "status": STATES[case.status],
            "duration": WITHOUT_TIME if case.seconds is None else round(case.seconds * 1000),
            "suite": safe(case.suite),
            "message": safe(case.message),
        }
        for case in report.cases
    ]
    count = Counter(STATES[case.status] for case in report.cases)
    times = dict(report.suites)
    took = sum(times.values()) + sum(c.seconds for c in report.cases if c.suite not in times and c.seconds is not None)
    stop = int(report.ended * 1000)
    summary = {"tests": len(tests), **{s: count[s] for s in _COUNTED}, "start": stop - int(took * 1000), "stop": stop}
    tool = {"name": f"vsphere-ai {__version__}"}
    return dumps({"results": {"tool": tool, "summary": summary, "tests": tests}})
