"""Numbers of a plan for GitLab's ``artifacts:reports:terraform``, which merge requests show.

The names of its keys are not verified against a GitLab.
"""

from __future__ import annotations

import json

from vsphere_ai.report.pages.values import Report


def gitlab_terraform(report: Report) -> str:
    """Return how many targets a plan creates, changes and deletes."""
    return json.dumps(dict(zip(("create", "update", "delete"), report.targets, strict=True)))
