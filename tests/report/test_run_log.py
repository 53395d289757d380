"""The log of a run in few lines, its live view, and that both say the numbers of the plan."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.estates import estate, guest, host, made, wants
from support.growing import Calls, exponent
from support.large_plans import esx, names_in, plan_of, train

from vsphere_ai.errors import StepFailed
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import columns, cut, filled
from vsphere_ai.planning.outcome import Outcome, RunEvent, RunOutcome
from vsphere_ai.planning.scheduling.expected_time import StepTimes, Usual, step_times
from vsphere_ai.report.plans.live_text import LiveText
from vsphere_ai.report.plans.plan_order import number_of, number_ranges
from vsphere_ai.report.plans.run_log import RunLog
from vsphere_ai.report.plans.run_text import TARGETS, run_text
from vsphere_ai.resources.vm_hardware import VmHardware

RUN = "20260101-120000-0123"
WIDE_NAME = "火車-🚂-\u202eevil\x1b[31m"


def times_of(plan, seconds=10.0, times=1):
    return StepTimes({p.id: Usual(seconds, times) for p in plan.steps}, 8, 1)


def carried_out(plan, *, parallel=8, fails=lambda planned: "", took=1.0):
    """Events of a run as the runner emits them: pairs of a time and an event."""
    now, ended, ok, waiting, running = 0.0, set(), set(), list(plan.steps), []
    while waiting or running:
        for planned in [p for p in waiting if set(p.after) <= ended]:
            if not set(planned.after) - set(planned.behind) <= ok:
                waiting.remove(planned)
                ended.add(planned.id)
                first = next(s.step for s in plan.steps if s.id in planned.after and s.id not in ok)
                yield now, RunEvent("skipped", planned, f"{first.target.name}: {first.summary}")
            elif len(running) < parallel:
                waiting.remove(planned)
                running.append(planned)
                yield now, RunEvent("start", planned)
        if not running:
            continue
        now += took / len(running)
        planned = running.pop(0)
        ended.add(planned.id)
        why = fails(planned)
        if why:
            yield now, RunEvent("failed", planned, why, took)
        else:
            ok.add(planned.id)
            yield now, RunEvent("done", planned, "", took)


def log_of(plan, events, times=None):
    log, lines, now = RunLog(plan, times or times_of(plan)), [], 0.0
    for now, event in events:
        lines += log.lines(event, now)
    return [*lines, *log.close(now)]


def numbers_in(lines, total):
    found = Counter()
    for line in lines:
        for text in re.findall(rf"\[([\d, -]+)/{total}\]", line):
            for part in text.split(", "):
                first, _, last = part.partition("-")
                found.update(range(int(first), int(last or first) + 1))
    return found


def test_a_run_of_few_targets_has_a_line_per_phase_and_every_step_once():
    plan = plan_of(2, 4)
    lines = log_of(plan, carried_out(plan))
    assert len(lines) < len(plan.steps) / 2
    assert numbers_in(lines, len(plan.steps)) == Counter(map(number_of, plan.steps))


@pytest.mark.parametrize(("hosts", "vms"), [(32, 256), (125, 875)])
def test_the_log_of_many_targets_is_short(hosts, vms):
    plan = plan_of(hosts, vms)
    lines = log_of(plan, carried_out(plan))
    assert len(lines) <= 6 * hosts
    assert {esx(n).name for n in range(1, hosts + 1)} <= set(names_in("\n".join(lines)))


def test_vms_that_are_alike_are_ranges():
    targets = [train(n) for n in range(1, 257)]
    seen = estate(
        host(esx(1)), *(guest(t, esx(1), runtime__powerState="poweredOff", config__version="vmx-17") for t in targets)
    )
    plan = made(seen, {t: wants(VmHardware(version=19)) for t in targets})
    lines = log_of(plan, carried_out(plan, took=4.0), step_times(plan.steps, {}, 0, 8))
    assert len(lines) <= 120
    assert {t.name for t in targets} <= set(names_in("\n".join(lines)))


def test_the_first_failure_is_said_at_once_and_others_alike_once():
    plan = plan_of(1, 40)
    log, said = RunLog(plan, times_of(plan)), []
    for now, event in carried_out(plan, fails=lambda p: "the disk is full" * p.step.summary.startswith("upgrade")):
        lines = [*log.lines(event, now)]
        if event.what == "failed" and not any("FAILED" in line for line in said):
            assert "FAILED" in lines[-1]
        said += lines
    said += log.close(now)
    failed = [line for line in said if "FAILED" in line]
    assert 2 <= len(failed) <= 5
    assert {train(n).name for n in range(1, 41)} <= set(names_in("\n".join(failed)))


def test_what_fails_on_many_ragged_vms_for_one_reason_is_few_lines():
    """Every third of 256 VMs: their names are no ranges. Failures, what is skipped, and what is put back."""
    targets = [train(n) for n in range(1, 257)]
    old = [guest(t, esx(1), runtime__powerState="poweredOn", config__version="vmx-17") for t in targets]
    plan = made(estate(host(esx(1)), *old), {t: wants(VmHardware(version=19)) for t in targets})
    bad = {t.name for t in targets[::3]}

    def fails(planned):
        return f"UpgradeVM_Task on {planned.step.target.name}: InvalidState" * (
            planned.step.target.name in bad and planned.step.summary.startswith("upgrade")
        )

    events = [*carried_out(plan, parallel=64, fails=fails, took=0.2)]
    events += [(events[-1][0], RunEvent("reverted", text=f"power on {name}")) for name in sorted(bad)]
    lines = log_of(plan, events, step_times(plan.steps, {}, 0, 64))
    assert len(lines) <= 40, "\n".join(lines)
    assert max(map(len, lines)) <= 250
    (reverted,) = [line for line in lines if line.startswith("reverted")]
    assert reverted == "reverted: power on train-0001, and 85 more like that"
    skipped = [
        line for line in lines if " skipped, as this was not done: upgrade" in line or "not done: read back" in line
    ]
    assert sum(int(n) for line in skipped for n in re.findall(r"(\d+) steps skipped", line)) == 2 * 86
    outcomes = {e.planned.id: e for _, e in events if e.planned and e.what in ("done", "failed", "skipped")}
    ended = tuple(Outcome(p, outcomes[p.id].what, 1.0, _error(outcomes[p.id])) for p in plan.steps)
    end = run_text(RunOutcome(plan, ended, 1.0, put_back=tuple(f"power on {name}" for name in sorted(bad))), 80)
    assert len(end.splitlines()) <= 30, end
    assert bad <= set(names_in(" ".join(end.split()))), "the end names each that failed"
    assert "PUT BACK\n  power on train-0001, and 85 more like that" in end


def _error(event):
    return StepFailed(event.text, "look at it") if event.what == "failed" else None


def test_a_sign_of_life_only_where_nothing_else_was_said():
    plan = plan_of(1, 1)
    first = next(p for p in plan.steps if not p.after)
    log = RunLog(plan, times_of(plan, 600.0, times=0))
    assert list(log.lines(RunEvent("start", first), 0.0)) == []
    assert list(log.lines(RunEvent("progress", first, "10%"), 3.0)) == []
    (line,) = log.lines(RunEvent("waiting", text="still working on x"), 9.0)
    assert line.startswith("still working: ")
    assert "9s of ~10m00s" in line
    assert list(log.lines(RunEvent("progress", first, "10%"), 10.0)) == []


def test_numbers_of_the_log_are_those_of_the_plan():
    assert number_ranges([3, 1, 2, 7]) == "1-3, 7"
    assert number_ranges([1, 3, 5, 7]) == "1, 3, …"
    assert number_ranges([4]) == "4"


# -- the live view


def states(plan, names=None):
    """The view after each event of a run in which a VM fails."""
    view = LiveText(plan, RUN, times_of(plan))
    for now, event in carried_out(plan, parallel=64, fails=lambda p: "no" * (p.step.summary[:3] == "upg"), took=15.0):
        view.see(event, now)
        yield view, now


@pytest.mark.parametrize("height", [10, 24, 40])
def test_each_row_is_a_line_of_the_terminal_and_all_fit(height):
    plan = plan_of(12, 96)
    for number, (view, now) in enumerate(states(plan)):
        if number % 7:
            continue
        for width in range(60, 201, 20):
            lines = view.lines(width, height, now)
            assert len(lines) <= height - 1
            assert max(columns(line) for line in lines) < width


@given(width=st.integers(60, 200), height=st.integers(6, 60), name=st.text(min_size=1, max_size=80))
@settings(max_examples=60, deadline=None)
def test_no_name_breaks_a_row(width, height, name):
    targets = [Target("vm", f"{each}{name}", f"VirtualMachine:vm-{n}") for n, each in enumerate(("", WIDE_NAME))]
    seen = estate(host(esx(1)), *(guest(t, esx(1), config__version="vmx-17") for t in targets))
    plan = made(seen, {t: wants(VmHardware(version=19)) for t in targets})
    view, log = LiveText(plan, RUN, times_of(plan)), RunLog(plan, times_of(plan))
    for now, event in carried_out(plan, fails=lambda p: name * p.step.summary.startswith("upg")):
        view.see(event, now)
        for line in [*view.lines(width, height, now), *log.lines(event, now)]:
            assert "\x1b" not in line
            assert "\u202e" not in line
            assert "\n" not in line
        assert max(map(columns, view.lines(width, height, now))) < width


def view_of(plan, elapsed, usual, times=1):
    view = LiveText(plan, RUN, times_of(plan, usual, times))
    first = next(p for p in plan.steps if not p.after)
    view.see(RunEvent("start", first), 0.0)
    return view, first, view.lines(140, 24, elapsed)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_time_is_never_cut_off(width):
    plan = plan_of(1, 1)
    for elapsed, usual, times, text in (
        (250, 700, 6, "4m10s of 11m40s"),
        (250, 700, 0, "4m10s of ~11m40s"),
        (820, 700, 6, "13m40s, +2m00s over usual"),
    ):
        view, _, _ = view_of(plan, elapsed, usual, times)
        assert any(text in line for line in view.lines(width, 24, elapsed))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_heads_of_the_columns_and_the_names_of_those_that_wait_are_whole(width):
    plan = plan_of(32, 256)
    view = LiveText(plan, RUN, times_of(plan, 600.0, times=0))
    for now, event in carried_out(plan):
        if event.what == "done":  # times of steps like it are no guesses afterwards
            break
        view.see(event, now)
    lines = view.lines(width, 40, now + 5.0)
    (head,) = [line for line in lines if "HOST OR VM" in line]
    assert head.endswith("TIME (~ GUESS)")
    (waiting,) = [line for line in lines if " waiting: " in line]
    names = waiting.partition(" waiting: ")[2]
    assert names.endswith((", …", ".local"))
    assert {n for n in names_in(names.removesuffix(", …"))} <= {p.step.target.name for p in plan.steps}


def test_what_is_left_never_shrinks_while_a_step_is_late():
    plan = plan_of(1, 1)
    view, _, lines = view_of(plan, 11.0, 10.0)
    left = re.search(r"at least (\S+) left", "\n".join(lines))[1]
    for elapsed in (60.0, 600.0, 6000.0):
        assert f"at least {left} left" in "\n".join(view.lines(140, 24, elapsed))


def test_limit_and_next_step_are_said_where_there_is_room():
    plan = plan_of(1, 1)
    _, first, lines = view_of(plan, 1.0, 10.0)
    second = next(p for p in plan.steps if first.id in p.after)
    assert lines[0].split() == ["HOST", "OR", "VM", "STEP", "TIME"]
    assert "max " in lines[1]
    assert f"next: {second.step.summary}"[:20] in lines[1] or second.step.target.name in lines[1]


def test_after_ctrl_c_it_says_what_stops_and_how_to_go_on():
    plan = plan_of(2, 2)
    view, _, _ = view_of(plan, 1.0, 10.0)
    view.see(RunEvent("stopping", text="x"), 1.0)
    for width in (60, 80):
        text = "\n".join(view.lines(width, 24, 1.0))
        assert "nothing else starts" in text
        assert "1 step in flight" in text
        assert " left" not in text  # of the whole, which is not done any more
        assert f"vsphere-ai resume {RUN}" in text


def test_failing_and_running_come_first_and_the_rest_is_counted():
    plan = plan_of(16, 128)
    seen = max((view.lines(100, 12, now) for view, now in states(plan)), key=lambda lines: "FAILED" in lines[0])
    assert "FAILED" in seen[0]
    assert re.match(r" \+ .*waiting", seen[-3])


def test_a_picture_of_a_thousand_hosts_is_quick():
    sizes, counts = (125, 250, 500), []
    for size in sizes:
        plan = plan_of(size, size)
        view = LiveText(plan, RUN, times_of(plan))
        first = [p for p in plan.steps if not p.after][:64]
        for planned in first:
            view.see(RunEvent("start", planned), 0.0)
        view.lines(120, 40, 0.5)
        with Calls() as calls:
            view.lines(120, 40, 0.6)
        counts.append(calls.count)
    assert exponent(sizes, counts) < 1.25


# -- the end


@settings(max_examples=50, deadline=None)
@given(states=st.lists(st.sampled_from(["done", "failed", "unknown", "skipped"]), min_size=60, max_size=60))
def test_the_counts_at_the_end_add_up(states):
    plan = plan_of(2, 4)
    outcomes = [Outcome(p, s, 1.0, StepFailed("no", "x")) for p, s in zip(plan.steps, states, strict=False)]
    lines = run_text(RunOutcome(plan, tuple(outcomes), 1.0)).splitlines()
    if all(o.state == "done" for o in outcomes):
        return
    steps = [int(n) for n in re.findall(r"(\d+) (?:done|failed|unknown|not started)", lines[1])]
    targets = [int(n) for n in re.findall(rf"(\d+) (?:{'|'.join(TARGETS)})", lines[2])]
    assert sum(steps) == len(outcomes)
    assert sum(targets) == len({o.planned.step.target for o in outcomes})


# -- columns


@pytest.mark.parametrize(("text", "count"), [("abc", 3), ("火車", 4), ("e\u0301", 1), ("🚂", 2), ("", 0)])
def test_columns_of_a_terminal(text, count):
    assert columns(text) == count


@given(st.text(max_size=40), st.integers(1, 30))
def test_a_cut_text_fits_and_says_that_it_was_cut(text, width):
    found = cut(text, width)
    assert columns(found) <= width
    assert found == text or found.endswith("…")
    assert columns(filled(text, width)) == width
