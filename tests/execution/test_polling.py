"""Pauses between two looks: what is awaited is seen soon, in proportion to how long it took."""

from __future__ import annotations

import pytest
from support.acting import Clock, on_clock

from vsphere_ai.execution.actions import context
from vsphere_ai.execution.actions.context import polling

TIMES = (0.05, 0.3, 1.0, 4.0, 17.0, 45.0, 90.0, 180.0)


@pytest.mark.parametrize("at", TIMES)
@pytest.mark.parametrize("fastest", [0.1, 0.2])
def test_what_happens_is_seen_within_a_twentieth_of_the_time_it_took(at, fastest, monkeypatch):
    on_clock(monkeypatch, context, Clock())
    seen = next(waited for waited in polling(600, fastest=fastest) if waited >= at)
    assert seen - at <= fastest + 1.1 * context.LATE * at


def test_a_long_wait_does_not_ask_more_often_than_it_has_to(monkeypatch):
    on_clock(monkeypatch, context, Clock())
    assert len(list(polling(600, fastest=0.1))) < 150


@pytest.mark.parametrize("limit", [0.0, 0.05, 20.0, 601.0])
def test_the_last_look_is_after_the_limit(limit, monkeypatch):
    clock = Clock()
    on_clock(monkeypatch, context, clock)
    looks = list(polling(limit, fastest=0.1))
    assert looks[-1] == pytest.approx(limit)
    assert len(looks) >= 1
