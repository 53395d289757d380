"""vCenter goes away and comes back, or does not: runs wait, go on by themselves, and say what they do not know."""

from __future__ import annotations

import socket
import time
from dataclasses import replace

import pytest
from support.gates import busy
from support.places import PLAYBOOKS
from support.processes import killed_at
from support.seeds import ALL, FULL, cases, chance, few

from vsphere_ai.connect import vcenter

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
SHORT, LONG = (2, 2), (60, 60)
"""Seconds in which nothing listens, and in which every answer is 503."""
MARGIN = 60.0
"""Seconds a run may need beyond the outage itself; it would wait for 600 s."""
POINTS = [
    "{on: EnterMaintenanceMode_Task, nth: 1, when: after",
    "{on: UpdateGraphicsConfig, nth: 2, when: before",
    "{on: StartService, nth: 1, when: after",
    "{on: ReconfigVM_Task, nth: 1, when: before",
    "{on: ReconfigVM_Task, nth: 3, when: after",
    "{on: WaitForUpdatesEx, nth: 7, when: before",
    "{on: PowerOnVM_Task, nth: 2, when: after",
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    if not FULL:
        monkeypatch.setattr("vsphere_ai.execution.actions.executor.LOST_CALL", 2.0)


@pytest.fixture(scope="module")
def clean_wall():
    return {}


def applied(cli):
    begun = time.monotonic()
    return cli("apply", MISSION, "--yes"), time.monotonic() - begun


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_breaks_at_the_logout_leaves_no_session(lab, cli, when):
    lab.set_faults([{"on": "Logout", "nth": 1, "when": when, "do": "reset"}])
    assert cli("plan", MISSION) == 0, cli.err
    assert lab.get("/lab/faults")["fired"], "the fault was never met"
    assert next(i for i in lab.check()["invariants"] if i["name"] == "sessions")["ok"]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", few(POINTS, 3))
def test_a_restart_of_vcenter_is_waited_for(lab, cli, clean_wall, point):
    if "clean" not in clean_wall:
        code, clean_wall["clean"] = applied(cli)
        assert code == 0, cli.out + cli.err
        lab.post("/lab/reset")
    refused, starting = LONG if ALL or (FULL and point in POINTS[:2]) else SHORT
    lab.set_faults(f"- {point}, do: {{restart: {refused}s, starting: {starting}s}}}}\n")
    code, wall = applied(cli)
    assert code == 0, cli.out + cli.err
    assert lab.get("/lab/faults")["fired"], "the fault was never met"
    assert wall <= clean_wall["clean"] + refused + starting + MARGIN
    judged = lab.check()
    assert judged["ok"], [i for i in judged["invariants"] if not i["ok"]]
    assert cli("plan", MISSION, "--detailed-exitcode") == 0


def listens(port, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the lab did not come back")


def test_the_operator_sees_that_vcenter_is_waited_for(lab, cli, monkeypatch):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, backoff=0.2, longest_pause=0.5))
    lab.set_faults("- {on: ReconfigVM_Task, nth: 1, when: before, do: {restart: 2s, starting: 1s}}\n")
    assert cli.run("apply", MISSION, "--yes") == 0, cli.out + cli.err
    *waiting, last = [e["text"] for e in cli.events if e.get("rule") == "vcenter.waiting"]
    assert waiting
    assert all("600 s" in line for line in waiting), "for how long it is waited at most"
    assert any("Connection refused" in line for line in waiting)
    assert any("503" in line for line in waiting)
    assert "600 s" not in last, "that it answers again"


def test_an_outage_that_does_not_end_leaves_a_run_that_can_be_resumed(lab, cli, monkeypatch):
    monkeypatch.setattr(
        vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, run_patience=2.0, backoff=0.1, longest_pause=0.5)
    )
    lab.set_faults("- {on: ReconfigVM_Task, nth: 1, when: after, do: {restart: 8s}}\n")
    begun = time.monotonic()
    assert cli.run("apply", MISSION, "--yes") == 5, cli.out + cli.err
    assert "outcome.out-of-sight" in {rule for _, rule in cli.outcomes("unknown")}
    assert "Traceback" not in cli.out + cli.err
    assert time.monotonic() - begun < 60 * busy(), "a run waits for 600 s otherwise"
    listens(lab.port)
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    judged = lab.check()
    assert judged["ok"], [i for i in judged["invariants"] if not i["ok"]]
    assert cli("plan", MISSION, "--detailed-exitcode") == 0


def test_resume_waits_for_vcenter_as_long_as_the_run_does(lab, cli, monkeypatch):
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.NEVER_DOWN", 3.0)
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done", MISSION)
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, patience=0.5, backoff=0.1, longest_pause=0.5))
    lab.set_faults("- {on: RetrievePropertiesEx, nth: 2, when: before, do: {restart: 3s}}\n")
    assert cli("resume") == 0, cli.out + cli.err
    assert lab.get("/lab/faults")["fired"], "the fault was never met"
    assert "vcenter.waiting" in cli.rules


def test_reads_before_a_run_are_given_up_sooner(lab, cli, ledger, monkeypatch):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, patience=1.0, backoff=0.1, longest_pause=0.2))
    lab.set_faults("- {on: CreateContainerView, do: '503'}\n")
    begun = time.monotonic()
    assert cli("plan", MISSION) == 5
    assert "503" in cli.err
    assert time.monotonic() - begun < 40 * busy(), "it is a minute otherwise"
    assert ledger() == []


SCALED = dict(answer=1.0, connect=1.0, patience=0.5, run_patience=0.5, backoff=0.1)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("{on: CreateContainerView, do: malformed}", "an answer that cannot be read"),
        ("{on: CreateContainerView, do: truncate}", "cannot be re"),
        ("{on: CreateContainerView, when: mid-body, do: reset}", "cannot be reached"),
        ("{on: Login, do: malformed}", "an answer that cannot be read"),
        ("{on: Login, do: hang}", "did not answer in time"),
        ("{on: RetrieveServiceContent, do: '401'}", "401"),
        ("{on: versions, do: malformed}", "does not answer like a vCenter"),
        ("{on: versions, do: hang}", "did not answer in time"),
        ("{on: connect, do: hang}", "did not answer in time"),
        ("{on: connect, do: reset}", "cannot be reached"),
        ("{on: connect, do: drop}", "the TLS connection broke"),
    ],
)
def test_a_vcenter_that_makes_no_sense_is_one_line_and_code_5(lab, cli, monkeypatch, rule, says):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, **SCALED))
    lab.set_faults(f"- {rule}\n")
    begun = time.monotonic()
    assert cli("plan", MISSION) == 5, cli.out + cli.err
    assert time.monotonic() - begun < 40 * busy(), "it is a minute otherwise"
    assert says in cli.err
    assert "Traceback" not in cli.err
    assert len([line for line in cli.err.splitlines() if line.startswith("Error") or "127.0.0.1" in line]) == 1, cli.err


@pytest.mark.parametrize("number", cases(4, 10, 100))
def test_a_session_that_expires_anywhere_is_renewed(lab, cli, number):
    nth = chance("session", number).randrange(5, 260)
    lab.set_faults(f"- {{on: any, nth: {nth}, do: expire-session}}\n")
    before = lab.get("/lab/farm")["logins"]
    assert cli("apply", MISSION, "--yes") == 0, f"call {nth}\n{cli.out}{cli.err}"
    expired = len(lab.get("/lab/faults")["fired"])
    assert lab.get("/lab/farm")["logins"] - before <= 1 + expired, f"call {nth}"
    judged = lab.check()
    assert judged["ok"], (nth, [i for i in judged["invariants"] if not i["ok"]])


@pytest.mark.parametrize("number", cases(2, 10, 60))
def test_an_outage_at_any_moment_ends_as_planned(lab, cli, monkeypatch, number):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, backoff=0.2, longest_pause=0.5))
    drawn = chance("outage", number)
    nth, when = drawn.randrange(20, 260), drawn.choice(("before", "after"))
    lab.set_faults(f"- {{on: any, nth: {nth}, when: {when}, do: {{restart: 500ms, starting: 500ms}}}}\n")
    assert cli("apply", MISSION, "--yes") == 0, f"{when} call {nth}\n{cli.out}{cli.err}"
    judged = lab.check()
    assert judged["ok"], (nth, when, [i for i in judged["invariants"] if not i["ok"]])
