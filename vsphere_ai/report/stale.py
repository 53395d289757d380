"""Differences between a saved plan and the present plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsphere_ai.model.text import safe
from vsphere_ai.planning.document import plan_document
from vsphere_ai.planning.planner import Plan

MOST = 12


def differences(saved: Mapping[str, Any], plan: Plan) -> str:
    """Return a line per setting, problem or step that is in one of the two only."""
    now = plan_document(plan)
    lines = []
    for word, one, two in (("planned then, not now", saved, now), ("not planned then", now, saved)):
        try:
            known = set(_lines(two))
            lines += [f"  {word}: {line}" for line in _lines(one) if line not in known]
        except (AttributeError, KeyError, TypeError):  # it was edited: the checksum is no signature
            return "  the saved plan does not say what it was to change"
    if not lines:
        lines = ["  details of the steps (device keys or configuration that is sent)"]
    more = [f"  and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "\n".join(safe(line) for line in [*lines[:MOST], *more])


def _lines(document: Mapping[str, Any]) -> list[str]:
    found = [
        f"{i['target']['name']}: {i['kind']} {c['field']} {c['before']} → {c['after']}"
        for i in document["items"]
        for c in i["changes"]
    ]
    found += [f"{p['target']['name']}: {p['message']}" for p in document["problems"]]
    lost = document.get("impact", {}).get("lost", ())
    found += [f"{each['host']['name']}: lost on reboot: {what}" for each in lost for what in each["what"]]
    return found + [f"{s['target']['name']}: {s['summary']}" for s in document["steps"]]
