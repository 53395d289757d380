"""A run as lines and as JSON lines: what was done, what failed, what was left open."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.estates import ESX1, estate, guest, host, made, vm, wants

from vsphere_ai.errors import Diagnostic, Mark, OutcomeUnknown, StepFailed
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Destroy
from vsphere_ai.planning.outcome import Outcome, RunEvent, RunOutcome
from vsphere_ai.report.diagnostics import diagnostics_text
from vsphere_ai.report.findings_text import findings_text
from vsphere_ai.report.plans.run_json import event_line, header_line, summary_line
from vsphere_ai.report.plans.run_text import duration, event_text, run_text
from vsphere_ai.resources.vm_hardware import VmHardware

PLAN = made(estate(host(ESX1), guest(vm(1), ESX1)), {vm(1): wants(VmHardware(memory_reservation="full"))})
OFF, CHANGE, READ, ON = PLAN.steps
EVIL = "\x1b[31m\u202e"


def run(*states, error=None, **more):
    """A run of the four steps, in these states; the failed or unknown one has the error."""
    outcomes = tuple(
        Outcome(p, s, 1.5, error if s in ("failed", "unknown") else None, "waited" if s == "skipped" else "")
        for p, s in zip(PLAN.steps, states, strict=True)
    )
    return RunOutcome(PLAN, outcomes, 250.4, **more)


GOOD = run("done", "done", "done", "done")
FAILED = run("done", "failed", "skipped", "skipped", error=StepFailed("no such profile", "look at the host"))


def test_a_good_run():
    assert run_text(GOOD) == "4 of 4 steps done in 4m10s, 1 target verified"


def test_a_run_that_destroyed_vms_counts_them():
    gone = Destroy(target=vm(1), summary="destroy", set="train", index=1)
    outcomes = tuple(Outcome(replace(p, step=gone), "done", 1.0, None, "") for p in PLAN.steps[:2])
    assert run_text(RunOutcome(PLAN, outcomes, 2.0)) == "2 of 2 steps done in 2s, 2 VMs destroyed"
    both = (*outcomes, Outcome(READ, "done", 1.0, None, ""))
    end = "1 target verified, 2 VMs destroyed"
    assert run_text(RunOutcome(PLAN, both, 2.0)) == f"3 of 3 steps done in 2s, {end}"


def test_a_failed_run_says_what_why_and_what_to_do():
    lines = run_text(FAILED).splitlines()
    assert lines[0] == "1 of 4 steps done in 4m10s, 0 targets verified"
    assert lines[1:3] == ["  steps    1 done, 1 failed, 2 not started", "  targets  1 failed"]
    assert lines[3] == f"FAILED  train-01: {CHANGE.step.summary}"
    assert [line.strip() for line in lines[4:6]] == ["no such profile", "look at the host"]
    assert lines[6] == "2 steps were not started because of that"
    one = run_text(run("done", "done", "failed", "skipped", error=StepFailed("no such profile")))
    assert one.splitlines()[-1] == "1 step was not started because of that"


def test_an_unknown_outcome_is_called_so():
    text = run_text(run("done", "unknown", "skipped", "skipped", error=OutcomeUnknown("the answer was lost")))
    assert "UNKNOWN  train-01" in text
    assert "FAILED" not in text


def test_a_stopped_run_says_how_to_go_on():
    assert "stopped by the operator" in run_text(run("done", "done", "done", "done", signal=2))
    stopped = run_text(run("done", "done", "skipped", "skipped", signal=2))
    assert "2 steps were not started\n" in stopped, "nothing failed: there is no 'because of that'"
    assert "stopped" not in run_text(GOOD)
    halted = run_text(replace(run("done", "done", "skipped", "skipped", signal=15), stopped="stopped because it rains"))
    assert "stopped because it rains" in halted
    assert "operator" not in halted


def test_what_is_left_open_is_named():
    text = run_text(run("done", "done", "done", "done", open=("esx01 is still in maintenance mode",)))
    assert text.splitlines()[-2:] == ["LEFT OPEN", "  ! esx01 is still in maintenance mode"]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (RunEvent("start", CHANGE), "[2/4] " + CHANGE.step.summary),
        (RunEvent("progress", CHANGE, "40%"), "— 40%"),
        (RunEvent("done", CHANGE, "", 0.4), "— done"),
        (RunEvent("done", CHANGE, "", 75), "— done (1m15s)"),
        (RunEvent("failed", CHANGE, "no such profile", 2), "— FAILED (2s): no such profile"),
        (RunEvent("unknown", CHANGE, "lost"), "— UNKNOWN: lost"),
        (RunEvent("skipped", CHANGE, "stopped by the operator"), "— skipped: stopped by the operator"),
    ],
)
def test_an_event_is_one_line(event, expected):
    line = event_text(event, 4)
    assert line.startswith("train-01 ")
    assert "[2/4]" in line
    assert line.endswith(expected)


def test_an_event_of_nobody():
    assert event_text(RunEvent("waiting", text="still working on esx01"), 4) == ("waiting: still working on esx01")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.4, "59s"), (60, "1m00s"), (3599, "59m59s"), (3601, "1h00m"), (40_000, "11h06m")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


# -- JSON lines


def test_json_lines_are_one_document_a_line():
    lines = [
        header_line("abc", 4),
        event_line(RunEvent("done", CHANGE, "", 1.23456), "12:00"),
        summary_line(FAILED, FAILED.exit_code),
    ]
    assert all("\n" not in line for line in lines)
    header, event, summary = (json.loads(line) for line in lines)
    assert header == {"type": "run", "schema_version": 1, "digest": "abc", "steps": 4, "run": ""}
    assert (event["what"], event["step"], event["target"]["name"], event["seconds"]) == (
        "done",
        "s002",
        "train-01",
        1.235,
    )
    assert (summary["exit_code"], summary["done"], summary["failed"], summary["skipped"]) == (1, 1, 1, 2)
    assert summary["outcomes"][1]["error"] == "no such profile"
    assert summary["outcomes"][2]["reason"] == "waited"
    assert summary["verified"] == []
    assert json.loads(summary_line(GOOD))["verified"] == ["train-01"]


def test_an_event_without_a_step_has_no_target():
    assert "target" not in json.loads(event_line(RunEvent("waiting", text="x"), "12:00"))


# -- hostile text


def test_nothing_hostile_reaches_the_terminal():
    evil = Target("vm", EVIL, vm(1).ref)
    plan = made(estate(host(ESX1), guest(evil, ESX1)), {evil: wants(VmHardware(memory_reservation="full"))})
    error = StepFailed(EVIL, EVIL)
    outcomes = tuple(Outcome(p, "failed", 0, error, EVIL) for p in plan.steps)
    bad = RunOutcome(plan, outcomes, 1, open=(EVIL,))
    texts = [
        run_text(bad),
        summary_line(bad),
        event_text(RunEvent("failed", plan.steps[0], EVIL), 4),
        event_text(RunEvent("waiting", text=EVIL), 4),
        event_line(RunEvent("failed", plan.steps[0], EVIL), "12:00"),
        diagnostics_text([Diagnostic(Mark(EVIL, 1, 1), EVIL, EVIL, EVIL)]),
        findings_text([Finding(evil, "vm.tools", "warn", EVIL, EVIL, ((EVIL, EVIL),), EVIL)], EVIL),
    ]
    for text in texts:
        assert not set(text) & set("\x1b\u202e")


# -- input faults and compatibility findings


def test_input_faults_with_place_excerpt_and_help():
    found = Diagnostic(Mark("a.yml", 3, 5), "unknown key 'vpgu'", "did you mean vgpu?", "3 |   vpgu: [x]\n  |   ^")
    lines = diagnostics_text([found]).splitlines()
    assert lines[0] == "a.yml:3:5  error  unknown key 'vpgu'"
    assert "  3 |   vpgu: [x]" in lines
    assert "  did you mean vgpu?" in lines
    assert lines[-1] == "1 error — nothing was changed"
    assert diagnostics_text([found, found]).splitlines()[-1].startswith("2 errors")


def finding(target, verdict, rule="vm.tools"):
    return Finding(
        target, rule, verdict, f"it is {verdict}", "do", (("guest.toolsRunningStatus", "x"),), "https://vmware"
    )


def test_findings_are_by_target_worst_first_with_evidence_and_source():
    found = [
        finding(vm(1), "pass"),
        finding(None, "pass", "vcenter.api"),
        finding(vm(1), "fail"),
        finding(ESX1, "warn"),
    ]
    lines = findings_text(found, "vc.example.com").splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "vc.example.com",
        "train-01",
        "esx01",
        "1 fail, 1 warn, 2 pass",
    ]
    own = lines[lines.index("train-01") : lines.index("esx01")]
    assert own[1].split()[:2] == ["fail", "vm.tools"]
    assert own[2].strip() == "evidence: guest.toolsRunningStatus = x"
    assert [line.strip() for line in own[3:5]] == ["do", "source: https://vmware"]
    assert own[5].split()[0] == "pass"


def test_passes_may_be_left_out():
    lines = findings_text([finding(vm(1), "pass"), finding(ESX1, "unknown")], "vc", passes=False).splitlines()
    assert "train-01" not in lines
    assert lines[-1] == "1 unknown, 1 pass"


def test_nothing_to_check():
    assert findings_text([], "vc") == "nothing to check"
