"""What a playbook takes to another machine, and what comes back: every file it needs, and the names it has here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vsphere_ai.app.events import Begun, Remark, Status, StepEvent
from vsphere_ai.documents.fleets import ShardOutcome
from vsphere_ai.errors import Conflict, Diagnostic, InputError, Mark, UsageError
from vsphere_ai.fleet import address as fleet_address
from vsphere_ai.fleet import wire as fleet_wire
from vsphere_ai.fleet.bundle import Bundle, bundle_of, bundle_values, pack, unpacked
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.security import redaction

PARTED = "version: v1\nmig-configs: {half: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}]}\n"

FARM = (
    "- vars: {count: {type: number}}\n- include: parts/hosts.yml\n- vms: 'a-[1-${count}]'\n  hardware: {version: 19}\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "books" / "parts").mkdir(parents=True)
    files = {
        "books/farm.yml": FARM,
        "books/plain.yml": "- include: parts/hosts.yml\n- vms: a-*\n  hardware: {version: 19}\n",
        "books/parts/hosts.yml": "- hosts: esx*\n  mig: {parted: {file: parted.yaml, config: half}}\n",
        "books/parts/parted.yaml": PARTED,
        "books/other.yml": "- vms: secret-*\n  hardware: {version: 19}\n",
        "site.yml": "name: berlin\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_bundle_has_the_files_that_are_read_and_no_other_one(folder):
    bundle = pack(Path("books/plain.yml"), (Path("site.yml"),))
    assert set(bundle.texts) == {"plain.yml", "parts/hosts.yml", "parts/parted.yaml"}
    assert bundle.texts["parts/parted.yaml"] == PARTED
    assert bundle.values == (("site.yml", "name: berlin\n"),)
    assert bundle_of(bundle_values(bundle)) == bundle
    without_value = pack(Path("books/farm.yml"))
    assert set(without_value.texts) == {"farm.yml", "parts/hosts.yml", "parts/parted.yaml"}, "it has a value over there"


def test_the_names_that_come_back_are_those_of_the_operator(folder):
    for given in (Path("books/plain.yml"), folder / "books" / "plain.yml"):
        bundle = pack(given, (Path("site.yml"),))
        with unpacked(bundle) as (playbook, values, renamed):
            assert playbook.read_text() == given.read_text()
            hosts = playbook.parent / "parts" / "hosts.yml"
            said = {"mark": f"{hosts}:1:3", "more": [f"see {values[0]} and {playbook}"], "n": 7}
            back = renamed(said)
        assert back == {"mark": f"{given.parent}/parts/hosts.yml:1:3", "more": [f"see site.yml and {given}"], "n": 7}
        assert not playbook.exists()


def test_a_playbook_in_this_folder_keeps_its_bare_name(folder, monkeypatch):
    monkeypatch.chdir(folder / "books")
    with unpacked(pack(Path("plain.yml"))) as (playbook, _, renamed):
        assert renamed(str(playbook)) == "plain.yml"


def test_what_lies_outside_of_its_folder_is_not_written(folder):
    for name in ("../evil.yml", "/etc/evil.yml", "a/../../evil.yml"):
        with pytest.raises(UsageError), unpacked(Bundle("books", "plain.yml", {name: "x"})):
            raise AssertionError("it was unpacked")


def test_outputs_of_other_playbooks_do_not_travel(folder):
    book = folder / "books" / "refers.yml"
    book.write_text("- vms: a-*\n  hardware: {version: '${ref:other.version}'}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"refers\.yml:2:\d+") as refused:
        pack(book)
    assert refused.value.rule == "usage.references"
    assert refused.value.remedy.endswith(f"vsphere-ai output {folder / 'books' / 'other.yml'} version")
    with pytest.raises(UsageError, match="no playbook"):
        pack(folder / "absent.yml")


def test_faults_are_found_where_it_is_planned(folder):
    book = folder / "books" / "wrong.yml"
    book.write_text("- vms: a-*\n  hardwear: {version: 19}\n", encoding="utf-8")
    assert pack(book).texts == {"wrong.yml": book.read_text()}


STEP = Invoke(target=Target("host", "esx01", "HostSystem:1"), summary="start NTP", method="StartService")


@pytest.mark.parametrize(
    "event",
    [Remark("run.notice", "look"), Status("reading"), StepEvent("waiting", text="still", rule="run.notice")],
)
def test_an_event_comes_over_whole(event):
    assert fleet_wire.event_of(fleet_wire.event_values(event)) == event


def test_a_step_comes_over_with_what_is_shown_of_it():
    event = StepEvent("failed", PlannedStep("s3", STEP, ("s1",), ("s2",)), "no", 1.5, "step.failed")
    found = fleet_wire.event_of(fleet_wire.event_values(event))
    assert (found.what, found.text, found.seconds, found.rule) == ("failed", "no", 1.5, "step.failed")
    assert (found.planned.id, found.planned.after, found.planned.behind) == ("s3", ("s1",), ("s2",))
    assert (found.planned.step.target, found.planned.step.summary) == (STEP.target, STEP.summary)
    assert fleet_wire.event_values(StepEvent("progress")) is None
    assert fleet_wire.event_values(Begun()) is None


def test_errors_and_outcomes_come_over_and_secrets_do_not():
    wrong = InputError([Diagnostic(Mark("a.yml", 3, 7), "no", "do", "  3 | x")])
    assert fleet_wire.error_of(fleet_wire.error_values(wrong)).diagnostics == wrong.diagnostics
    stale = fleet_wire.error_of(fleet_wire.error_values(Conflict("changed", "again", rule="plan.stale")))
    assert (stale.exit_code, stale.title, stale.rule, stale.remedy) == (3, "conflict", "plan.stale", "again")
    outcome = ShardOutcome(
        fleet="f", vcenter="berlin", run="r", state="failed", exit_code=9, unknown=1, left_open=("esx01: ssh",)
    )
    values = fleet_wire.outcome_values(outcome)
    assert fleet_wire.outcome_of_values({**values, "of_a_later_version": 1}) == outcome
    with redaction.fresh():
        redaction.register("kanarienvogel-7")
        said = fleet_wire.cleaned({"text": ["of kanarienvogel-7!", 3], "kanarienvogel-7": None})
    assert said == {"text": ["of ***!", 3], "***": None}


def test_a_library_that_is_not_there_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match="distributed") as refused, fleet_address.needed():
        import distributed  # noqa: F401
    assert "pip install distributed" in refused.value.remedy
