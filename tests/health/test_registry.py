"""Checks of health: each that the code makes is listed with side, owner and step, and none that it does not make."""

from __future__ import annotations

import re
from pathlib import Path

from vsphere_ai.health.checks import IN_WORDS
from vsphere_ai.health.finding import VERDICTS, Finding
from vsphere_ai.health.profile import MEASURES
from vsphere_ai.health.registry import WORDS, checks, step, who

ROOM = Path(__file__).parents[2] / "vsphere_ai"
OF_PREFLIGHT = ("preflight.py",)


def test_every_check_is_listed_and_made():
    files = [p for p in (ROOM / "health").rglob("*.py") if p.name not in OF_PREFLIGHT]
    text = "".join(p.read_text("utf-8") for p in [*files, *(ROOM / "app").glob("health*.py")])
    made = {name for name in checks() if f'"{name}"' in text}
    assert made == set(checks())
    said = set(re.findall(r'(?:Finding|said|_Said\([^)]*\))\(\s*"([a-z-]+)"', text))
    assert said | set(IN_WORDS.values()) | {m.check for m in MEASURES.values()} <= set(checks())


def test_words_and_steps_are_those_of_nvidia():
    assert [WORDS[v] for v in VERDICTS] == ["pass", "info", "warning", "unknown", "critical"]
    bad = Finding("ecc", "fail", "v", "h", "text")
    assert (who(bad), step(bad)) == (("operator_infra",), "reset_gpu")
    assert step(Finding("ecc", "info", "v", "h", "text")) == ""
    assert step(Finding("xid", "fail", "v", "h", "text", step="restart_os")) == "restart_os"
    assert {c.step for c in checks().values()} == {"", "reset_gpu", "restart_os", "service_required"}
