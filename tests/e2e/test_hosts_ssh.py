"""SSH to hosts when it goes wrong: cuts at every packet (T-40), frozen hosts (T-41), services and lockdown that change
in the middle of a run (T-47), and nvidia-smi that is missing, lies, hangs or stops half-way (T-48)."""

from __future__ import annotations

import os
import random
import re
import time

import pytest
from support.gates import busy
from support.labs import started
from support.seeds import FULL
from support.ssh_cuts import Watch, When, changes, repeated

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
SEED = os.environ.get("RELIABILITY_SEED", "1")
POINTS = 60 if FULL else 6
ESX = "esx01.lab.local"
A100, H100 = "0000:3b:00.0", "0000:86:00.0"
FARM = f"""
name: ssh
vcenter: {{version: 8.0.2, build: 22617221, api: 8.0.2.0}}
timing: {{boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}]
hosts:
  - name: {ESX}
    cluster: gpu-a
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.163.01
    graphics_default: sharedDirect
    gpus:
      - {{pci: {A100}, board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}}
      - {{pci: {H100}, board: h100-80gb-pcie, graphics_type: sharedDirect}}
    ssh: {{running: true, policy: on}}
vms: []
"""
LAYOUT = f"- hosts: {ESX}\n  mig: {{gpus: {{'{A100}': ['3g.20gb:4', '2g.10gb:2', '1g.5gb:0']}}}}\n"
OTHER = f"- hosts: {ESX}\n  mig: {{gpus: {{'{A100}': ['4g.20gb:0', '3g.20gb:4']}}}}\n"
NONE = f"- hosts: {ESX}\n  mig: {{gpus: {{'{A100}': {{mode: enabled, layout: []}}}}}}\n"
MODE = f"- hosts: {ESX}\n  mig: {{gpus: {{'{H100}': {{mode: enabled}}}}}}\n"
OFF = f"- hosts: {ESX}\n  mig: {{gpus: {{'{A100}': {{mode: disabled}}}}}}\n"
# what is changed, from what, and which command of nvidia-smi does it
WORK = {
    "create": (NONE, LAYOUT, "-cgi"),
    "destroy": (LAYOUT, NONE, "-dgi"),
    "cut anew": (LAYOUT, OTHER, "-dgi"),
    "mode on": (NONE, MODE, "-mig 1"),
    "mode off": (LAYOUT, OFF, "-mig 0"),
}


@pytest.fixture(scope="module")
def ssh_lab(tmp_path_factory):
    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("ssh")
    (directory / "scenario.yml").write_text(FARM, encoding="utf-8")
    yield started(directory, directory / "scenario.yml")
    process.stop(directory)


@pytest.fixture
def lab(ssh_lab, monkeypatch):
    ssh_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(ssh_lab.directory))
    return ssh_lab


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.LOST_CALL", 1.0)


@pytest.fixture
def work(cli):
    """Have the farm in the state some work begins with; return the playbook of the work."""

    def begin(name):
        before, after, _ = WORK[name]
        assert cli("apply", cli.file(before, "before.yml"), "--yes") == 0, cli.out + cli.err
        return cli.file(after)

    return begin


def journal_is_open():
    """Whether a run began and has not ended well."""
    return any(not record.finished for record in journal.every())


def brought_to_its_end(cli, play, lab, code, where=""):
    """What was begun is finished (by `resume` when there is a run), nothing is left, the lab finds no fault."""
    said = cli.out + cli.err
    if code:
        again = ["resume"] if journal_is_open() else ["apply", play, "--yes"]
        assert cli(*again) == 0, f"{where}: exit {code}\n{said}\nthen {again[0]}:\n{cli.out}{cli.err}"
    assert cli("plan", play, "--detailed-exitcode") == 0, f"{where}\n{cli.out}"
    judged = lab.check()
    assert judged["ok"], f"{where}: {[v for v in judged['invariants'] if v['findings']]}\n{said}"


# -- T-40


def points(cli, lab, monkeypatch, begin):
    """Every packet of every connection over which a MIG change is made, by a run that is left alone.

    Half of them, in a random order, alternate with those around the change itself: there an answer can be lost.
    """
    found, around = [], []
    for name in WORK:
        lab.post("/lab/reset")
        play = begin(name)
        with monkeypatch.context() as patch:
            watch = Watch().install(patch)
            assert cli("apply", play, "--yes") == 0
        assert watch.changing(), f"{name}: nothing was changed over SSH"
        for connection, packets in watch.changing().items():
            found += [(name, connection, packet, side) for packet in range(packets) for side in ("before", "after")]
            sent = watch.sent_at[connection]
            around += [(name, connection, packet, "after") for at in sent for packet in range(at, at + 3)]
    chance = random.Random(f"{SEED} cuts")
    hot, anywhere = chance.sample(around, len(around)), chance.sample(found, len(found))
    return len(found), [each for pair in zip(hot, anywhere, strict=False) for each in pair] + anywhere[len(hot) :]


@pytest.mark.timeout(1800)
def test_a_connection_that_is_cut_at_any_packet_of_a_mig_change(lab, cli, ledger, work, monkeypatch):
    every, chosen = points(cli, lab, monkeypatch, work)
    assert every > 100
    codes, lost, missed = [], 0, 0
    # a few cuts may all miss the moment between a change and its answer: go on until one has met it
    while len(codes) < POINTS or (not lost and len(codes) < 5 * POINTS):
        name, *cut = chosen.pop(0)
        where = f"RELIABILITY_SEED={SEED}: {name}, cut at connection {cut[0]} packet {cut[1]} {cut[2]}"
        lab.post("/lab/reset")
        play = work(name)
        before = len(ledger())
        with monkeypatch.context() as patch:
            watch = Watch(tuple(cut)).install(patch)
            code = cli("apply", play, "--yes", "--parallel", "1")
        if watch.struck is None:  # the last packets of a connection that is closed do not come every time
            assert code == 0, where
            missed += 1
            continue
        assert "Traceback" not in cli.out + cli.err, where
        assert "internal error" not in cli.out + cli.err, where
        later = [command for _, command in watch.commands[watch.struck :]]
        if watch.lost() and later:
            lost += 1
            assert not changes(later[0]), f"{where}: {later[0]} without looking first"
        codes.append(code)
        assert code in (0, 1, 5, 9), f"{where}: exit {code}\n{cli.out}{cli.err}"
        brought_to_its_end(cli, play, lab, code, where)
        assert repeated(ledger()[before:]) == [], where
    assert missed <= len(codes) // 5 + 1
    assert lost, "no answer of a change was lost: the cuts are in the wrong places"
    counted = {code: codes.count(code) for code in sorted(set(codes))}
    print(f"cuts: {len(codes)} of {every} packets, {lost} answers lost, exit codes {counted}, seed {SEED}")


# -- T-41

FROZEN = [
    ("create", "-cgi", "before"),
    ("mode on", "-mig 1", "after"),
    ("create", "-cgi", "after"),
    ("destroy", "-dgi", "before"),
    ("destroy", "-dgi", "after"),
    ("cut anew", "-dci", "before"),
    ("mode on", "-mig 1", "before"),
    ("cut anew", "-dci", "after"),
    ("mode off", "-mig 0", "after"),
    ("mode off", "-mig 0", "before"),
]


@pytest.mark.parametrize(("name", "verb", "when"), FROZEN if FULL else FROZEN[::2])
def test_a_host_that_freezes_during_a_change(lab, cli, ledger, work, monkeypatch, name, verb, when):
    limit = 2.0
    monkeypatch.setattr("vsphere_ai.execution.actions.configure.COMMAND_TIMEOUT", limit)
    play = work(name)
    before = len(ledger())
    lab.set_faults(f"- {{on: 'ssh: nvidia-smi .*{verb}', nth: 1, when: {when}, do: hang}}\n")
    with monkeypatch.context() as patch:
        watch = Watch().install(patch)
        code = cli("apply", play, "--yes")
    assert lab.get("/lab/faults")["fired"], "the fault was never met"
    at = next(i for i, (_, command) in enumerate(watch.commands) if re.search(verb, command))
    assert len(watch.commands) > at + 1, "nobody looked what happened"
    took, looked = watch.times[at + 1] - watch.times[at], watch.commands[at + 1][1]
    assert limit * 0.9 <= took <= limit + 60, f"{took:.1f} s until somebody looked again"
    assert not changes(looked), f"{looked} without looking first"
    assert code == 0, cli.out + cli.err  # what happened is seen; what did not is done again, and never twice
    lab.clear_faults()
    brought_to_its_end(cli, play, lab, code)
    assert repeated(ledger()[before:]) == []


def test_a_host_that_freezes_while_it_is_read(lab, cli, ledger, work, monkeypatch):
    play = work("create")
    before = ledger()
    lab.set_faults("- {on: 'ssh: nvidia-smi --query', do: hang}\n")
    begun = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr("vsphere_ai.connect.probing.Prober.__init__", _impatient(1.5))
        assert cli.problems(play) == {(ESX, "ssh.unreachable")}
    assert time.monotonic() - begun < 45 * busy(), "it is a minute otherwise"
    assert ledger() == before


def _impatient(seconds):
    from vsphere_ai.connect.probing import Prober

    make = Prober.__init__

    def made(self, *given, deadline_s, **more):
        assert deadline_s > seconds
        make(self, *given, deadline_s=seconds, **more)

    return made


# -- T-47


SLOW = "- {on: 'ssh: nvidia-smi .*-d[cg]i', times: %d, do: {delay: 600ms}}\n"


def services(soap):
    return soap.host("esx01").configManager.serviceSystem


def of_ssh(ledger):
    return [e["call"] for e in ledger() if e["call"] in ("StartService", "StopService")]


def attempts(lab):
    return lab.get("/lab/farm")["hosts"][0]["ssh"]["login_attempts"]


def test_ssh_of_ours_that_stops_by_itself_is_started_again_once(lab, cli, ledger, work, soap):
    play = work("cut anew")
    services(soap).StopService("TSM-SSH")
    lab.mark()
    lab.set_faults(SLOW % 1)
    begun = len(of_ssh(ledger))
    with When(lab, lambda: services(soap).StopService("TSM-SSH")) as stopped:
        code = cli.run("apply", play, "--yes")
    assert stopped.done == 1
    assert code == 0, cli.out + cli.err
    assert ESX in cli.text("run.notice")
    # to read, for the run; stopped by somebody; again; and as it was found
    started, ended = "StartService", "StopService"
    assert of_ssh(ledger)[begun:] == [started, ended, started, ended, started, ended]
    brought_to_its_end_stopped(cli, play, lab)


def brought_to_its_end_stopped(cli, play, lab):
    assert cli("plan", play, "--detailed-exitcode", "--start-ssh") == 0, cli.out
    judged = lab.check()
    assert judged["ok"], judged


def test_ssh_of_ours_that_stops_again_is_given_up(lab, cli, ledger, work, soap):
    play = work("cut anew")
    services(soap).StopService("TSM-SSH")
    lab.mark()
    lab.set_faults(SLOW % 2)
    with When(lab, lambda: services(soap).StopService("TSM-SSH"), times=2) as stopped:
        code = cli.run("apply", play, "--yes")
    assert stopped.done == 2
    assert code == 5, cli.out + cli.err
    assert cli.failed == {(ESX, "ssh.stopped-again")}
    assert cli("resume") == 0, cli.out + cli.err
    brought_to_its_end_stopped(cli, play, lab)


def test_ssh_that_was_found_running_is_not_started_again(lab, cli, ledger, work, soap):
    play = work("cut anew")
    lab.mark()
    lab.set_faults(SLOW % 1)
    begun, tried = len(of_ssh(ledger)), attempts(lab)
    with When(lab, lambda: services(soap).StopService("TSM-SSH")) as stopped:
        code = cli.run("apply", play, "--yes")
    assert stopped.done == 1
    assert code == 5, cli.out + cli.err
    assert cli.failed == {(ESX, "ssh.stopped")}
    assert of_ssh(ledger)[begun:] == ["StopService"]
    assert attempts(lab) > tried
    services(soap).StartService("TSM-SSH")
    brought_to_its_end(cli, play, lab, code)


@pytest.mark.parametrize("mode", ["lockdownNormal", "lockdownStrict"])
def test_lockdown_mode_that_begins_in_the_middle(lab, cli, ledger, work, soap, mode):
    play = work("cut anew")
    lab.mark()
    lab.set_faults(SLOW % 1)
    access = soap.host("esx01").configManager.hostAccessManager
    with When(lab, lambda: access.ChangeLockdownMode(mode)) as locked:
        code = cli.run("apply", play, "--yes")
    assert locked.done == 1
    assert code == 4, cli.out + cli.err
    assert cli.failed == {(ESX, "ssh.lockdown")}
    assert mode in cli.text("ssh.lockdown")
    changed = [e["call"] for e in ledger() if "Lockdown" in e["call"]]
    assert len(changed) == 1, "only somebody else touched it"
    assert cli("resume") != 0
    assert "[ssh.lockdown]" in cli.out + cli.err
    access.ChangeLockdownMode("lockdownDisabled")
    lab.clear_faults()
    assert cli("resume") == 0, cli.out + cli.err
    brought_to_its_end(cli, play, lab, 0)


# -- T-48

LIES = [
    "do: {exit: 127}",
    "do: {exit: 1}",
    "do: {exit: 19}",
    "do: malformed",
    "do: truncate",
    "do: {exit: 19}, when: after",
    "do: malformed, when: after",
]


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        (name, lie)
        for name in ("create", "destroy", "mode on")
        for lie in (LIES if FULL or name == "create" else LIES[2:5])
    ],
)
def test_what_nvidia_smi_did_not_do_is_never_called_done(lab, cli, farm, ledger, work, monkeypatch, name, lie):
    monkeypatch.setattr("vsphere_ai.execution.actions.waits.READ_BACK_HOST", 1)
    play, verb = work(name), WORK[name][2]
    before = len(ledger())
    lab.set_faults(f"- {{on: 'ssh: nvidia-smi .*{verb}', nth: 1, {lie}}}\n")
    code = cli.run("apply", play, "--yes")
    said, failed, text = cli.out + cli.err, cli.failed, cli.text("step.failed")
    assert lab.get("/lab/faults")["fired"], "the fault was never met"
    lab.clear_faults()
    if code == 0:
        assert cli("plan", play, "--detailed-exitcode") == 0, f"called done, and is not:\n{said}"
        assert lie == "do: malformed, when: after", said
    else:
        assert code == 1, said
        assert {target for target, _ in failed} == {ESX}
        if "exit: 19" in lie:
            assert re.search(r"\b19\b", text), "the exit status of nvidia-smi"
    brought_to_its_end(cli, play, lab, code)
    assert repeated(ledger()[before:]) == []


@pytest.mark.parametrize("lie", ["{exit: 127}", "{exit: 9}", "malformed", "truncate", "drop", "reset"])
def test_a_host_whose_nvidia_smi_cannot_be_read_is_no_host_as_wanted(lab, cli, ledger, work, lie):
    play = work("create")
    before = ledger()
    lab.set_faults(f"- {{on: 'ssh: nvidia-smi', do: {lie}}}\n")
    code = 5 if lie in ("drop", "reset") else 1  # not reached, also not when asked again
    assert cli("plan", play) == code, cli.out
    assert {name for name, _ in cli.problems(play)} == {ESX}
    assert cli("apply", play, "--yes") == code
    assert cli("verify", play) != 0
    assert ledger() == before
    lab.clear_faults()
    assert cli("plan", play) == 0, cli.out


def test_an_instance_in_use_is_refused_by_its_name(lab, cli, work, monkeypatch):
    """Somebody else makes a compute instance after it was planned: `In use by another client`, and nothing is done."""
    monkeypatch.setattr("vsphere_ai.execution.actions.waits.READ_BACK_HOST", 1)
    play = work("destroy")
    lab.set_faults("- {on: 'ssh: nvidia-smi .*-dci', nth: 1, do: truncate}\n")  # says it did, and did not
    code = cli("apply", play, "--yes")
    assert code == 1, cli.out
    assert "In use by another client" in cli.out
    lab.clear_faults()
    brought_to_its_end(cli, play, lab, code)


def test_a_host_without_nvidia_smi(make_lab, cli, monkeypatch):
    bare = make_lab(FARM.replace("    nvidia_driver: 550.163.01\n", ""))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(bare.directory))
    assert cli("plan", cli.file(LAYOUT)) == 1
    assert {name for name, _ in cli.problems(cli.file(LAYOUT))} == {ESX}
    assert cli("apply", cli.file(LAYOUT), "--yes") == 1
    assert bare.get("/lab/ledger")["entries"] == []
