"""T-20: sessions that end while a host empties itself for twenty minutes, 300 times as fast."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import datetime

import pytest
from support.gates import LONG
from support.seeds import FULL, cases, chance

from vsphere_ai.connect import vcenter
from vsphere_ai.connect.soap import session, task_monitor

pytestmark = pytest.mark.lab
SCALE = 300
WAIT = 20 * 60 / SCALE
"""Seconds the host takes: three VMs, one after the other."""
FARM = f"""
name: slow-to-empty
timing: {{boot_seconds: 0.2, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: {WAIT / 3}}}
clusters: [{{name: gpu-a, drs: fullyAutomated}}]
switches: [{{name: dvs-lan, uplinks: 1, port_groups: [{{name: dvpg-lan}}]}}]
hosts:
  - name: esx[01:02].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    gpus: [{{pci: 0000:3b:00.0, board: a100-40gb}}]
    nics: [{{name: vmnic0, pci: 0000:18:00.0, switch: dvs-lan}}]
    ssh: {{running: true, policy: on}}
vms:
  - {{name: "vm-[01:03]", host: esx01.lab.local, power: on, network: dvpg-lan}}
"""
PLAY = """
- hosts: esx01.lab.local
  graphics: {default_type: shared_direct}
  mig: {mode: enabled}
  rolling: {evacuate: vmotion, timeout: 30m}
"""
ENTER = "EnterMaintenanceMode_Task"
BEGUN = {"on": ENTER, "do": {"delay": "1ms"}}
"""Harmless; its counter says how often the call came."""


@pytest.fixture
def slow(make_lab, cli, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    monkeypatch.setattr(task_monitor, "_WAKE_S", 1)  # no server waits for less
    monkeypatch.setattr(session.SoapSession, "LOGIN_WINDOW", session.SoapSession.LOGIN_WINDOW / SCALE)
    shorter = replace(vcenter.DEFAULTS, keep_alive=vcenter.DEFAULTS.keep_alive / SCALE)
    monkeypatch.setattr(vcenter, "DEFAULTS", shorter)
    return lab


@pytest.fixture
def ledger(slow):
    return lambda call: [e for e in slow.get("/lab/ledger")["entries"] if e["call"] == call]


class Ender(threading.Thread):
    """Ends every session so many seconds after the host was told to enter maintenance mode."""

    def __init__(self, lab, moments):
        super().__init__(daemon=True)
        self.lab, self.moments, self.done = lab, moments, 0
        self.start()

    def run(self):
        end = time.monotonic() + LONG
        while not self.lab.get("/lab/faults")["fired"] and time.monotonic() < end:
            time.sleep(0.02)
        begun = time.monotonic()
        for moment in self.moments:
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            self.lab.post("/lab/sessions/expire")
            self.done += 1


def entered(ledger):
    """When the host was in maintenance mode."""
    (entry,) = ledger(ENTER)
    return datetime.fromisoformat(entry["time"])


def judge(lab, cli, ledger, play, *, sent=1):
    assert lab.get("/lab/faults")["rules"][0]["met"] == sent
    (begun, *_) = (f for f in lab.get("/lab/faults")["fired"] if f["rule"] == 1)
    assert (entered(ledger) - datetime.fromisoformat(begun["time"])).total_seconds() > WAIT * 0.95
    assert len(ledger("DrsMigration")) == 3, "a VM moved twice, or not at all"
    judged = lab.check()
    assert judged["ok"], [i for i in judged["invariants"] if not i["ok"]]
    assert cli("plan", play, "--detailed-exitcode") == 0, cli.out


def ended_at(slow, cli, ledger, moments):
    """Apply while every session ends at these moments of the wait."""
    slow.set_faults([BEGUN])
    ender, play = Ender(slow, moments), cli.file(PLAY)
    code, said = cli("apply", play, "--yes"), cli.out + cli.err
    ender.join(1)
    logins = slow.get("/lab/farm")["logins"]
    assert code == 0, said
    assert ender.done == len(moments), "the host was faster than that"
    assert logins <= len(moments) + 1, f"{logins} logins, {len(moments)} sessions ended\n{said}"
    judge(slow, cli, ledger, play)


@pytest.mark.parametrize("number", cases(2, 8, 30))
def test_sessions_that_end_during_a_long_wait_for_maintenance(slow, cli, ledger, number):
    """At any moments of the wait, up to three: a run logs in again no more often than that in ten minutes."""
    drawn = chance("maintenance", number)
    moments = sorted(drawn.uniform(0.02, 0.9) * WAIT for _ in range(3 - number % 3))
    print("every session ends after", ", ".join(f"{m:.2f} s" for m in moments))
    ended_at(slow, cli, ledger, moments)


def test_a_session_that_ends_every_four_minutes_of_the_wait(slow, cli, ledger):
    ended_at(slow, cli, ledger, [(1 + 4 * n) * 60 / SCALE for n in range(5)])


@pytest.mark.parametrize(
    ("on", "nth", "when", "sent"),
    [
        (ENTER, 1, "after", 1),
        (ENTER, 1, "before", 2),  # refused before it began, and only then sent again
        ("WaitForUpdatesEx", 2, "before", 1),
        ("WaitForUpdatesEx", 3, "after", 1),
        ("CreateFilter", 1, "before", 1),
        ("CreatePropertyCollector", 1, "after", 1),
    ][:: 1 if FULL else 2],
)
def test_a_session_that_ends_at_a_call_of_the_wait(slow, cli, ledger, on, nth, when, sent):
    rules = [BEGUN] if on != ENTER else []
    slow.set_faults([*rules, {"on": on, "nth": nth, "when": when, "do": "expire-session"}])
    play = cli.file(PLAY)
    code, said = cli("apply", play, "--yes"), cli.out + cli.err
    logins = slow.get("/lab/farm")["logins"]
    assert code == 0, said
    (fired,) = (f for f in slow.get("/lab/faults")["fired"] if f["do"] == "expire-session")
    assert datetime.fromisoformat(fired["time"]) < entered(ledger), "that was after the wait"
    assert logins <= 2, said
    judge(slow, cli, ledger, play, sent=sent)
