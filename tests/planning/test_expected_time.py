"""The expected time of a plan: its steps laid out, each as long as before, else as a guess."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, host, made, wants
from support.missions import DESIRED, plain_farm

from vsphere_ai.model.steps import what
from vsphere_ai.planning.scheduling.expected_time import (
    Pace,
    StepTimes,
    Usual,
    limit_of,
    seconds_left,
    sort_of,
    step_times,
)
from vsphere_ai.planning.scheduling.expected_time import estimate as estimate_of
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.resources.pvrdma_host import PvrdmaHost

MISSION = made(plain_farm(), DESIRED).steps


def known_of(steps, seconds):
    return {sort_of(what(p.step), p.step.summary): (seconds, 4) for p in steps}


def estimate(steps, *times):
    return estimate_of(steps, step_times(steps, *times))


def critical_path(steps):
    """How many steps are on the longest chain."""
    depth = {}
    for planned in steps:
        depth[planned.id] = 1 + max((depth[a] for a in planned.after), default=0)
    return max(depth.values())


def test_steps_that_wait_for_each_other_add_up_and_others_go_side_by_side():
    found = estimate(MISSION, known_of(MISSION, 10.0), 3, 64)
    assert found.seconds == 10 * critical_path(MISSION)
    assert (found.runs, found.guessed) == (3, False)
    assert 0 < found.host < found.window <= found.seconds


def test_one_at_a_time_takes_the_sum():
    assert estimate(MISSION, known_of(MISSION, 10.0), 1, 1).seconds == 10 * len(MISSION)


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_more_at_once_takes_no_longer_than_one(parallel):
    alone = [PlannedStep(f"s{n:03}", MISSION[0].step, ()) for n in range(16)]
    assert estimate(alone, known_of(alone, 6.0), 1, parallel).seconds == 96 / parallel


def test_what_no_run_has_shown_is_a_guess():
    assert estimate(MISSION, {}, 0, 8).guessed
    some = {k: v for k, v in known_of(MISSION, 1.0).items() if not k.startswith("host-back")}
    partly = estimate(MISSION, some, 2, 8)
    assert partly.guessed
    assert partly.seconds > 600  # the guess of a boot


def test_nothing_that_goes_out_of_service_needs_no_window():
    steps = made(estate(host(ESX1)), {ESX1: wants(PvrdmaHost(firewall=True))}).steps
    found = estimate(steps, {}, 0, 8)
    assert found.seconds > 0
    assert (found.window, found.host) == (0, 0)


def test_steps_of_one_sort_have_the_same_first_word():
    assert sort_of("change", "reconfigure: add 1") == sort_of("change", "reconfigure: add 2") == "change reconfigure"
    assert sort_of("host-back", "wait until") != sort_of("gpus-answer", "wait until")


# -- what is left of a run


@pytest.fixture
def times():
    return step_times(MISSION, known_of(MISSION, 10.0), 3, 64)


def test_at_the_start_all_of_it_is_left(times):
    assert seconds_left(MISSION, times, {}, ()) == estimate_of(MISSION, times).seconds


def test_what_is_left_shrinks_as_steps_go_on_and_end(times):
    whole = seconds_left(MISSION, times, {}, ())
    first = next(p.id for p in MISSION if not p.after)
    assert whole - 10 <= seconds_left(MISSION, times, {first: 4.0}, ()) <= whole
    ended = {p.id for p in MISSION[: len(MISSION) // 2]}
    assert seconds_left(MISSION, times, {}, ended) < whole
    assert seconds_left(MISSION, times, {}, {p.id for p in MISSION}) == 0


def test_an_overrun_is_not_counted_down_any_further():
    """What waits for a step that takes longer than usual is still to be done: the rest does not shrink."""
    chain = [PlannedStep(f"s{n:03}", MISSION[0].step, (f"s{n - 1:03}",) if n else ()) for n in range(3)]
    times = StepTimes({p.id: Usual(10.0, 1) for p in chain}, 8, 1)
    assert [seconds_left(chain, times, {"s000": each}, ()) for each in (0, 9, 10, 11, 500)] == [30, 21, 20, 20, 20]


def test_steps_under_way_keep_their_places():
    """Of two at a time, those under way go on before any other, though others have lower numbers."""
    steps = [PlannedStep(f"s{n:03}", MISSION[0].step, ()) for n in range(4)]
    times = StepTimes({p.id: Usual(10.0, 1) for p in steps}, 2, 1)
    assert seconds_left(steps, times, {"s002": 5.0, "s003": 5.0}, ()) == 15


def test_waits_have_limits():
    limits = {what(p.step): limit_of(p.step) for p in MISSION}
    assert limits["host-back"] > limits["gpus-answer"] > 0
    assert limits["enter-maintenance"] > 0
    assert limits["reboot"] is None


def test_time_left_follows_what_the_run_itself_has_shown():
    """Guesses of a boot are of 10 minutes; where four of eight hosts were back in 2 s, the others take 2 s as well."""
    kind = next(p.step for p in MISSION if what(p.step) == "host-back")
    steps = [PlannedStep(f"s{n:03}", kind, ()) for n in range(8)]
    pace = Pace(steps, step_times(steps, {}, 0, 1))
    assert seconds_left(steps, pace.now(), {}, ()) == 8 * 600
    for planned in steps[:4]:
        pace.end(planned, 2.0)
    assert seconds_left(steps, pace.now(), {}, {p.id for p in steps[:4]}) == 4 * 2


def test_what_earlier_runs_have_shown_weighs_as_much_as_their_steps():
    steps = [PlannedStep(f"s{n:03}", MISSION[0].step, ()) for n in range(5)]
    pace = Pace(steps, step_times(steps, known_of(steps, 10.0), 1, 1))  # four of 10 s
    pace.end(steps[0], 20.0)
    assert seconds_left(steps, pace.now(), {}, {steps[0].id}) == 4 * 12


def test_that_other_steps_were_fast_makes_none_faster():
    pace = Pace(MISSION, step_times(MISSION, {}, 0, 8))
    fast = next(p for p in MISSION if what(p.step) != "host-back")
    pace.end(fast, 0.01)
    assert seconds_left(MISSION, pace.now(), {}, {fast.id}) > 600
