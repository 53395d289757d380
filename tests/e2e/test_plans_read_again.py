"""A saved plan is shown as it was when it was made: of every kind, and of all of them together."""

from __future__ import annotations

import pytest
from support.every_kind import ALONE, FARMS, TOGETHER

from vsphere_ai.planning.document import open_saved
from vsphere_ai.planning.read_plan import plan_of
from vsphere_ai.report.folding import wrapped
from vsphere_ai.report.plans.plan_text import Beside, body_lines, changes_text

pytestmark = pytest.mark.lab
PLAYBOOKS = {**{kind: text for kind, text in ALONE.items() if kind not in FARMS}, "together": TOGETHER}


@pytest.mark.parametrize("name", sorted(PLAYBOOKS))
def test_a_saved_plan_is_shown_as_it_was_made(cli, tmp_path, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "160")
    saved = tmp_path / "plan.json"
    assert cli("plan", cli.file(PLAYBOOKS[name]), "--to", saved) == 0, cli.out + cli.err
    document = open_saved(saved.read_text("utf-8"), "plan.json")
    plan = plan_of(document)
    beside = Beside(estimate=document.expected, variables=document.variables)
    body = "\n".join(wrapped(body_lines(plan, beside), 160))
    shown = cli.out.split("\n\n", 1)[1].split("\nOUTPUTS\n")[0]
    assert body.strip().split("\nOUTPUTS\n")[0] in shown
    assert "{'" not in body
    assert changes_text([plan]) in cli.out.splitlines()[-1]
