"""`verify --watch` and notifications against the lab: only changes are printed, outages are waited for."""

from __future__ import annotations

import itertools
import json
import signal
import sys
import time
from dataclasses import replace

import pytest
from support.gates import LONG, busy
from support.places import INVENTORY
from support.processes import Process

from vsphere_ai import app
from vsphere_ai.app.watching import live_cursor
from vsphere_ai.connect import vcenter
from vsphere_ai.errors import Denied, InputError

pytestmark = pytest.mark.lab
PLAY = "- {vms: train-04, tuning: {extra_config: {sched.cpu.halt: '%s'}}}\n"
SINK = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"


class Over(Exception):
    """A watch has seen enough."""


def nothing():
    """What happens between two readings, mostly."""


@pytest.fixture
def sink(tmp_path):
    """The option of a command that notes what it gets, and what it noted."""
    program, notes = tmp_path / "sink.py", tmp_path / "notes"
    program.write_text(SINK, encoding="utf-8")

    def noted():
        return [json.loads(line) for line in notes.read_text("utf-8").splitlines()] if notes.exists() else []

    return ["--notify-command", f"{sys.executable} {program} {notes}"], noted


@pytest.fixture
def watching(cli, lab, monkeypatch):
    """Watch a playbook; before each further reading the next of the given functions is called, until none is left."""
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, patience=0.3, backoff=0.1, longest_pause=0.1))

    def watch(playbook, *between):
        left, seen = list(between), []

        def wait(_seconds):
            if not left:
                raise Over
            left.pop(0)()

        request = app.WatchRequest(playbook, app.EstateRequest(INVENTORY))
        try:
            for each in app.watch(request, wait=wait):
                seen.append(each)
        except (Over, Denied) as ended:
            return seen, ended
        raise AssertionError("a watch does not end by itself")

    return watch


def test_only_changes_are_reported_in_one_session(cli, lab, watching):
    wanted, other = cli.file(PLAY % 0), cli.file(PLAY % 1, "other.yml")
    assert cli("apply", wanted, "--yes") == 0

    def drift():
        assert cli("apply", other, "--yes") == 0

    def back():
        assert cli("apply", wanted, "--yes") == 0

    (first, appeared, gone), _ = watching(wanted, nothing, drift, nothing, back, nothing)
    assert (first.first, first.appeared, first.gone) == (True, (), ())
    assert first.result.as_wanted
    [difference] = appeared.appeared
    assert (difference.target.name, difference.kind) == ("train-04", "tuning")
    assert (appeared.first, appeared.gone, appeared.result.exit_code) == (False, (), 2)
    assert gone.gone == appeared.appeared
    assert gone.appeared == ()
    assert lab.check()["ok"]


def test_without_a_change_a_reading_takes_one_request(cli, lab, watching, monkeypatch):
    wanted, other = cli.file(PLAY % 0), cli.file(PLAY % 1, "other.yml")
    assert cli("apply", wanted, "--yes") == 0
    counts = []

    def count():
        counts.append(sum(lab.get("/lab/traffic")["calls"].values()))

    def drift():
        count()
        assert cli("apply", other, "--yes") == 0

    def in_time():
        monkeypatch.setattr(live_cursor, "LONGEST", 0.0)
        count()

    seen, _ = watching(wanted, count, count, count, count, drift, count, count, in_time, count)
    assert [len(each.appeared) for each in seen] == [0, 1]
    second, *idle = [after - before for before, after in itertools.pairwise(counts[:5])]
    assert second > max(idle) + 5  # it also begins to follow what is read
    assert idle == [1, 1, 1]
    *_, idle, full = [after - before for before, after in itertools.pairwise(counts)]
    assert idle == 1
    assert full > idle + 2  # it is read in full from time to time all the same


def test_several_plays_and_hosts_that_answer_over_ssh_take_one_request(cli, lab, watching):
    """Hosts are asked again where they, or the VMs that run there, have changed."""
    wanted = cli.file(PLAY % 0 + "- {hosts: 'esx0[1-2].lab.local', mig: {mode: disabled}}\n")
    assert cli("apply", wanted, "--yes") == 0
    lab.set_faults([{"on": "ssh: nvidia-smi", "probability": 1.0, "do": {"delay": "0.001s"}}])
    counts = []

    def count():
        fired = len(lab.get("/lab/faults")["fired"])
        counts.append((sum(lab.get("/lab/traffic")["calls"].values()), fired))

    def drift():
        assert cli("apply", cli.file(PLAY % 1, "other.yml"), "--yes", "--no-ssh-login") == 0
        count()

    seen, _ = watching(wanted, nothing, count, count, count, drift, count)
    assert [len(each.appeared) for each in seen] == [0, 1]
    first, second, third, drifted, last = counts
    assert first[1] > 0
    assert (second[0] - first[0], third[0] - second[0]) == (1, 1)
    assert second[1] == third[1] == first[1]
    assert last[0] - drifted[0] <= 6, "a VM has changed, and is read"
    assert last[1] == drifted[1], "its key is nothing that hosts would show otherwise"


def test_an_outage_is_one_line_and_the_change_during_it_is_seen(cli, lab, watching):
    wanted, other = cli.file(PLAY % 0), cli.file(PLAY % 1, "other.yml")
    assert cli("apply", wanted, "--yes") == 0

    def away():
        assert cli("apply", other, "--yes") == 0
        lab.set_faults([{"on": "RetrievePropertiesEx", "do": 503}])

    seen, _ = watching(wanted, away, nothing, lab.clear_faults)
    assert [type(each) for each in seen] == [app.DriftSeen, app.NotRead, app.ReadAgain, app.DriftSeen]
    assert seen[1].error.exit_code == 5
    assert seen[1].seconds is not None
    assert len(seen[3].appeared) == 1


def test_a_refused_login_ends_it(cli, lab, watching):
    wanted = cli.file(PLAY % 0)

    def locked():
        expired = {"on": "WaitForUpdatesEx", "nth": 1, "do": "expire-session"}
        lab.set_faults([expired, {"on": "Login", "do": {"fault": "InvalidLogin"}}])

    _, ended = watching(wanted, locked, nothing)
    assert isinstance(ended, Denied)


def test_a_broken_playbook_ends_it_at_once(cli):
    broken = cli.file("- {vms: no-such-vm, tuning: {cpus: 4}}\n")
    with pytest.raises(InputError):
        next(app.watch(app.WatchRequest(broken, app.EstateRequest(INVENTORY))))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_with_a_signal_within_two_seconds_and_logs_out(cli, lab, number, code):
    playbook = cli.file(PLAY % 0)
    process = Process(lab, "verify", "-i", INVENTORY, playbook, "--watch", "-o", "json")
    assert process.until(lambda out: out), process.said
    began = time.monotonic()
    process.send(number)
    assert process.wait(LONG) == code, process.said
    assert time.monotonic() - began < 2 * busy()
    [line] = (json.loads(line) for line in process.out)
    assert (line["type"], line["schema_version"], line["first"], line["drifted"]) == ("drift", 1, True, 1)
    assert line["appeared"][0]["target"]["name"] == "train-04"
    assert next(i for i in lab.check()["invariants"] if i["name"] == "sessions")["ok"]


def test_a_run_is_notified_of_with_its_end(cli, sink):
    option, noted = sink
    assert cli("apply", cli.file(PLAY % 0), "--yes", *option) == 0
    [document] = noted()
    assert (document["event"], document["state"], document["exit_code"]) == ("run.ended", "finished", 0)
    assert (document["failed"], document["failures"], document["pending"]) == (0, [], [])
    assert document["done"] > 0
    assert document["run"] == json.loads(cli_runs(cli))["runs"][0]["run"]


def cli_runs(cli):
    assert cli("run", "list", "-o", "json") == 0
    return cli.out


def test_a_failed_run_is_notified_of_with_its_failures_and_all_later_ones(cli, lab, sink):
    option, noted = sink
    lab.set_faults([{"on": "ReconfigVM_Task", "nth": 1, "do": {"fault": "InvalidState"}}])
    assert cli("apply", cli.file(PLAY % 0), "--yes", *option) == 1
    assert cli("resume", "--yes", *option) == 0
    run = json.loads(cli_runs(cli))["runs"][0]["run"]
    assert cli("rollback", run, "--yes", *option) == 0
    failed, resumed, back = noted()
    assert (failed["exit_code"], failed["failed"]) == (1, 1)
    assert failed["failures"][0]["target"] == "train-04"
    assert failed["failures"][0]["rule"] == "fault.InvalidState"
    assert (resumed["run"], resumed["exit_code"], back["exit_code"]) == (run, 0, 0)


def test_nothing_is_sent_where_nothing_was_run(cli, sink):
    option, noted = sink
    playbook = cli.file(PLAY % 0)
    assert cli("apply", playbook, "--yes") == 0
    assert cli("apply", playbook, "--yes", *option) == 0
    assert noted() == []


def test_a_notification_that_fails_fails_no_run(cli):
    assert cli.run("apply", cli.file(PLAY % 0), "--yes", "--notify-command", "/no/such/program") == 0
    assert cli.rules == {"notify.failed"}
    assert "notify.failed" in {remark["rule"] for remark in cli.summary["remarks"]}


def test_wrong_options_are_an_error_before_anything_is_changed(cli, ledger):
    before = ledger()
    assert cli("apply", cli.file(PLAY % 0), "--yes", "--notify-webhook", "http://example.com/") == 64
    assert cli.error == "usage.notify"
    assert ledger() == before


def test_whom_the_inventory_names_is_notified_and_an_option_wins(cli, sink, tmp_path):
    (_, command), noted = sink
    inventory = cli.file(f"lab: true\nnotify: {{command: {json.dumps(command)}}}\n", "inventory.yml")
    playbook = cli.file(PLAY % 0)
    assert cli("verify", playbook, "-i", inventory) == 2
    assert cli("apply", playbook, "--yes", "-i", inventory) == 0
    assert [document["event"] for document in noted()] == ["drift.changed", "run.ended"]
    assert cli("rollback", noted()[-1]["run"], "--yes", "--notify-command", f"{command}-mine") == 0
    assert len(noted()) == 2
    assert json.loads((tmp_path / "notes-mine").read_text("utf-8"))["what"].startswith("rollback")


def test_what_an_inventory_names_is_looked_at_before_anything_is_changed(cli, ledger):
    before = ledger()
    inventory = cli.file("lab: true\nnotify: {webhook: 'env:NO_SUCH_HOOK'}\n", "inventory.yml")
    assert cli("apply", cli.file(PLAY % 0), "--yes", "-i", inventory) == 4
    assert cli.error == "password.none"
    assert ledger() == before


def test_drift_is_notified_of(cli, sink):
    option, noted = sink
    playbook = cli.file(PLAY % 0)
    assert cli("verify", playbook, *option) == 2
    [document] = noted()
    assert (document["event"], document["drifted"], document["appeared_count"]) == ("drift.changed", 1, 1)
    assert document["playbook"] == str(playbook)
    assert cli("apply", playbook, "--yes") == 0
    assert cli("verify", playbook, *option) == 0
    assert len(noted()) == 1
