"""One run at a time on a vCenter: eight processes, two machines, dead and frozen holders, lost answers."""

from __future__ import annotations

import getpass
import json
import os
import re
import signal
import socket
import sys
import threading
import time

import pytest
import yaml
from support import prefork
from support.gates import LONG
from support.places import INVENTORY, PLAYBOOKS
from support.processes import apply
from support.seeds import FULL

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.connect import vcenter_lock
from vsphere_ai.errors import StepFailed
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.runs import journal, locks

pytestmark = pytest.mark.lab
ROUNDS, MANY = (50 if FULL else 5), 8
QUICK = 0.8
"""Seconds between renewals, so that a lock lapses while a test waits."""
LAPSED = QUICK * vcenter_lock.GRACE + 1.2
NOTHING_TO_DO = "- vms: train-01\n  hardware: {firmware: efi}\n"


class Contender:
    """A process that wants the locks (see `support.contender`)."""

    def __init__(self, lab, state, mode, *, every=vcenter_lock.PERIOD, **more):
        environment = {
            **os.environ,
            "VSPHERE_AI_LAB_DIR": str(lab.directory),
            "VSPHERE_AI_STATE_DIR": str(state),
            **more,
        }
        program = "import sys; from support import contender; contender.main(sys.argv[1], float(sys.argv[2]))"
        self.process = prefork.Popen(
            [sys.executable, "-c", program, mode, every],
            stdin=prefork.PIPE,
            stdout=prefork.PIPE,
            text=True,
            env=environment,
        )
        self.pid = self.process.pid

    def ready(self):
        assert self.hear() == {"ready": self.pid}
        return self

    def say(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, line):
        self.say(line)
        return self.hear()

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def contend(lab, tmp_path):
    """Start contenders: `contend("vcenter", machine=2)`; each machine has a state folder of its own."""
    started = []

    def start(mode="vcenter", machine=0, **more):
        started.append(Contender(lab, tmp_path / f"machine{machine}", mode, **more))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """This process is on a machine of its own."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "here"))
    return tmp_path / "here"


@pytest.fixture
def vcenter(lab, here):
    with session_of(load_inventory(INVENTORY), None, EstateRequest()) as session:
        yield session.connection.vcenter


def tell(why):
    raise AssertionError(f"the lock was lost: {why}")


def free(vcenter):
    return vcenter_lock.find(vcenter) is None


# -- T-31


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["local", "vcenter"])
def test_of_many_processes_exactly_one_gets_the_lock(contend, mode):
    many = [contend(mode, machine=n if mode == "vcenter" else 0) for n in range(MANY)]
    for each in many:
        each.ready()
    for turn in range(ROUNDS):
        for n, each in enumerate(many):
            each.say(f"go turn {turn} of {n}")
        answers = [each.hear() for each in many]  # the winner keeps the lock meanwhile: nobody waits for it
        winners = [n for n, answer in enumerate(answers) if answer["won"]]
        assert len(winners) == 1, answers
        winner = winners[0]
        names = (
            getpass.getuser(),
            socket.gethostname(),
            f"process {many[winner].pid}",
            f"turn {turn} of {winner}",
            "since 20",
        )
        for answer in answers:
            if not answer["won"]:
                assert answer["code"] == 7
                assert [name for name in names if name not in answer["locked"]] == []
        assert many[winner].ask("release")["released"]


# -- dead, frozen and slow holders


def test_a_killed_holder_frees_the_kernel_lock(contend):
    first, second = contend("local").ready(), contend("local").ready()
    assert first.ask("go one")["won"]
    assert f"process {first.pid}, run one" in second.ask("go two")["locked"]
    first.kill()
    first.process.wait()
    assert second.ask("go three")["won"], "at once"


def test_the_next_run_on_the_machine_takes_over_what_a_killed_one_left_in_vcenter(contend, vcenter):
    first, second = contend(machine=1).ready(), contend(machine=2).ready()
    assert first.ask("go one")["won"]
    first.kill()
    first.process.wait()
    assert f"process {first.pid}, run one" in second.ask("go two")["locked"], (
        "only its own machine knows that it is dead"
    )
    third = contend(machine=1).ready()
    assert third.ask("go three")["won"]
    assert f"process {third.pid}, run three" in second.ask("go two")["locked"]
    third.ask("release")
    assert free(vcenter)


def test_a_local_run_removes_what_a_killed_one_left_in_vcenter(contend, vcenter):
    first = contend(machine=1).ready()
    assert first.ask("go one")["won"]
    first.kill()
    first.process.wait()
    assert contend("local", machine=1).ready().ask("go two")["won"]
    assert free(vcenter)


@pytest.mark.timeout(1200)
def test_a_lapsed_lock_is_taken_over_by_exactly_one(contend):
    holder = contend(machine="x", every=QUICK).ready()
    many = [contend(machine=n) for n in range(MANY)]
    for each in many:
        each.ready()
    for turn in range(10 if FULL else 1):
        assert holder.ask(f"go {turn}")["won"]
        assert not many[0].ask("go early")["won"]
        holder.kill()
        holder.process.wait()
        time.sleep(LAPSED)
        for each in many:
            each.say("go late")
        answers = [each.hear() for each in many]
        winners = [n for n, answer in enumerate(answers) if answer["won"]]
        assert len(winners) == 1, answers
        many[winners[0]].ask("release")
        holder = contend(machine="x", every=QUICK).ready()


def test_a_lock_that_is_renewed_does_not_lapse(contend, vcenter):
    holder, other = contend(machine=1, every=QUICK).ready(), contend(machine=2).ready()
    assert holder.ask("go one")["won"]
    time.sleep(LAPSED + 2 * QUICK)
    assert not other.ask("go two")["won"]
    assert vcenter_lock.find(vcenter).period >= vcenter_lock.GRACE
    assert holder.ask("release")["released"]
    assert other.ask("go three")["won"]


def test_a_frozen_holder_learns_that_it_lost_its_lock(contend):
    holder, other = contend(machine=1, every=QUICK).ready(), contend(machine=2).ready()
    assert holder.ask("go one")["won"]
    holder.kill(signal.SIGSTOP)
    time.sleep(LAPSED)
    assert other.ask("go two")["won"]
    holder.kill(signal.SIGCONT)
    assert holder.hear() == {"lost": "someone else took it over or removed it"}
    answer = holder.ask("release")
    assert "the lock in vCenter was lost" in answer["locked"]
    assert not contend(machine=3).ready().ask("go three")["won"], "it took the lock of the other one along"


@pytest.mark.parametrize("number", range(1, 7))
def test_a_run_that_dies_while_it_makes_a_lock_keeps_nobody_out_for_long(contend, vcenter, number):
    dying = contend(machine=1, every=QUICK, CONTENDER_DIES_AT=str(number)).ready()
    dying.say("go one")
    assert dying.process.wait(LONG) == 9
    if number == 6:  # complete: it looks like one that is held
        time.sleep(LAPSED)
    with locks.hold(vcenter, "two", mode="vcenter", lost=tell):
        assert vcenter_lock.find(vcenter).holder.pid == os.getpid()
    assert free(vcenter)


# -- lost answers


@pytest.mark.parametrize("number", range(1, 7))
def test_a_lost_answer_while_a_lock_is_made(lab, vcenter, contend, number):
    lab.set_faults(f"- {{on: CreateFolder, nth: {number}, do: lost-reply}}\n")
    with locks.hold(vcenter, "one", mode="vcenter", lost=tell):
        assert vcenter_lock.find(vcenter).holder.run == "one"
        assert not contend(machine=1).ready().ask("go two")["won"]
    assert free(vcenter)


def test_a_lost_answer_while_a_lock_is_renewed_or_removed(lab, vcenter):
    # whose period it was is only known when it is asked for again before the lock would have lapsed
    with locks.hold(vcenter, "one", mode="vcenter", lost=tell, every=3 * QUICK):
        lab.set_faults("- {on: CreateFolder, nth: 1, do: lost-reply}\n- {on: Destroy_Task, nth: 1, do: lost-reply}\n")
        deadline = time.monotonic() + LONG
        while vcenter_lock.find(vcenter).period < 2:
            assert time.monotonic() < deadline
            time.sleep(QUICK / 4)
    deadline = time.monotonic() + LONG
    while not free(vcenter):
        assert time.monotonic() < deadline


# -- what others may have done to it


def test_what_somebody_put_into_the_lock_is_not_destroyed(vcenter, soap):
    with locks.hold(vcenter, "one", mode="vcenter", lost=tell) as held:
        inside = soap.find(soap.vim.Folder, "lock").CreateFolder("mine")
        inside.CreateFolder("precious")
        with pytest.raises(StepFailed, match="not ours"):
            vcenter_lock.remove(vcenter, held.lock.ref)
        assert soap.find(soap.vim.Folder, "precious")
    assert not free(vcenter), "the run ended, and what it could not remove it left"
    soap.wait(inside.Destroy_Task())
    with locks.hold(vcenter, "two", mode="vcenter", lost=tell):
        assert vcenter_lock.find(vcenter).holder.run == "two"
    assert free(vcenter)


@pytest.mark.parametrize(
    "names",
    [
        ("since 99999999T999999Z, renewed every 1 s, process 1", "0"),
        ("since 99991231T235959Z, renewed every 99999 s, process 999999999", "999999999"),
        ("by", "since", "0", "for \x1b[2J[/bold]"),
        ("999999999999999999999999",),
    ],
)
def test_a_lock_with_made_up_names_is_taken_over(vcenter, soap, names):
    home = soap.content.rootFolder.CreateFolder(vcenter_lock.HOME)
    folder = home.CreateFolder(vcenter_lock.NAME)
    for name in names:
        folder.CreateFolder(name.replace("\x1b", ""))
    with locks.hold(vcenter, "one", mode="vcenter", lost=tell) as held:
        assert held.lock.ref != f"Folder:{folder._moId}"


# -- the command line

HOLDER = re.compile(r"build7|process \d+|apply gpu\.yml")


def test_a_run_on_another_machine_keeps_this_one_out(contend, cli, here, ledger):
    play = cli.file(NOTHING_TO_DO)
    holder = contend(machine=1, CONTENDER_MACHINE="build7").ready()
    assert holder.ask("go apply gpu.yml")["won"]
    before = len(ledger())
    for mode in ("vcenter", "local", "none"):
        assert cli("apply", play, "--yes", "--lock", mode) == 7
        assert cli.error == "lock.held"
        assert {"build7", f"process {holder.pid}", "apply gpu.yml"} <= {w for w in HOLDER.findall(cli.err)}, cli.err
        assert "vsphere-ai run unlock" in cli.err
    assert len(ledger()) == before
    assert holder.ask("release")["released"]
    assert cli("apply", play, "--yes", "--lock", "vcenter") == 0
    assert [e["object"] for e in ledger() if e["call"] == "Destroy_Task"] == ["lock", "lock"]


def test_the_inventory_may_ask_for_the_lock_in_vcenter(lab, cli, here, ledger):
    document = yaml.safe_load((lab.directory / "connection.yml").read_text("utf-8"))
    document["vcenters"]["lab"]["lock"] = "vcenter"
    inventory = lab.directory / "locking.yml"
    inventory.write_text(json.dumps(document), encoding="utf-8")
    play = cli.file(NOTHING_TO_DO)
    assert cli("apply", play, "--yes", "-i", inventory) == 0
    assert [e["object"] for e in ledger() if e["call"] == "Destroy_Task"] == ["lock"]
    assert cli("apply", play, "--yes", "-i", inventory, "--lock", "local") == 0
    assert [e["object"] for e in ledger() if e["call"] == "Destroy_Task"] == ["lock"]


def test_unlock_tells_who_holds_what_and_removes_a_foreign_lock(contend, cli, here, vcenter):
    assert cli("run", "unlock", "-i", INVENTORY, "-o", "json") == 0
    assert {key: json.loads(cli.out)[key] for key in ("local", "advisory")} == {"local": None, "advisory": None}

    holder = contend(machine=1, every=QUICK, CONTENDER_MACHINE="build7").ready()
    assert holder.ask("go one")["won"]
    assert cli("run", "unlock", "-i", INVENTORY) == 64
    assert cli.error == "usage.no-terminal"
    assert {"build7", f"process {holder.pid}"} <= set(HOLDER.findall(cli.out))
    assert not free(vcenter)
    assert cli("run", "unlock", "-i", INVENTORY, "--yes", "-o", "json") == 0
    found = json.loads(cli.out)
    assert (found["local"], found["advisory"]["machine"], found["advisory"]["expired"], found["removed"]) == (
        None,
        "build7",
        False,
        True,
    )
    assert free(vcenter)
    assert holder.hear() == {"lost": "someone else took it over or removed it"}


def test_unlock_does_not_remove_the_lock_of_a_run_on_this_machine(contend, cli, here, vcenter):
    for machine in (1, "here"):
        state = here if machine == "here" else None
        holder = contend(machine=machine, **({"VSPHERE_AI_STATE_DIR": str(state)} if state else {})).ready()
        assert holder.ask("go one")["won"]
        assert cli("run", "unlock", "-i", INVENTORY, "--yes") == 7
        assert cli.error == "lock.in-use"
        assert not free(vcenter)
        assert holder.ask("release")["released"]


def applying(lab, state, *more):
    argv = [sys.executable, "-m", "vsphere_ai", "apply", "-i", str(INVENTORY), str(PLAYBOOKS / "ai-ready-cluster.yml")]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "PYTHONUNBUFFERED": "1"}
    environment["VSPHERE_AI_STATE_DIR"] = str(state)
    return prefork.Popen(
        [*argv, "--yes", "-v", *more], stdout=prefork.PIPE, stderr=prefork.STDOUT, text=True, env=environment
    )


def until(process, words):
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            return seen
    raise AssertionError("".join(seen))


def test_resume_takes_over_the_lock_of_the_run_that_was_killed(lab, cli, here, contend, vcenter):
    process = applying(lab, here, "--lock", "vcenter")
    seen = until(process, "enter maintenance mode — done")
    process.kill()
    process.stdout.read()
    process.wait()
    run = next(line.split()[1] for line in seen if line.startswith("Run "))
    assert vcenter_lock.find(vcenter).holder.run == run
    assert cli("run", "show", run, "-o", "json") == 0, cli.err
    assert json.loads(cli.out)["scope"]["address"] == vcenter.name == f"127.0.0.1:{lab.port}"
    assert "lock" in {d.kind for d in journal.open_run(run).pending()}
    refused = contend(machine=1).ready().ask("go other")["locked"]
    assert f"process {process.pid}, run {run}, since" in refused

    assert cli("resume", run, "--yes") == 0, cli.err
    assert free(vcenter)
    assert cli.states() == ["finished"]
    assert journal.open_run(run).pending() == ()


def test_unlock_settles_what_a_killed_run_owes(lab, cli, here, vcenter):
    process = applying(lab, here, "--lock", "vcenter")
    until(process, "enter maintenance mode — done")
    process.kill()
    process.stdout.read()
    process.wait()
    assert cli("run", "unlock", "-i", INVENTORY, "--yes") == 0
    (record,) = journal.every()
    assert "lock" not in {d.kind for d in record.pending()}
    assert "maintenance" in {d.kind for d in record.pending()}
    assert free(vcenter)


def test_a_run_whose_lock_is_taken_away_stops_in_an_orderly_way(lab, tmp_path, soap, farm):
    before = {name: vm["power"] for name, vm in farm()["vms"].items()}
    # every few tenths of a second instead of minutes
    quick = "import sys; from vsphere_ai.connect import vcenter_lock as v; v.PERIOD = 0.3; "
    program = quick + "from vsphere_ai.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "PYTHONUNBUFFERED": "1"}
    environment["VSPHERE_AI_STATE_DIR"] = str(tmp_path)
    argv = ["apply", "-i", str(INVENTORY), str(PLAYBOOKS / "ai-ready-cluster.yml"), "--yes", "-v", "--lock", "vcenter"]
    process = prefork.Popen(
        [sys.executable, "-c", program, *argv],
        stdout=prefork.PIPE,
        stderr=prefork.STDOUT,
        text=True,
        env=environment,
    )
    seen = until(process, "enter maintenance mode — done")
    soap.find(soap.vim.Folder, "lock").Destroy_Task()
    seen += list(process.stdout)
    text = "".join(seen)
    assert process.wait(LONG) == 7, text
    assert "Traceback" not in text
    assert not any(h["maintenance"] for h in farm()["hosts"].values()), "a host was left in maintenance"
    assert {name: vm["power"] for name, vm in farm()["vms"].items()} == before


def test_a_run_that_leaves_at_once_gives_its_lock_back(lab, cli, here, contend, vcenter):
    lab.set_faults("- {on: EnterMaintenanceMode_Task, nth: 1, do: hold}\n")
    playbook = PLAYBOOKS / "ai-ready-cluster.yml"
    process = apply(lab, playbook, "--lock", "vcenter", VSPHERE_AI_STATE_DIR=str(here))
    assert process.until(lambda out: any('"start"' in s and "enter maintenance mode" in s for s in out)), process.said
    time.sleep(0.2)
    assert not free(vcenter)
    process.send(signal.SIGINT)
    assert process.until(lambda out: any('"stopping"' in s for s in out)), process.said
    process.send(signal.SIGINT)
    assert process.wait(LONG) == 130, process.said  # the call is held, and it does not wait for it
    assert "left at once" in process.said, "it ended in an orderly way, which shows nothing here"
    assert free(vcenter)
    (sessions,) = [i for i in lab.check()["invariants"] if i["name"] == "sessions"]
    assert len(sessions["findings"]) == 1, "it did not log out: there are more than this test's own"
    (record,) = journal.every()
    assert "lock" not in {d.kind for d in record.pending()}
    assert "locked" not in contend(machine=1).ready().ask("go other")
    lab.clear_faults()


def test_a_lock_that_could_not_be_removed_is_told_of_and_taken_over_next_time(lab, cli, here, vcenter):
    play = cli.file(NOTHING_TO_DO)
    lab.set_faults("- {on: Destroy_Task, nth: 1, do: {fault: InvalidState}}\n")
    assert cli("apply", play, "--yes", "--lock", "vcenter") == 0
    assert "lock.not-removed" in cli.rules
    assert "vsphere-ai run unlock" in cli.err
    left = vcenter_lock.find(vcenter)
    assert cli("apply", play, "--yes", "--lock", "local") == 0
    assert "lock.not-removed" not in cli.rules
    assert free(vcenter), left


def test_a_run_that_has_lost_its_lock_says_so_and_not_that_it_was_stopped_by_someone(lab, cli, monkeypatch):
    """Its lock in vCenter is removed while the first of two hosts is changed: the second one is left."""
    monkeypatch.setattr(vcenter_lock, "PERIOD", QUICK)

    def remove():
        end = time.monotonic() + LONG
        while not lab.get("/lab/faults")["fired"] and time.monotonic() < end:
            time.sleep(0.05)
        with session_of(load_inventory(INVENTORY), None, EstateRequest()) as session:
            vcenter_lock.remove(session.connection.vcenter, vcenter_lock.find(session.connection.vcenter).ref)
        time.sleep(LAPSED)
        lab.clear_faults()

    lab.set_faults([{"on": "UpdateDateTimeConfig", "nth": 1, "do": "hold"}])
    other = threading.Thread(target=remove)
    other.start()
    wanted = "{servers: [10.0.0.9], running: true, policy: on, firewall: true}"
    play = cli.file(f"- hosts: esx[01:02].*\n  ntp: {wanted}\n")
    assert cli("apply", play, "-i", INVENTORY, "--yes", "--lock", "vcenter", "--parallel", "1") == 7, cli.out + cli.err
    other.join()
    assert cli.error == "lock.lost", cli.err
    assert sum(e["call"] == "UpdateDateTimeConfig" for e in lab.get("/lab/ledger")["entries"]) == 1
    why = "stopped: the lock in vCenter was lost"
    (run,) = journal.files()
    record = journal.open_run(run.stem)
    assert (record.run.signal, record.run.stopped) == (signal.SIGTERM, why)
    record.close()
    assert cli("run", "show", run.stem) == 0
    assert f", {why}" in cli.out
