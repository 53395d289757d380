"""A vCenter that takes few tasks at a time: what it refuses is sent again, and each effect is there once."""

from __future__ import annotations

from collections import Counter

import pytest
from support.labs import started

pytestmark = pytest.mark.lab
VMS, ROOM = 24, 4
FARM = f"""
name: full
vcenter: {{version: 8.0.2, build: 22617221, api: 8.0.2.0}}
timing: {{boot_seconds: 0.2, task_seconds: 0.05, shutdown_seconds: 0.05, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}]
hosts: [{{name: esx01.lab.local, cluster: gpu-a, version: 8.0.2, build: 22380479}}]
vms: [{{name: "vm-[01:{VMS}]", host: esx01.lab.local}}]
"""
PLAY = "- vms: vm-*\n  tuning: {extra_config: {bench.round: '1'}}\n"


@pytest.fixture
def lab(tmp_path, monkeypatch):
    from vsphere_ai.lab.front import process

    (tmp_path / "farm.yml").write_text(FARM, encoding="utf-8")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "lab"))
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.BUSY_PAUSE", 0.05)
    yield started(tmp_path / "lab", tmp_path / "farm.yml")
    process.stop(tmp_path / "lab")


def sent(lab):
    return lab.get("/lab/traffic")["calls"].get("ReconfigVM_Task", 0)


def test_what_is_refused_is_sent_again_with_fewer_in_flight(lab, cli, ledger):
    lab.set_faults([{"on": "ReconfigVM_Task", "do": {"most-tasks": ROOM}}])
    play = cli.file(PLAY)
    assert cli.run("apply", play, "--yes", "--parallel", "16") == 0, cli.out + cli.err
    assert Counter(e["object"] for e in ledger() if e["call"] == "ReconfigVM_Task") == {
        f"vm-{n:02}": 1 for n in range(1, VMS + 1)
    }
    refused = sent(lab) - VMS
    assert refused, "the limit was never met"
    assert refused < 3 * VMS, "it kept on sending more than vCenter takes"
    assert cli.text("run.notice").count("takes no more tasks at a time") == 1
    assert cli("plan", play, "--detailed-exitcode") == 0
    assert lab.check()["ok"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_of_the_proxy_is_no_word_of_how_much_is_under_way(lab, cli, ledger, when, monkeypatch):
    """HTTP 503 may come before vCenter has the request and after it has carried it out: what became of it is read."""
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.LOST_CALL", 0.5)
    lab.set_faults([{"on": "ReconfigVM_Task", "every": 3, "times": 5, "when": when, "do": 503}])
    play = cli.file(PLAY)
    assert cli.run("apply", play, "--yes", "--parallel", "16") == 0, cli.out + cli.err
    effects = Counter(e["object"] for e in ledger() if e["call"] == "ReconfigVM_Task")
    assert effects == {f"vm-{n:02}": 1 for n in range(1, VMS + 1)}
    assert len(lab.get("/lab/faults")["fired"]) == 5
    assert "takes no more tasks at a time" not in cli.text("run.notice")


def test_a_vcenter_that_never_has_room_ends_the_step_and_changes_nothing(lab, cli, ledger, monkeypatch):
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.BUSY", 0.5)
    lab.set_faults([{"on": "ReconfigVM_Task", "do": {"fault": "TooManyConcurrentNativeClones"}}])
    assert cli.run("apply", cli.file(PLAY), "--yes", "--limit", "vm-01") == 1, cli.out + cli.err
    assert cli.failed == {("vm-01", "fault.TooManyConcurrentNativeClones")}
    assert not [e for e in ledger() if e["call"] == "ReconfigVM_Task"]
    assert len(lab.get("/lab/faults")["fired"]) > 2
