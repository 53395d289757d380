"""vSphere tags of sets: attached to new VMs, changed in place, put right after drift, refused beforehand."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from support.vm_sets import FARM, INVENTORY, Sets, play

from vsphere_ai.connect import vcenter

pytestmark = pytest.mark.lab
TAGS = """
tags: [Team/ml, Team/web, Project/llm, Project/vision, Stage/test, Stage/prod, Rack/a7]
tag_categories: [{name: Stage, single: true}, {name: Rack, types: [HostSystem]}]
"""
WANTED = "{Team: ml, Project: [vision, llm], Stage: prod}"


@pytest.fixture
def farm(cli, make_lab, monkeypatch):
    """Start a farm with tags."""

    def begun(more=""):
        lab = make_lab(FARM + TAGS + more)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        return Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))

    return begun


def attached(sets, name):
    """Return what the ledger of the lab says that a VM has."""
    tags = set()
    for entry in sets.ledger(name):
        if entry["call"] in ("AttachTag", "DetachTag"):
            (tags.add if entry["call"] == "AttachTag" else tags.remove)(entry["detail"]["tag"])
    return tags


def changed(sets, name):
    calls = Counter(e["call"] for e in sets.ledger(name))
    return calls["AttachTag"], calls["DetachTag"]


def test_a_new_vm_gets_them_and_they_change_in_place(farm, cli):
    sets = farm()
    sets.applied(play("train-01", nics=1, tags=WANTED))
    assert attached(sets, "train-01") == {"Team/ml", "Project/llm", "Project/vision", "Stage/prod"}
    on = len(sets.ledger("train-01", "PowerOnVM_Task"))
    text = play("train-01", nics=1, tags="{Project: llm, Stage: test, Team: []}")
    assert sets("plan", cli.file(text), "-o", "json") == 0
    changes = {
        c["field"]: c["effect"] for i in json.loads(cli.out)["items"] if i["kind"] == "vm_set" for c in i["changes"]
    }
    assert changes == dict.fromkeys(("tags of Project", "tags of Stage", "tags of Team"), "in place")
    sets.applied(text)
    assert attached(sets, "train-01") == {"Project/llm", "Stage/test"}, "one of Stage: the other one goes first"
    assert changed(sets, "train-01") == (5, 3)
    assert len(sets.ledger("train-01", "PowerOnVM_Task")) == on, "no power cycle"
    sets.applied(play("train-01", nics=1))
    assert attached(sets, "train-01") == {"Project/llm", "Stage/test"}, "what the play does not name stays"


def test_drift_is_found_and_put_right(farm, cli):
    sets = farm()
    sets.applied(play("train-01", nics=1, tags="{Team: [ml, web]}"))
    text = cli.file(play("train-01", nics=1, tags="{Team: ml}"))
    assert sets("verify", text) == 2
    assert "tags of Team" in cli.out
    assert sets("apply", text, "--yes") == 0
    assert sets("verify", text) == 0, cli.out


@pytest.mark.parametrize(
    ("tags", "rule"),
    [
        ("{Team: mll}", "vm_set.no-tag"),
        ("{Teams: ml}", "vm_set.no-tag-category"),
        ("{Stage: [test, prod]}", "vm_set.one-tag"),
        ("{Rack: a7}", "vm_set.tag-types"),
    ],
)
def test_what_vcenter_would_refuse_is_refused_before(farm, tags, rule):
    assert farm().refused(play("train-01", nics=1, tags=tags)) == {rule}


@pytest.mark.parametrize(
    "privilege", ["InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable"]
)
def test_a_missing_privilege_is_told_before(farm, cli, privilege):
    denied = farm(f"privileges_denied: [{privilege}]\n")
    book = cli.file(play("train-01", cards=("{name: mgmt, port_group: dvpg-dhcp}",), tags=WANTED))
    assert denied("doctor", "--permissions", book, "-o", "json") == 4, cli.out
    lacking = {need["privilege"] for need in json.loads(cli.out)["privileges"] if not need["granted"]}
    assert privilege in lacking
    before = len(denied.ledger())
    assert denied("apply", book, "--yes") != 0
    assert len(denied.ledger()) == before


@pytest.fixture
def no_pause(monkeypatch):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, backoff=0.02))


@pytest.mark.parametrize("fault", [{"do": "drop", "when": "after"}, {"do": "503"}])
def test_what_gets_no_answer_is_sent_again_and_attaches_nothing_twice(farm, fault, no_pause):
    sets = farm()
    sets.lab.set_faults([{"on": "rest", "every": 3, **fault}])
    sets.applied(play("train-01", nics=1, tags=WANTED))
    assert sets.lab.get("/lab/faults")["fired"]
    assert changed(sets, "train-01") == (4, 0)


def test_nothing_is_planned_where_the_tag_service_does_not_answer(farm, cli, no_pause):
    sets = farm()
    sets.lab.set_faults([{"on": "rest", "do": "503"}])
    text = cli.file(play("train-01", nics=1, tags=WANTED))
    before = len(sets.ledger())
    assert sets("apply", text, "--yes") == 5
    assert cli.error == "tags.unreachable"
    assert len(sets.ledger()) == before


def test_categories_are_asked_for_once_in_a_run(farm, cli):
    """Of four categories one has its tags listed, when it is planned and when the run first attaches one."""

    def asked(names):
        sets = farm()
        assert sets("apply", cli.file(play(names, nics=1, tags="{Team: ml}")), "--yes") == 0, cli.out + cli.err
        calls = sets.lab.get("/lab/traffic")["calls"]
        return calls["GET /api/cis/tagging/category"], calls["POST /api/cis/tagging/tag"]

    assert asked("train-01") == asked("train-[01:04]")
