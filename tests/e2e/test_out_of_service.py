"""What a run has out of service is known to everybody: in vCenter, from any machine, whatever became of the first."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from support.places import INVENTORY, PLAYBOOKS
from support.processes import apply, killed_at

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.connect import out_records
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
ENTERED = r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done"
OUT = {"maintenance", "services", "power"}


def state_folder():
    return Path(os.environ["VSPHERE_AI_STATE_DIR"])


@pytest.fixture
def killed(lab, monkeypatch):
    """The id of a run that was killed in a window; everything that its machine knew is gone."""
    killed_at(lab, ENTERED, MISSION, "--lock", "vcenter")
    (record,) = journal.every()
    run = record.id
    record.close()
    shutil.rmtree(state_folder())
    return run


@pytest.fixture
def vcenter(lab):
    with session_of(load_inventory(INVENTORY), None, EstateRequest()) as session:
        yield session.connection.vcenter


def left(lab):
    """What is out of service, as the farm finds it."""
    return {v["name"] for v in lab.check()["invariants"] if v["name"] in OUT and not v["ok"]}


def test_it_is_named_by_every_command_and_put_back_from_anywhere(lab, cli, killed, vcenter):
    assert left(lab) >= {"maintenance"}
    way = f"vsphere-ai resume --from-vcenter {killed}"
    assert cli("doctor", "-i", INVENTORY) == 2
    assert way in cli.out
    assert cli("run", "unlock", "-i", INVENTORY, "--yes") == 0
    assert way in cli.out
    assert "esx01.lab.local is in maintenance mode" in cli.out
    assert [r.run for r in out_records.read_records(vcenter)] == [killed], "unlock has thrown it away"
    for command, code in ((("plan", MISSION), 1), (("apply", MISSION, "--yes"), 1), (("verify", MISSION), 2)):
        assert cli(*command) == code, cli.out
        assert "run.out-of-service" in cli.out, cli.out
    assert cli("resume", "--from-vcenter", "--yes", "-i", INVENTORY) == 0, cli.out + cli.err
    assert not left(lab), lab.check()
    assert out_records.read_records(vcenter) == ()
    assert cli("run", "unlock", "-i", INVENTORY) == 0
    assert "resume" not in cli.out
    assert cli("apply", MISSION, "--yes") == 0, cli.out
    assert not left(lab)


def test_answers_that_are_lost_while_it_is_written_do_not_end_the_run(lab, cli, vcenter):
    lab.set_faults([{"on": "SetField", "times": 3, "do": "lost-reply"}])
    assert cli("apply", MISSION, "--yes") == 0, cli.out + cli.err
    assert [rule["fired"] for rule in lab.get("/lab/faults")["rules"]] == [3]
    assert not left(lab)
    assert out_records.read_records(vcenter) == ()


def test_what_is_back_already_is_not_touched(lab, cli, killed, vcenter, ledger):
    """Someone has brought the host and a VM back by hand: both stay as they are, whatever happens to them later."""
    assert cli("run", "unlock", "-i", INVENTORY, "--yes") == 0
    off = sorted(v["name"] for v in lab.get("/lab/farm")["vms"] if v["power"] == "poweredOff")
    vcenter.run_task(host_ref(vcenter, "esx01.lab.local"), "ExitMaintenanceMode_Task", {"timeout": 60}, timeout=60)
    before = len(ledger())
    assert cli("resume", "--from-vcenter", killed, "--yes", "-i", INVENTORY) == 0, cli.out + cli.err
    calls = [(e["object"], e["call"]) for e in ledger()[before:]]
    assert not [c for c in calls if "Maintenance" in c[1]], calls
    assert {name for name, call in calls if call == "PowerOnVM_Task"} <= set(off)
    assert not left(lab)


def test_apply_may_put_it_back_first(lab, cli, killed, vcenter):
    """The run was one of this machine, and its process is gone: --resume does not have to ask anyone."""
    assert cli("run", "unlock", "-i", INVENTORY, "--yes") == 0
    assert cli("apply", MISSION, "--yes", "--resume") == 0, cli.out + cli.err
    assert "run.from-vcenter" in cli.rules
    assert not left(lab)
    assert out_records.read_records(vcenter) == ()


def host_ref(vcenter, name):
    return next(ref for ref, f in vcenter.read({"HostSystem": ("name",)}).items() if f.name == name)


def test_other_work_is_done_and_does_not_hide_it(lab, cli, killed):
    """A plan about other targets is carried out, names what is out, and does not exit 0."""
    assert cli("run", "unlock", "-i", INVENTORY, "--yes") == 0
    play = cli.file("- vms: infra-01\n  tuning: {extra_config: {a.key: '1'}}\n")
    assert cli("apply", play, "--yes") == 1, cli.out + cli.err
    assert f"vsphere-ai resume --from-vcenter {killed}" in cli.out + cli.err
    assert cli("apply", play, "--yes") == 1, "nothing to do, and yet not all is well"


def test_a_record_that_cannot_be_read_is_not_nothing(lab, cli, killed, vcenter):
    assert cli("run", "unlock", "-i", INVENTORY, "--yes") == 0
    (stored,) = out_records.read_records(vcenter)
    key, _ = out_records.defined(vcenter, stored.ref)
    manager = vcenter.service("customFieldsManager")
    for value in ("eJyrVkrLz1eyUkpKLFKqBQ", "parts 3 2 0123456789abcdef0123456789abcdef", "%%%"):
        vcenter.call(manager, "SetField", {"entity": stored.ref, "key": key, "value": value})
        for command in (("plan", MISSION), ("apply", MISSION, "--yes"), ("verify", MISSION)):
            assert cli(*command) == 3, cli.out + cli.err
            assert cli.error == "out-record.damaged"
            assert killed in cli.err
        assert cli("resume", "--from-vcenter", "--yes", "-i", INVENTORY) == 3
        assert cli("doctor", "-i", INVENTORY) == 2
    assert left(lab) >= {"maintenance"}


def test_a_state_folder_that_is_removed_while_a_run_works_is_noticed(lab, cli, vcenter):
    lab.set_faults("- {on: EnterMaintenanceMode_Task, nth: 1, do: hold}\n")
    process = apply(lab, MISSION)
    end = time.monotonic() + 60
    while not lab.get("/lab/faults")["fired"] and time.monotonic() < end:
        time.sleep(0.05)
    shutil.rmtree(state_folder())
    lab.clear_faults()
    assert process.wait() == 8, process.said
    assert "was removed or replaced while run" in process.said
    assert "there is no run" not in process.said
    if left(lab):
        assert cli("resume", "--from-vcenter", "--yes", "-i", INVENTORY) == 0, cli.out + cli.err
    assert not left(lab), process.said
    assert out_records.read_records(vcenter) == ()


def test_apply_beside_a_damaged_journal_names_the_file_and_changes_nothing(lab, cli, ledger):
    play = cli.file("- vms: infra-01\n  tuning: {extra_config: {a.key: '1'}}\n")
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    (path,) = journal.files()
    for content in (b"", b"no database at all", path.read_bytes()[:5000]):
        path.write_bytes(content)
        for part in path.parent.glob(f"{path.name}-*"):
            part.unlink()
        before = len(ledger())
        assert cli("apply", play, "--yes") == 8, cli.out + cli.err
        assert str(path) in cli.err
        assert cli.error == "journal.damaged"
        assert len(ledger()) == before
    path.unlink()
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err


def test_a_run_that_works_here_is_not_taken_from_it(lab, cli):
    """Also one whose journal another user has, or that has lost its folder."""
    lab.set_faults("- {on: ExitMaintenanceMode_Task, nth: 1, do: hold}\n")
    process = apply(lab, MISSION, "--lock", "none")
    end = time.monotonic() + 60
    while not lab.get("/lab/faults")["fired"] and time.monotonic() < end:
        time.sleep(0.05)
    state = state_folder()
    state.rename(state.with_name("of-another-user"))
    assert cli("plan", MISSION) == 1
    assert "run.out-of-service" in cli.out
    assert cli("resume", "--from-vcenter", "--yes", "--lock", "none", "-i", INVENTORY) == 7, cli.out + cli.err
    assert cli.error == "run.under-way"
    shutil.rmtree(state)
    state.with_name("of-another-user").rename(state)
    lab.clear_faults()
    assert process.wait() == 0, process.said
    assert not left(lab)


@pytest.mark.parametrize("given", [("--vcenter", "lab"), ("--from-vcenter", "--reboot-again")])
def test_options_that_do_not_fit_are_refused(lab, cli, given):
    assert cli("resume", *given) == 64
    assert cli.error == "usage.resume"


def test_without_a_record_there_is_nothing_to_put_back(lab, cli):
    assert cli("resume", "--from-vcenter", "-i", INVENTORY) == 64
    assert cli.error == "run.none"
