"""What was approved is what runs: a saved plan is refused when it was edited or when the world moved on."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from support.places import PLAYBOOKS
from support.seeds import chance

from vsphere_ai.planning import document as plan_document
from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
FLIPS = 500


@pytest.fixture
def saved(cli, tmp_path):
    path = tmp_path / "plan.json"
    assert cli("plan", MISSION, "--to", path) == 0
    return path


def test_a_saved_plan_runs_without_being_asked_again(cli, saved, farm):
    assert stat.S_IMODE(os.stat(saved).st_mode) == 0o600
    assert cli("apply", saved) == 0, cli.err
    assert farm()["vms"]["train-01"]["vgpu"] == ["grid_a100-3-20c"]
    assert cli("apply", saved) == 3, "it was applied already: the world is not as it was"


def test_a_plan_that_0_1_0_saved_is_still_carried_out(cli, ledger, farm, saved):
    """T-10: a fixture stays for every schema; this one was saved by 0.1.0 for the lab's farm as it starts."""
    text = (Path(__file__).parent / "plans" / "schema-1.json").read_text("utf-8")
    assert plan_document.open_saved(text, "schema-1.json").schema_version == 1
    document = json.loads(text)
    document.pop("seal")
    # every lab of then was the same vCenter; this one has an instance UUID of its own
    document["vcenter"]["instance"] = json.loads(saved.read_text("utf-8"))["vcenter"]["instance"]
    document["digest"] = plan_document.checksum({k: document[k] for k in ("vcenter", "items", "problems", "steps")})
    saved.write_text(json.dumps({**document, "seal": plan_document.checksum(document)}), encoding="utf-8")
    assert cli("apply", saved) == 0, cli.out + cli.err
    assert farm()["vms"]["train-04"]["pvrdma"]
    assert len(ledger()) > 4


def test_a_plan_and_a_run_of_one_lab_are_not_carried_out_on_another(cli, saved, lab, make_lab, monkeypatch):
    """Each lab is another vCenter, whatever its farm looks like; a reset makes no other of it."""
    text = Path(lab.get("/lab/info")["scenario_file"]).read_text("utf-8")
    assert cli("apply", PLAYBOOKS / "pvrdma-only.yml", "--yes") == 0
    (record,) = journal.every()
    lab.post("/lab/reset")
    assert cli("apply", saved) == 0, cli.err
    other = make_lab(text)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(other.directory))
    assert cli("apply", saved) == 3
    assert cli.error == "plan.other-vcenter"
    for command in ("resume", "rollback"):
        assert cli(command, record.id, "--yes") == 3
        assert cli.error == "run.other-vcenter"
    assert other.get("/lab/ledger")["entries"] == []


def test_a_plan_with_a_flipped_bit_is_refused(cli, saved, ledger):
    whole = saved.read_bytes()
    drawn = chance("flips")
    for _ in range(FLIPS):
        place, bit = drawn.randrange(len(whole)), 1 << drawn.randrange(8)
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        assert cli("apply", saved) == 3, f"bit {bit} of byte {place}: {cli.err}"
        assert cli.error in ("plan.edited", "plan.unreadable")
    assert ledger() == []


EDITS = {
    "a step less": lambda d: d["steps"].pop(),
    "a step more": lambda d: d["steps"].append(d["steps"][0]),
    "another step": lambda d: d["steps"][0].update(action="reboot"),
    "another order": lambda d: d["steps"].reverse(),
    "no waiting": lambda d: d["steps"][-1].update(after=[]),
    "another target": lambda d: d["steps"][0]["target"].update(ref="VirtualMachine:vm-1"),
    "another name": lambda d: d["steps"][0]["target"].update(name="x"),
    "another profile": lambda d: d["items"][-1]["changes"][0].update(after="grid_a100-40c"),
    "a change less": lambda d: d["items"].pop(0),
    "no impact": lambda d: d["impact"].update(reboots=[]),
    "one outside": lambda d: d["impact"]["outside"].append("train-09"),
    "no problems": lambda d: d["problems"].append({}),
    "another vCenter": lambda d: d["vcenter"].update(instance="11111111-2222-3333-4444-555555555555"),
    "another version": lambda d: d.update(vsphere_ai="99.0.0"),
    "another schema": lambda d: d.update(schema_version=2),
    "another playbook": lambda d: d.update(playbook="other.yml"),
    "another pattern": lambda d: d["desired"]["plays"][0].update(pattern="all"),
    "another state": lambda d: d["desired"]["plays"][0]["states"].pop(),
    "another limit": lambda d: d["scope"].update(limit="esx01"),
    "another digest": lambda d: d.update(digest="0" * 64),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edited_plan_is_refused(cli, saved, ledger, edit):
    document = json.loads(saved.read_text(encoding="utf-8"))
    edit(document)
    saved.write_text(json.dumps(document), encoding="utf-8")
    assert cli("apply", saved) == 3
    assert cli.error == "plan.edited"
    assert ledger() == []


RESEALED = {
    "plan.other-vcenter": lambda d: d["vcenter"].update(instance="11111111-2222-3333-4444-555555555555"),
    "plan.schema": lambda d: d.update(schema_version=99),
}


@pytest.mark.parametrize("rule", RESEALED)
def test_a_whole_plan_that_is_not_for_here_is_refused(cli, saved, ledger, rule):
    """Its seal holds, because it was not edited: it comes from elsewhere."""
    document = json.loads(saved.read_text())
    del document["seal"]
    RESEALED[rule](document)
    saved.write_text(json.dumps({**document, "seal": plan_document.checksum(document)}))
    assert cli("apply", saved) == 3
    assert cli.error == rule
    assert ledger() == []


def test_steps_taken_out_of_a_plan_file_run_nevertheless(cli, saved, ledger, farm):
    """Whoever can make a seal can make a plan; but what runs is planned anew from what is wanted, never the text."""
    from vsphere_ai.planning.document import checksum

    document = json.loads(saved.read_text(encoding="utf-8"))
    document.pop("seal")
    document["steps"] = document["steps"][:1]
    document["seal"] = checksum(document)
    saved.write_text(json.dumps(document), encoding="utf-8")
    assert cli("apply", saved) == 0, cli.err
    assert len([e for e in ledger() if e["call"] == "esxcli system shutdown reboot"]) == 2
    assert all(farm()["vms"][f"train-0{n}"]["vgpu"] for n in range(1, 5))


def test_a_stale_plan_says_what_moved(cli, saved, soap, ledger):
    soap.wait(soap.vm("train-01").PowerOffVM_Task())
    before = ledger()
    assert cli("apply", saved) == 3
    assert cli.error == "plan.stale"
    assert "train-01" in cli.err
    assert ledger() == before


def test_a_vm_that_was_reconfigured_since_makes_it_stale(cli, saved, soap):
    spec = soap.vim.vm.ConfigSpec(firmware="bios")
    soap.wait(soap.vm("train-04").ReconfigVM_Task(spec))
    assert cli("apply", saved) == 3


def test_not_a_plan(cli, tmp_path):
    path = tmp_path / "x.json"
    for text in ("", "{}", "[1]", "nonsense", '{"seal": 3}'):
        path.write_text(text, encoding="utf-8")
        assert cli("apply", path) == 3, text
        assert cli.error == ("plan.edited" if "seal" in text else "plan.unreadable"), text


KEPT = {
    "a playbook": MISSION.read_bytes(),
    "another JSON document": b'{"seal": "x", "schema_version": 1}',
    "nested deeply": b"[" * 100_000,
    "nothing": b"",
    "no text": bytes(range(256)),
}


@pytest.mark.parametrize("what", KEPT)
def test_only_a_saved_plan_is_overwritten(cli, tmp_path, lab, what):
    path = tmp_path / "kept.yml"
    path.write_bytes(KEPT[what])
    logins = lab.get("/lab/farm")["logins"]
    assert cli("plan", path if what == "a playbook" else MISSION, "--to", path) == 64
    assert cli.error == "usage.not-overwritten"
    assert path.read_bytes() == KEPT[what]
    assert lab.get("/lab/farm")["logins"] == logins, "nothing is read for a plan that cannot be saved"


def test_a_link_and_a_pipe_are_not_overwritten(cli, tmp_path):
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(tmp_path / "nowhere")
    os.mkfifo(pipe)
    for path in (link, pipe):
        assert cli("plan", MISSION, "--to", path) == 64
    assert link.is_symlink()
    assert pipe.is_fifo()


def test_an_older_plan_is_overwritten_also_an_edited_one(cli, saved):
    saved.write_text(json.dumps({**json.loads(saved.read_text()), "playbook": "edited"}))
    assert cli("plan", MISSION, "--to", saved) == 0, cli.err
    assert cli("apply", saved) == 0, cli.err


def test_apply_without_a_terminal_needs_yes(cli, ledger):
    assert cli("apply", MISSION) == 64
    assert cli.error == "usage.no-terminal"
    assert ledger() == []
