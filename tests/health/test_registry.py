"""Checks of health: each that the code makes is listed with side, owner and step, and none that it does not make."""

from __future__ import annotations

import re
from pathlib import Path

from vsphere_ai.health.checks import IN_WORDS
from vsphere_ai.health.finding import VmJudge
from vsphere_ai.health.profile import MEASURES
from vsphere_ai.health.registry import checks, with_next_step
from vsphere_ai.model.nodes import Node

ROOM = Path(__file__).parents[2] / "vsphere_ai"
OF_PREFLIGHT = ("preflight.py",)


def test_every_check_is_listed_and_made():
    files = [p for p in (ROOM / "health").rglob("*.py") if p.name not in OF_PREFLIGHT]
    text = "".join(p.read_text("utf-8") for p in [*files, *(ROOM / "app").glob("health*.py")])
    made = {name for name in checks() if f'"{name}"' in text}
    assert made == set(checks())
    said = set(re.findall(r'(?:said|VmJudge\([^()]*\))\(\s*"([a-z-]+)"', text))
    assert said | set(IN_WORDS.values()) | {m.check for m in MEASURES.values()} <= set(checks())


def test_a_finding_that_counts_names_who_has_to_act_and_the_next_step_of_nvidia():
    node = Node("v", "", host="h")

    def evidence(*values, step=""):
        return with_next_step(VmJudge(node)(*values, step=step)).evidence

    of_operator = ("responsible", "operator_infra")
    assert evidence("ecc", "fail", "text") == (("step", "reset_gpu"), of_operator)
    assert evidence("ecc", "info", "text") == ()
    own = evidence("xid", "fail", "text", step="restart_os")
    assert own[0] == ("step", "restart_os"), "its own step counts, not that of the check"
    assert [name for name, _ in own] == ["step", "responsible"]
    assert evidence("not-listed", "fail", "text") == ()
    assert {c.step for c in checks().values()} == {"", "reset_gpu", "restart_os", "service_required"}
