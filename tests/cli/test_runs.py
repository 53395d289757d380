"""`runs` and `run show RUN`: what a journal tells, and journals that nobody here can read."""

from __future__ import annotations

import json
import os
import re
from types import SimpleNamespace

import pytest
from support.journals import act, create, of_another_format
from support.raising import refused

from vsphere_ai.cli.console import json_stream, streams
from vsphere_ai.cli.main import main
from vsphere_ai.errors import Conflict
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target
from vsphere_ai.runs import journal_files

HOST, VM = Target("host", "esx01", "HostSystem:host-1"), Target("vm", "train-01", "VirtualMachine:vm-1")
ADAPTER = {"port_group": "dvpg-rdma", "protocol": "rocev2"}
APPROVED = {
    "vcenter": {"name": "vc01", "version": "8.0.3", "build": "1", "api": "8.0.3.0", "instance": "i"},
    "impact": {"reboots": [vars(HOST)], "power_cycles": [vars(VM)]},
    "items": [
        {"target": vars(VM), "kind": "pvrdma", "changes": [
            {"field": "adapters", "sign": "+", "before": [], "after": [ADAPTER]}]},
        {"target": vars(HOST), "kind": "graphics", "changes": []},
    ],
    "steps": [{"id": f"s{n}", "target": vars(t), "summary": s} for n, t, s in (
        (1, VM, "shut down"), (2, HOST, "enter maintenance mode"), (3, HOST, "reboot (over SSH)"))],
}  # fmt: skip


@pytest.fixture
def command(capsys):
    def run(*arguments):
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def a_run(*, instance="i"):
    """A run that was cut off in its second step."""
    scope = {"vcenter": "lab", "address": "vc01", "limit": "esx*"}
    document = {"what": "play.yml", "inventory": "/inventory.yml", "instance": instance, "scope": scope}
    record = create({**document, "approved": APPROVED})
    record.begin("s1", act(VM, "power-off", "shut down"), (Pending("off", VM),))
    record.submitted("s1", "Task:task-7")
    record.end("s1", "done")
    record.begin("s2", act(HOST, "enter-maintenance", "enter maintenance mode"), (Pending("maintenance", HOST),))
    return record


def test_show_tells_what_a_run_that_was_cut_off_did_and_owes(command):
    record = a_run()
    code, out, _ = command("run", "show", record.id)
    assert code == 0
    for words in (
        f"Run {record.id}: unfinished", "play.yml", "lab (vc01)", "/inventory.yml", "esx*", "it was cut off",
        "train-01: pvrdma adapters  none → dvpg-rdma (rocev2)", "reboot: esx01", "off and on again: train-01",
        "shut down — done", "enter maintenance mode — began, its end is not known", "1 step not begun",
        "esx01 is in maintenance mode because of this run", "train-01 was powered off by this run",
        f"vsphere-ai resume {record.id}", f"process {os.getpid()}",
    ):  # fmt: skip
        assert words in out
    assert "esx01: graphics" not in out, "what does not change was not approved either"


def test_show_tells_how_a_run_ended(command):
    record = a_run()
    record.end("s2", "failed", "vCenter refused it")
    record.resolve(Pending("maintenance", HOST))
    record.update(ended=True, exit_code=1, signal=15, skipped=1, open=["train-01 is powered off"], lock="vcenter")
    _, out, _ = command("run", "show", record.id)
    for words in (
        ": failed",
        "with exit code 1, after signal 15",
        "vCenter refused it",
        "on this machine and in vCenter",
    ):
        assert words in out
    assert "maintenance mode because" not in out
    record.resolve(Pending("off", VM))
    _, out, _ = command("run", "show", record.id)
    assert "train-01 is powered off" in out
    record.update(exit_code=0, signal=2, open=[])
    assert ": stopped" in command("run", "show", record.id)[1]
    record.update(skipped=0)
    _, out, _ = command("run", "show", record.id)
    assert ": finished" in out
    assert "resume" not in out


def test_show_tells_a_resumed_run_apart(command):
    record = a_run()
    record.attempt = 2
    record.begin("s1", act(HOST, "exit-maintenance", "leave maintenance mode"), ())
    record.end("s1", "done", closes=(Pending("maintenance", HOST),))
    _, out, _ = command("run", "show", record.id)
    assert "resumed, attempt 2" in out
    assert "not begun" not in out


def test_show_as_json_has_everything(command):
    record = a_run()
    code, out, _ = command("run", "show", record.id[:10], "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert document["schema_version"] == 1
    assert document["run"] == document["operation"] == record.id
    assert document["state"] == "unfinished"
    assert [(s["state"], s["task"], s["error"]) for s in document["steps"]] == [
        ("done", "Task:task-7", None), ("begun", None, None)]  # fmt: skip
    assert [s["id"] for s in document["not_begun"]] == ["s3"]
    assert [(d["kind"], d["name"], d["closed"]) for d in document["pending_actions"]] == [
        ("off", "train-01", None), ("maintenance", "esx01", None)]  # fmt: skip
    assert document["approved"]["impact"]["reboots"] == [vars(HOST)]


def test_a_debt_says_whether_its_command_ever_left():
    record = a_run()
    record.begin(
        "s3", act(HOST, "reboot", "reboot (over SSH)"), (Pending("reboot", HOST, "2026-01-01T00:00:00+00:00"),)
    )
    reboot = next(o for o in record.ever_pending() if o.pending.kind == "reboot")
    assert reboot.sent == ""
    record.sending(HOST)
    reboot = next(o for o in record.ever_pending() if o.pending.kind == "reboot")
    assert reboot.sent > reboot.opened[:19]
    assert [o.sent for o in record.ever_pending() if o.pending.kind != "reboot"] == ["", ""]


def test_runs_lists_them(command):
    assert json.loads(command("run", "list", "-o", "json")[1])["runs"] == []
    record = a_run()
    code, out, _ = command("run", "list")
    assert code == 0
    assert out.startswith(f"{record.id}  unfinished  lab  play.yml")
    assert out.rstrip().endswith("2 pending")
    listed = json.loads(command("run", "list", "-o", "json")[1])
    assert [r["run"] for r in listed["runs"]] == [record.id]
    assert listed["unreadable"] == []


@pytest.mark.parametrize("name", ["20260101-000000-dead", "20260101-000000-beef"])
def test_a_run_that_is_not_there(command, name):
    a_run()
    code, _, err = command("run", "show", name)
    assert code == 64
    assert json_stream.failure() == "run.none"
    assert name in err


def test_a_pattern_is_no_run(command, monkeypatch):
    a_run()
    assert not journal_files.is_named("esx01")
    assert not journal_files.is_named("2")
    assert command("show", "esx*", "-o", "json")[0] == 64


# -- journals of other versions (T-10), and damaged ones


def test_a_journal_of_another_version_is_refused_and_says_what_to_do(command):
    record = a_run()
    record.close()
    of_another_format(record.path)
    for arguments in (("run", "show", record.id), ("resume", record.id), ("rollback", record.id, "--yes")):
        code, out, err = command(*arguments)
        assert code == 8
        assert json_stream.failure() == "journal.other-version"
        assert {record.id, "9.0", str(record.path)} <= set(re.findall(r"[^\s,;:()]+", err)), err
        assert out == ""
    code, out, err = command("run", "list")
    assert code == 0
    assert record.id in err
    assert command("resume")[0] == 64, "it is not what an unnamed resume takes"


def test_a_run_reboots_no_host_twice(command):
    from vsphere_ai.app.runs import resume_run

    record = create()
    record.begin("s1", act(HOST, "reboot", "reboot (over SSH)"), ())
    record.end("s1", "done")
    other = Target("host", "esx02", "HostSystem:host-2")
    assert not resume_run._reboots_again(rebooting(other), record, allowed=False)
    with refused(Conflict, "run.reboots-again", "esx01"):
        resume_run._reboots_again(rebooting(HOST, other), record, allowed=False)
    assert "reboot (over SSH) — done" in command("run", "show", record.id)[1]


def rebooting(*hosts):
    return SimpleNamespace(impact=SimpleNamespace(reboots=hosts))


def test_what_is_over_is_not_told_of_again(command):
    for ended in (True, False):
        record = a_run()
        for pending in record.pending():
            record.resolve(pending)
        record.update(ended=ended)
        record.close()
        of_another_format(record.path)
        assert (record.id in command("run", "list")[2]) is not ended


def test_many_of_them_are_counted(command):
    for _ in range(5):
        record = a_run()
        record.close()
        of_another_format(record.path)
    assert len(command("run", "list")[2].splitlines()) == 3 * 2 + 1
    assert "and 2 more" in command("run", "list")[2]


def test_a_damaged_journal_is_named_by_every_list(command):
    record, well = a_run(), a_run()
    record.close()
    record.path.write_bytes(b"no database" * 1000)
    for suffix in ("-wal", "-shm"):
        record.path.with_name(record.path.name + suffix).unlink(missing_ok=True)
    code, out, err = command("run", "list")
    assert code == 0
    assert well.id in out
    assert record.id in err
    code, _, err = command("run", "show", record.id)
    assert (code, json_stream.failure()) == (8, "journal.damaged")


@pytest.mark.lab
def test_an_unreadable_journal_is_announced_by_plan_and_apply_only(lab, command):
    from support.places import INVENTORY, PLAYBOOKS

    record = a_run()
    record.close()
    of_another_format(record.path)
    play = str(PLAYBOOKS / "pvrdma-only.yml")
    command("plan", "-i", str(INVENTORY), play)
    assert [record.id in text for rule, text in streams.remarks() if rule == "run.unreadable"] == [True]
    code, _, err = command("apply", "-i", str(INVENTORY), play, "--yes")
    assert (code, json_stream.failure()) == (8, "journal.other-version")
    assert record.id in err
    for arguments in (("check", "-i", str(INVENTORY)), ("verify", "-i", str(INVENTORY), play)):
        command(*arguments)
        assert "run.unreadable" not in dict(streams.remarks())
