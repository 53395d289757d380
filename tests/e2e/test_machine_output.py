"""What machines read: every line meets the published schema, and the last one is a summary, however a run ends."""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace

import jsonschema
import pytest
from support.gates import struck
from support.places import PLAYBOOKS, ROOT
from support.processes import apply

from tools.docgen.schemas.documents import printed_schema

pytestmark = pytest.mark.lab
PLAYBOOK = PLAYBOOKS / "pvrdma-only.yml"
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
PUBLISHED = ROOT / "docs" / "schemas" / "apply.schema.json"


def judged(lines):
    """The lines as documents, each valid against the published schema, none with a key that it does not know."""
    schema = json.loads(PUBLISHED.read_text("utf-8"))
    for definition in schema["definitions"].values():
        definition["additionalProperties"] = False
    check = jsonschema.Draft7Validator(schema)
    found = [json.loads(line) for line in lines]
    for document in found:
        assert not list(check.iter_errors(document)), document
    assert found[0]["type"] == "run"
    assert found[0]["schema_version"] == 1
    assert found[-1]["type"] == "summary"
    assert {line["type"] for line in found[1:-1]} <= {"event"}
    return found


def test_the_published_schema_is_up_to_date():
    assert json.loads(PUBLISHED.read_text("utf-8")) == printed_schema("apply"), "run: make docs"


@pytest.mark.parametrize("document", [{}, {"type": "run"}, {"type": "event", "time": "", "what": "gone", "text": ""}])
def test_the_schema_refuses_what_is_no_line(document):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(PUBLISHED.read_text("utf-8")))


def test_apply_as_json_lines(cli, ledger):
    for round_ in (1, 2):
        assert cli("apply", PLAYBOOK, "--yes", "-o", "json") == 0, cli.err
        lines = judged(cli.out.splitlines())
        assert lines[-1]["exit_code"] == 0
        assert bool(lines[1:-1]) == (round_ == 1), "the second time there is nothing to do"
        assert bool(lines[0]["run"]) == (round_ == 1), "without a run there is no journal"
    assert ledger()


def test_a_refused_plan_ends_its_stream_as_well(cli, ledger):
    refused = cli.file("- hosts: esx01.lab.local\n  mig: {gpus: {'0000:3b:00.0': [19, 14, 9, 5, 5, 2]}}\n")
    assert cli("apply", refused, "--yes", "-o", "json") == 1
    lines = judged(cli.out.splitlines())
    assert [line["type"] for line in lines] == ["run", "summary"]
    assert lines[-1]["exit_code"] == 1
    assert ledger() == []


def test_a_failed_run_says_in_its_last_line_what_failed(cli, lab):
    lab.set_faults([{"on": "ReconfigVM_Task", "nth": 1, "do": {"task-fails": "InvalidState"}}])
    code = cli("apply", PLAYBOOK, "--yes", "-o", "json")
    last = judged(cli.out.splitlines())[-1]
    assert code == last["exit_code"] == 1
    assert last["failed"] == 1
    assert next(o["error"] for o in last["outcomes"] if o["state"] == "failed")


@pytest.mark.parametrize("signals", [(signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM)], ids=["once", "twice"])
def test_the_last_line_is_a_summary_after_sigterm(lab, signals):
    lab.set_faults([{"on": "ssh: nvidia-smi", "do": {"delay": "500ms"}}])
    process = apply(lab, MISSION)
    assert process.until(lambda out: any("leave maintenance mode" in line or "MIG enabled" in line for line in out))
    for number in signals:
        process.send(number)
    assert process.wait() == 143, process.said
    last = judged(process.out)[-1]
    assert last["exit_code"] == 143
    assert last["interrupted"]
    states = [o["state"] for o in last["outcomes"]]
    assert len(states) == json.loads(process.out[0])["steps"]
    assert "skipped" in states


def test_a_plan_as_json_has_everything_the_text_has(cli):
    plan = cli.plan(PLAYBOOK)
    assert plan["schema_version"] == 1
    assert {i["kind"] for i in plan["items"]} == {"pvrdma_host", "pvrdma"}
    assert sorted(s for wave in plan["waves"] for s in wave) == [s["id"] for s in plan["steps"]]
    assert {t["name"] for t in plan["impact"]["power_cycles"]} == {"train-01", "train-02", "train-03"}


def only_ended(lines, code):
    """A stream of a header and a summary; return why it ended."""
    document = judged(lines)
    assert [line["type"] for line in document] == ["run", "summary"]
    assert document[-1]["exit_code"] == code
    return document[-1].get("error", "")


def test_what_ends_before_there_is_a_plan_ends_its_stream_as_well(cli, lab, ledger):
    unknown = cli.file("- hosts: esx99.lab.local\n  mig: {mode: enabled}\n")
    assert cli("apply", unknown, "--yes", "-o", "json") == 65
    assert "esx99" in only_ended(cli.out.splitlines(), 65)
    assert cli("apply", PLAYBOOK, "-o", "json") == 64
    assert only_ended(cli.out.splitlines(), 64) == "there is no terminal to ask on"
    assert cli("resume", "-o", "json") == 64
    assert only_ended(cli.out.splitlines(), 64) == "no run is unfinished"
    lab.set_faults([{"on": "Login", "do": {"fault": "InvalidLogin"}}])
    assert cli("apply", PLAYBOOK, "--yes", "-o", "json") == 4
    assert only_ended(cli.out.splitlines(), 4)
    assert cli("apply", PLAYBOOK, "--yes") == 4
    assert cli.out == "", "no line of a stream that nobody asked for"
    assert ledger() == []


def test_a_signal_before_there_is_a_plan_ends_its_stream_as_well(lab):
    lab.set_faults([{"on": "ssh: nvidia-smi", "do": "hold"}])
    process = apply(lab, MISSION)
    struck(lab, 1, alive=process.process)
    process.send(signal.SIGTERM)
    lab.clear_faults()
    assert process.wait() == 143, process.said
    only_ended(process.out, 143)
    assert json.loads(process.out[-1])["interrupted"]


def test_nobody_is_asked_about_a_plan_that_was_not_shown(cli, monkeypatch, ledger):
    seen = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("click.prompt", lambda *_given, **_named: seen.append("asked") or "no")
    assert cli("apply", PLAYBOOK, "-o", "json") == 0
    assert seen == ["asked"]
    assert "IMPACT" in cli.err
    assert [json.loads(line)["type"] for line in cli.out.splitlines()] == ["run", "summary"]
    assert ledger() == []


def closed(name):
    """A published schema that takes no key which it does not know, but where the tool's own types add some."""
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    for each in (schema, *schema["definitions"].values()):
        if "properties" in each:
            each.setdefault("additionalProperties", False)
    return jsonschema.Draft7Validator(schema)


@pytest.mark.parametrize("playbook", [MISSION, PLAYBOOKS / "training-set.yml"], ids=lambda path: path.stem)
def test_a_plan_meets_its_schema_printed_and_saved(cli, tmp_path, playbook):
    saved = tmp_path / "plan.json"
    cli("plan", playbook, "-o", "json", "--to", saved)
    assert not list(closed("plan").iter_errors(json.loads(cli.out)))
    if saved.exists():
        document = json.loads(saved.read_text("utf-8"))
        assert not list(closed("plan-to").iter_errors(document))
        assert list(closed("plan").iter_errors(document))
        del document["desired"]
        assert list(closed("plan-to").iter_errors(document))


def test_findings_meet_their_schema(cli):
    cli("check", "-o", "json")
    document = json.loads(cli.out)
    assert document["findings"]
    assert not list(closed("check").iter_errors(document))
    assert list(closed("check").iter_errors({**document, "findings": [{"rule": "a"}]}))
