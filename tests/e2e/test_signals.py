"""Signals: the first one ends a run in order, the second one at once; either way the work can be finished later."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import sqlite3
import struct
import sys
import termios
import time

import pytest
from support import prefork
from support.gates import LONG, busy
from support.places import INVENTORY, PLAYBOOKS
from support.processes import Process, apply
from support.seeds import SEED, by_level

from vsphere_ai.cli.console import signals

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
ROUNDS = by_level(5, 60)
TAKEN = ("enter maintenance mode", "shut down", "power off")
GIVEN_BACK = ("health gate", "power on")  # the last step of a host's window, and of a VM's


def points(count, salt):
    """Seeded moments: a signal, after how many lines of output, and how much later."""
    chance = random.Random(f"{SEED} {salt}")
    return [(chance.choice(list(CODES)), chance.randrange(1, 90), chance.uniform(0, 0.05)) for _ in range(count)]


def moment(point):
    number, lines, _ = point
    return f"{number.name} after {lines} lines, seed {SEED}"


def hit(lab, point):
    """Apply the mission, send the signal at its moment; return the process and when that was."""
    number, lines, later = point
    process = apply(lab, MISSION)
    process.until(lambda out: len(out) >= lines)
    time.sleep(later)
    return process, process.send(number)


def converged(lab, cli):
    """The run is finished by `resume`, nothing is left to do, and nothing happened twice or was left behind."""
    assert cli("resume", "--yes") in (0, 64), cli.err
    assert cli("plan", MISSION, "--detailed-exitcode") == 0, cli.out
    verdict = lab.check()
    assert verdict["ok"], verdict


def begun_after_stopping(process):
    """What was begun two seconds after it said that it stops, on a target whose window was not open by then."""
    open_windows, wrong, said = set(), [], None
    for at, line in process.events():
        if line.get("what") == "stopping":
            said = at
        if line["type"] != "event" or "step" not in line:
            continue
        name, what = line["target"]["name"], line["summary"]
        if line["what"] == "start" and said is not None and at > said + 2 and name not in open_windows:
            wrong.append((round(at - said, 2), name, what))
        if line["what"] == "done" and what.startswith(TAKEN):
            open_windows.add(name)
        if line["what"] == "done" and what.startswith(GIVEN_BACK):
            open_windows.discard(name)
    return wrong


@pytest.mark.parametrize("point", points(ROUNDS, "first"), ids=moment)
def test_the_first_signal_ends_in_order(lab, cli, point):
    process, _ = hit(lab, point)
    code = process.wait()
    events = [line for _, line in process.events()]
    assert events, process.said
    assert events[-1]["type"] == "summary"
    assert events[-1]["exit_code"] == code
    if not events[-1]["interrupted"]:  # it was done before the signal came
        assert code == 0
        return
    assert code == CODES[point[0]], process.said
    assert any(e.get("what") == "stopping" for e in events)
    assert begun_after_stopping(process) == []
    verdict = lab.check()
    assert verdict["ok"], f"{verdict}\n{process.said}"
    converged(lab, cli)


@pytest.mark.parametrize("point", points(max(2, ROUNDS // 6), "second"), ids=moment)
def test_the_second_signal_leaves_at_once(lab, cli, point, monkeypatch):
    monkeypatch.setattr(
        "vsphere_ai.app.runs.quiesce.NEVER_DOWN", 8.0
    )  # the second one may cut off the command to reboot
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.STILL_RUNNING", 8.0)
    process, _ = hit(lab, point)
    sent = process.send(signal.SIGINT)
    code = process.wait()
    took = time.monotonic() - process.began - sent
    assert process.lines, process.said
    last = process.events()[-1][1]
    assert last["type"] == "summary"
    if not last["interrupted"]:
        assert code == 0
        return
    # the first one's, when everything was over before the second one came
    assert code == last["exit_code"], process.said
    assert code in {130, CODES[point[0]]}, process.said
    assert took <= 30 * busy()  # FAREWELL, and what a machine needs
    assert signals.FAREWELL < 5
    assert "Traceback" not in process.said
    for path in journals():
        with sqlite3.connect(path) as db:
            assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    assert failing(lab) <= {"maintenance", "power", "services"}, (
        f"{lab.check()}\n{process.said}"
    )  # resume's to put right
    converged(lab, cli)


def failing(lab):
    """The names of the invariants that do not hold."""
    return {v["name"] for v in lab.check()["invariants"] if not v["ok"]}


def journals():
    from vsphere_ai.security.state_dir import state_dir

    return sorted((state_dir() / "runs").glob("*.db"))


def test_a_signal_while_the_output_is_not_read(lab, cli):
    """The handler says nothing itself: it may have interrupted its own thread in the middle of a line."""
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    argv = [
        sys.executable,
        "-m",
        "vsphere_ai",
        "apply",
        "-i",
        str(INVENTORY),
        str(MISSION),
        "--yes",
        "-o",
        "json",
    ]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory)}
    process = prefork.Popen(argv, stdout=into, stderr=prefork.PIPE, text=True, env=environment)
    os.close(into)
    seen, since, end = -1, time.monotonic(), time.monotonic() + LONG
    while time.monotonic() < end and time.monotonic() - since < 1.5:  # until it stands still: the pipe is full
        now = struct.unpack("i", fcntl.ioctl(out, termios.FIONREAD, b"\0" * 4))[0]
        if now != seen or now < 2000:
            seen, since = now, time.monotonic()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    with os.fdopen(out, encoding="utf-8") as pipe:
        lines = [json.loads(line) for line in pipe]
    said = process.stderr.read()
    assert process.wait(LONG) == 130, said
    assert "Traceback" not in said
    assert (lines[-1]["type"], lines[-1]["interrupted"]) == ("summary", True)
    assert any(line.get("what") == "stopping" for line in lines)
    assert lab.check()["ok"], lab.check()
    converged(lab, cli)


# -- a host that waits for its VMs to move

STUCK = [{"on": "EnterMaintenanceMode_Task", "target": "esx01*", "nth": 1, "do": {"task-stuck": 20}}]


def waiting_to_enter(lab):
    """Apply until a host waits to enter maintenance mode, with its VMs switched off before."""
    lab.set_faults(STUCK)
    process = apply(lab, MISSION)
    assert process.until(lambda out: any('"20%"' in line for line in out)), process.said
    return process


def test_a_host_that_waits_to_enter_maintenance_mode_is_called_back(lab, cli, farm, ledger):
    process = waiting_to_enter(lab)
    process.send(signal.SIGINT)
    assert process.wait() == 130, process.said
    lab.clear_faults()
    time.sleep(0.3)  # a task that was still there would go on now
    now = farm()
    assert not any(h["maintenance"] for h in now["hosts"].values())
    assert [now["vms"][f"train-0{n}"]["power"] for n in (1, 2, 3)] == ["poweredOn"] * 3
    assert ledger(call="EnterMaintenanceMode_Task") == []
    assert lab.check()["ok"], lab.check()
    events = [line for _, line in process.events()]
    step = next(e["step"] for e in events if e.get("summary") == "enter maintenance mode")
    assert next(o for o in events[-1]["outcomes"] if o["step"] == step)["state"] == "skipped"
    assert events[-1]["open"] == []
    assert cli("run", "list", "-o", "json") == 0
    assert '"pending": []' in cli.out
    assert '"state": "stopped"' in cli.out
    converged(lab, cli)
    assert len(ledger("esx01.lab.local", "EnterMaintenanceMode_Task")) == 1


def test_a_killed_run_does_not_let_a_host_enter_maintenance_mode_later(lab, cli, farm, ledger):
    process = waiting_to_enter(lab)
    process.send(signal.SIGKILL)
    process.wait()
    assert cli("resume") == 0, cli.err
    lab.clear_faults()
    time.sleep(0.3)
    assert not any(h["maintenance"] for h in farm()["hosts"].values())
    assert len(ledger("esx01.lab.local", "EnterMaintenanceMode_Task")) == 1
    assert failing(lab) <= {"sessions"}, lab.check()  # the killed one's is left


def test_a_lost_answer_to_the_cancelling_is_no_reason_to_stay(lab, farm):
    lab.set_faults([*STUCK, {"on": "CancelTask", "nth": 1, "do": "lost-reply"}])
    process = apply(lab, MISSION)
    assert process.until(lambda out: any('"20%"' in line for line in out)), process.said
    process.send(signal.SIGTERM)
    assert process.wait() == 143, process.said
    assert lab.check()["ok"], lab.check()
    assert [farm()["vms"][f"train-0{n}"]["power"] for n in (1, 2, 3)] == ["poweredOn"] * 3


# -- before anything is changed, and when vCenter does not answer


def met(lab, process):
    """Wait until the fault was met: the process is in the middle of reading."""
    while not lab.get("/lab/faults")["fired"]:
        assert process.process.poll() is None, process.said
        time.sleep(0.05)


@pytest.mark.parametrize("number", list(CODES))
def test_while_reading_one_signal_is_enough(lab, ledger, number):
    lab.set_faults([{"on": "RetrievePropertiesEx", "do": {"delay": "1s"}}])
    process = Process(lab, "apply", "-i", INVENTORY, MISSION, "--yes")
    met(lab, process)
    process.send(number)
    assert process.wait() == CODES[number], process.said
    assert "stopped" in process.said
    lab.clear_faults()
    assert ledger() == []
    assert failing(lab) == set(), lab.check()


def test_below_nohup_a_hangup_is_nothing(lab):
    lab.set_faults([{"on": "RetrievePropertiesEx", "nth": 2, "do": {"delay": "1s"}}])
    process = Process(lab, "plan", "-i", INVENTORY, MISSION, nohup=True)
    met(lab, process)
    process.send(signal.SIGHUP)
    assert process.wait() == 0, process.said


def test_a_vcenter_that_hangs_does_not_hold_the_process_after_the_second_signal(lab):
    lab.set_faults([{"on": "RetrievePropertiesEx", "do": "hang"}])
    process = Process(lab, "plan", "-i", INVENTORY, MISSION)
    met(lab, process)
    process.send(signal.SIGINT)
    time.sleep(0.3)
    process.send(signal.SIGINT)
    assert process.wait(55) == 130, process.said  # an answer may take a minute
    lab.clear_faults()
    assert failing(lab) == set(), lab.check()


def test_a_reader_that_leaves_ends_it_in_an_orderly_way(lab, farm):
    argv = [sys.executable, "-m", "vsphere_ai", "apply", "-i", str(INVENTORY), str(MISSION), "--yes"]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "PYTHONUNBUFFERED": "1"}
    process = prefork.Popen(argv, stdout=prefork.PIPE, text=True, env=environment)
    for line in process.stdout:
        if re.match(r"\d\d:\d\d:\d\d .*: shut down \(guest shutdown only\)", line):
            process.stdout.close()
            break
    assert process.wait(LONG) == 141
    now = farm()
    assert not any(h["maintenance"] for h in now["hosts"].values()), "a host was left in maintenance"
    assert [now["vms"][f"train-0{n}"]["power"] for n in (1, 2, 3)] == ["poweredOn"] * 3
