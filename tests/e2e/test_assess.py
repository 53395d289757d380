"""The assessment on the lab: of the farm as it is, and as a playbook makes it; answers of operators; exit codes."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import FARM, FULL, INVENTORY, Sets

from vsphere_ai.compat import assessment
from vsphere_ai.compat.pillars.attested import QUESTIONS

pytestmark = pytest.mark.lab
ANSWER = '- rule: {}\n  answer: "yes"\n  owner: ops\n  date: 2026-01-02\n  expires: 2999-01-02\n'


@pytest.fixture
def assess(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    sets = Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))

    def run(*more):
        code = sets("assess", *more, "-o", "json")
        document = json.loads(cli.out) if cli.out else {"findings": (), "not_applicable": ()}
        found = {(f["rule"], (f["target"] or {}).get("name", "")): f for f in document["findings"]}
        return code, found | {(rule, ""): {"verdict": "not applicable"} for rule in document["not_applicable"]}

    run.sets = sets
    return run


def test_the_farm_is_assessed_as_it_is_and_as_a_playbook_makes_it(assess, cli):
    before = len(assess.sets.ledger())
    code, now = assess()
    planned_code, planned = assess(cli.file(FULL))
    assert (code, planned_code) == (2, 2)  # no host of the lab has a time server
    assert {rule for rule, _ in now} == {rule for rule, _ in planned} == {r.id for r in assessment.rules()}
    assert ("performance.rdma-nic", "train-01") not in now
    assert planned["performance.rdma-nic", "train-01"]["verdict"] == "pass"
    assert planned["operations.drift", ""]["verdict"] == "warn"
    assert all(a["evidence"] for a in planned.values() if a["verdict"] in ("pass", "warn", "fail"))
    assert len(assess.sets.ledger()) == before


def test_the_least_verdict_that_the_exit_code_reports_is_chosen(assess, cli):
    answers = cli.file("".join(map(ANSWER.format, QUESTIONS)), "attest.yml")
    code, found = assess("--attest", answers, "--fail-on", "never")
    assert code == 0
    assert {found[rule, ""]["verdict"] for rule in QUESTIONS} == {"pass"}
    assert cli("assess", "--fail-on", "unknown", "-i", cli.file(INVENTORY, "inventory.yml")) == 2


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("rule: x\n", "1:1", "a list"),
        (ANSWER.format("security.time"), "1:9", "no rule that is attested"),
        (ANSWER.format("cost.idle-policy") * 2, "6:9", "answered twice"),
        (ANSWER.format("cost.idle-policy").replace("2026-01-02", "2026-13-02"), "4:9", "no date"),
        (ANSWER.format("cost.idle-policy").replace("2026-01-02", "2998-01-02"), "4:9", "in the future"),
        (ANSWER.format("cost.idle-policy").replace("2999", "2025"), "", "expires before"),
        (ANSWER.format("cost.idle-policy").replace('"yes"', "maybe"), "2:11", "yes"),
    ],
)
def test_wrong_answers_are_shown_with_their_place(cli, text, place, words):
    file = cli.file(text, "attest.yml")
    assert cli("assess", "--attest", file) == 65
    assert f"attest.yml:{place}" in cli.err
    assert words in cli.err


PLAIN = """
name: plain
clusters: [{name: gpu-a}]
hosts:
  - name: "esx[01:02].lab.local"
    cluster: gpu-a
    gpus: [{pci: "0000:3b:00.0", board: a100-80gb}]
    ssh: {running: true}
"""


def test_the_playbook_of_the_corrections_makes_its_rules_pass(cli, make_lab, monkeypatch, tmp_path):
    lab = make_lab(PLAIN)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    path = tmp_path / "fix.yml"
    assert cli("assess", "--fix", path, "--fail-on", "never") == 0, cli.err
    assert "corrects" in cli.err
    text = path.read_text()
    corrected = {line.removeprefix("# corrects ") for line in text.splitlines() if line.startswith("# corrects ")}
    assert {"performance.power-policy", "security.ssh-off", "security.syslog", "security.time"} <= corrected
    assert "security.lockdown" in corrected
    assert cli("plan", path) == 65  # there is something to choose
    text = text.replace("CHOOSE A LOG HOST", "tcp://10.0.0.5").replace("CHOOSE A TIME SERVER", "10.0.0.1")
    path.write_text(text.replace("CHOOSE AN EXCEPTION USER", "root"))
    assert cli("apply", path, "--yes") == 0, cli.out + cli.err
    assert cli("assess", "-o", "json", "--fail-on", "never") == 0
    left = {f["rule"] for f in json.loads(cli.out)["findings"] if f["verdict"] in ("warn", "fail")}
    assert not corrected & left
    assert cli("assess", "--fix", path) == 64
    assert "is there already" in cli.err
