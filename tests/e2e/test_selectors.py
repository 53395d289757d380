"""Hosts and VMs chosen by tag, custom attribute, pool, GPU model and power state, on a lab that has all of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from support.bookkeeping import is_bookkeeping
from support.places import ROOT

from vsphere_ai.connect import vcenter

pytestmark = pytest.mark.lab
SCENARIO = """
name: labelled
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a, pools: [research/llm, prod]}]
tags: [Stage/frozen, Team/empty]
hosts:
  - name: esx[01:02].lab.local
    cluster: gpu-a
    nvidia_driver: 535.261.03
    gpus: [{pci: "0000:3b:00.0", board: a100-80gb}]
    ssh: {running: true, policy: on}
    tags: [Team/ml]
  - {name: esx03.lab.local, cluster: gpu-a, ssh: {running: true, policy: on}}
vms:
  - {name: "train-[01:03]", host: "esx[01:02].lab.local", power: on, tools: running, tags: [Team/ml],
     attributes: {owner: ml-a}, pool: research/llm}
  - {name: train-04, host: esx01.lab.local, tags: [Team/ml, Stage/frozen], attributes: {owner: ml-a}}
  - {name: "web-[01:02]", host: esx03.lab.local, tags: [Team/web], attributes: {owner: web}, pool: prod}
"""
PLAY = """
- hosts: {gpu: A100, power: on, tag: Team/ml}
  graphics: {default_type: shared_direct}
  rolling: {evacuate: power_off}
- vms:
    tag: Team/ml
    attribute: {owner: ml-*}
    power: on
    any: [{pool: llm}, {gpu: A100}]
    without: {tag: Stage/frozen}
  hardware: {version: 19}
"""
CHOSEN = {"esx01.lab.local", "esx02.lab.local", "train-01", "train-02", "train-03"}
TAG_PATH = "/api/cis/tagging"


@pytest.fixture
def labelled(make_lab, monkeypatch):
    made = make_lab(SCENARIO)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    return made


def ledger(lab):
    return [e for e in lab.get("/lab/ledger")["entries"] if not is_bookkeeping(e)]


def rest(lab):
    return {call: n for call, n in lab.get("/lab/traffic")["calls"].items() if "/api/" in call}


def test_a_play_by_selectors_is_applied_and_then_finds_nothing_to_do(cli, labelled):
    """VMs are switched off on the way: whom the play means by their power state stays as it was planned."""
    playbook = cli.file(PLAY)
    plan = cli.plan(playbook)
    assert {i["target"]["name"] for i in plan["items"]} == CHOSEN
    assert cli("apply", playbook, "--yes", "--reboot", 2) == 0, cli.out + cli.err
    assert {e["object"] for e in ledger(labelled)} >= CHOSEN - {"esx02.lab.local"}
    assert not {"web-01", "web-02", "train-04"} & {e["object"] for e in ledger(labelled)}
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("verify", playbook) == 0, cli.out


def test_the_number_of_requests_for_tags_does_not_depend_on_the_objects(cli, labelled):
    assert cli("plan", cli.file(PLAY)) == 0, cli.out + cli.err
    assert sum(rest(labelled).values()) <= 12
    assert rest(labelled)["POST /api/session"] == rest(labelled)["DELETE /api/session"] == 1
    before = rest(labelled)
    assert cli("plan", cli.file("- vms: train-01\n  hardware: {version: 19}\n", "other.yml")) == 0
    assert rest(labelled) == before, "tags are asked for only where a playbook needs them"


def test_a_saved_plan_is_stale_once_it_would_mean_others(cli, labelled, new_client, tmp_path):
    playbook = cli.file("- vms: {power: off, without: {names: 'web-*'}}\n  hardware: {version: 19}\n")
    saved = tmp_path / "plan.json"
    assert cli("plan", playbook, "--to", saved) == 0, cli.out + cli.err
    assert {i["target"]["name"] for i in cli.plan(playbook)["items"]} == {"train-04"}
    client = new_client(labelled)
    client.wait(client.vm("train-01").PowerOffVM_Task())
    before = len(ledger(labelled))
    assert cli("apply", saved) == 3
    assert cli.error == "plan.stale"
    assert "train-01" in cli.err
    assert len(ledger(labelled)) == before
    assert cli("plan", playbook, "--to", tmp_path / "again.json") == 0
    assert cli("apply", tmp_path / "again.json") == 0, cli.out + cli.err


DOWN = [
    ("503", 5, "tags.unreachable"),
    ("401", 4, "tags.denied"),
    ("malformed", 5, "tags.malformed"),
    ("drop", 5, "tags.unreachable"),
    ("truncate", 5, "tags.malformed"),
]


@pytest.mark.parametrize(("fault", "code", "rule"), DOWN)
def test_where_the_tag_service_does_not_answer_nothing_is_planned_or_changed(
    cli, labelled, fault, code, rule, monkeypatch
):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, backoff=0.02))
    labelled.post("/lab/faults", {"rules": f"- {{on: rest, do: {fault}}}"})
    playbook = cli.file(PLAY)
    for command in (("plan", playbook), ("apply", playbook, "--yes"), ("show", "--limit", "tag=Team/ml")):
        assert cli(*command) == code, cli.out + cli.err
        assert cli.error == rule
    assert ledger(labelled) == []
    assert cli("plan", cli.file("- vms: train-01\n  hardware: {version: 19}\n", "other.yml")) == 0, "SOAP works"


def test_a_limit_takes_conditions(cli, labelled):
    playbook = cli.file("- vms: all\n  hardware: {version: 19}\n")
    plan = cli.plan(playbook, "--limit", "tag=Team/ml:!tag=Stage/frozen")
    assert {i["target"]["name"] for i in plan["items"]} == {"train-01", "train-02", "train-03"}
    assert {t["name"] for t in plan["left_out"]} == {"train-04", "web-01", "web-02"}
    assert cli("apply", playbook, "--limit", "power=on", "--yes") == 0, cli.out + cli.err
    assert {e["object"] for e in ledger(labelled)} == {"train-01", "train-02", "train-03"}
    for limit, near in (("tag=Team/mll", "Team/ml"), ("attribute=ownr=x", "owner"), ("pool=prodd", "prod")):
        assert cli("plan", playbook, "--limit", limit) == 64
        assert cli.error == "usage.limit"
        assert near in cli.err
    assert cli("plan", playbook, "--limit", "tag=Team/empty") == 64


def test_groups_of_an_inventory_are_selectors_too(cli, labelled):
    inventory = cli.file("lab: true\nvms:\n  ml: {tag: Team/ml, power: on}\n  none: {tag: Team/empty}\n", "inv.yml")
    plan = cli.plan(cli.file("- vms: ml:!train-03\n  hardware: {version: 19}\n"), "-i", inventory)
    assert {i["target"]["name"] for i in plan["items"]} == {"train-01", "train-02"}
    assert cli("plan", cli.file("- vms: none\n  hardware: {version: 19}\n"), "-i", inventory) == 65
    assert f"{inventory}:4:3" in cli.err


def test_a_mistake_in_a_selector_is_shown_at_its_place(cli, labelled):
    playbook = cli.file("- vms:\n    tag: Teem/ml\n    attribute: {ownr: x}\n  hardware: {version: 19}\n")
    assert cli("plan", playbook) == 65
    assert cli.error == "input"
    assert {"'Teem'", "'Team'", "'ownr'", "'owner'"} <= set(cli.err.replace("?", " ").split())
    assert f"{playbook}:2:5" in cli.err


def checks(cli, *arguments):
    assert cli("doctor", *arguments, "-o", "json") in (0, 1, 2), cli.err
    return [c for c in json.loads(cli.out)["findings"] if c["target"]["name"] == "tags"]


def test_doctor_says_whether_tags_can_be_read(cli, labelled, monkeypatch):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, backoff=0.02))
    inventory = cli.file("lab: true\nvms:\n  ml: {any: [{tag: Team/ml}, train-01]}\n", "inv.yml")
    (found,) = checks(cli)
    assert (found["verdict"], "2 categories" in found["message"]) == ("pass", True)
    assert rest(labelled)["POST /api/session"] == rest(labelled)["DELETE /api/session"] == 1
    labelled.post("/lab/faults", {"rules": "- {on: rest, do: 401}"})
    for arguments, verdict in (((), "warn"), (("-i", inventory), "fail")):
        (found,) = checks(cli, *arguments)
        assert (found["verdict"], bool(found["remedy"])) == (verdict, True)
        assert ("'ml'" in found["message"]) == (verdict == "fail")


PAGE = re.findall(r"^```yaml playbook\n(.*?)^```$", (ROOT / "docs" / "selectors.md").read_text("utf-8"), re.M | re.S)
CONDITIONS = re.findall(r"^\| `[a-z]+` \| `([^`]+)` \|", (ROOT / "docs" / "selectors.md").read_text("utf-8"), re.M)


def test_the_examples_of_the_page_choose_what_they_say(cli, make_lab, monkeypatch):
    made = make_lab(SCENARIO.replace("ml-a", "ml-train"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    (text,) = PAGE
    plan = cli.plan(cli.file(text))
    assert {i["target"]["name"] for i in plan["items"]} == CHOSEN
    for limit in ("gpu=A100:&power=on", "tag=Team/ml:!tag=Stage/frozen", "train-*:&power=on"):
        assert cli("show", "--limit", limit) == 0, cli.err
        assert "train-[01:03]" in cli.out
        assert "train-04" not in cli.out
        assert "web" not in cli.out


def test_each_short_form_of_the_page_is_one(cli, make_lab, monkeypatch):
    made = make_lab(
        SCENARIO.replace("ml-a", "ml").replace("pool: research/llm", "pool: research/llm, folder: ai/training")
    )
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    assert len(CONDITIONS) == 10
    names = {"a": "train-01", "b": "train-02", "a:b": "train-01:train-02", "a:!b": "train-*:!train-02"}
    for given in CONDITIONS:
        assert cli("show", names.get(given, given)) == 0, f"{given}: {cli.err}"
        assert "train-" in cli.out or given.startswith("gpu")
