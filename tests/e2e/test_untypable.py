"""A value that pyVmomi has no type for is one unknown fact: asked for once, named by plan, and all else is read."""

from __future__ import annotations

import json
import re
import time

import pytest
from support.gates import busy
from support.places import PLAYBOOKS
from support.rewriting import in_object

pytestmark = pytest.mark.lab
PLAYBOOK = PLAYBOOKS / "mig-precreate.yml"


@pytest.mark.parametrize("path", ["runtime.powerState", "runtime.connectionState"])
def test_plan_names_it_and_plans_the_rest(cli, lab, answers, path):
    whole = cli.plan(PLAYBOOK)
    before = lab.get("/lab/farm")["logins"]
    seen = answers(in_object("infra-01", path), rb'\1 xsi:type="FutureState">\2')
    begun = time.monotonic()
    plan = cli.plan(PLAYBOOK)
    assert time.monotonic() - begun < 40 * busy(), "vCenter is asked again for a minute when it does not answer"
    assert 1 <= sum(seen) <= 2, "the inventory is read once, the VM once more closely"
    (named,) = [f for f in plan["findings"] if f["rule"] == "vcenter.answers"]
    assert named["verdict"] == "unknown"
    assert re.match(rf"infra-01 \(VirtualMachine:vm-\d+\): {path}: ", named["message"])
    assert "pyVmomi does not know 'FutureState'" in named["message"]
    assert plan["items"] == whole["items"]
    assert plan["problems"] == whole["problems"]
    assert plan["steps"] == whole["steps"]
    assert lab.get("/lab/farm")["logins"] == before + 1
    cli("plan", PLAYBOOK)
    assert "vcenter.answers: infra-01 (VirtualMachine:" in cli.out


def test_a_plan_that_changes_nothing_names_it_too(cli, answers):
    playbook = cli.file("- hosts: esx03.lab.local\n  kernel: {ats: false}\n")
    if cli("show", "esx03.lab.local") == 0:
        playbook = cli.file(cli.out)
    answers(in_object("infra-01", "runtime.powerState"), rb'\1 xsi:type="FutureState">\2')
    assert cli("plan", playbook, "-o", "json") == 0, cli.err
    document = json.loads(cli.out)
    assert document["steps"] == []
    assert [f["rule"] for f in document["findings"]] == ["vcenter.answers"]
