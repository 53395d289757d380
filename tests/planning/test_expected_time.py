"""The expected time of a plan: its steps laid out, each as long as before, else as a guess."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, host, made, wants
from support.missions import DESIRED, plain_farm

from vsphere_ai.model.steps import what
from vsphere_ai.planning.expected_time import estimate, sort_of
from vsphere_ai.planning.schedule import PlannedStep
from vsphere_ai.resources.pvrdma_host import PvrdmaHost

MISSION = made(plain_farm(), DESIRED).steps


def known_of(steps, seconds):
    return {sort_of(what(p.step), p.step.summary): seconds for p in steps}


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
