"""T-01: a run that dies at any point of its journal is brought to its end by one resume."""

from __future__ import annotations

import pytest
from reliability.crash import DIED
from reliability.harness import Spec
from support.seeds import ALL, FULL, cases, chance

POSITIONS = ("before begin", "after begin", "after call", "after reply", "after end")
SMALL, LARGEST = 10, 480  # of about 310 points, 350 with those of debts; the plan may grow. Two of each position
ENOUGH = 48
"""Points of each position that a plan has which is worth to be tried at all of them."""


def chosen(points, number):
    """The point of one case: all in order with RELIABILITY=full, else by chance, every position as often.

    Where debts and what is known of the run are written down beside the steps has its turn with RELIABILITY=all.
    """
    if FULL:
        points = points if ALL else [p for p in points if p.startswith(POSITIONS)]
        return points[number] if number < len(points) else None
    position = POSITIONS[number % len(POSITIONS)]
    return chance("crash").sample([p for p in points if p.startswith(position)], k=SMALL)[number // len(POSITIONS)]


@pytest.mark.parametrize("number", cases(SMALL, LARGEST))
def test_a_run_that_dies_at_a_point_is_resumed(mission, number):
    point = chosen(mission.points, number)
    if point is None:
        pytest.skip(f"the plan has {len(mission.points)} points")
    ended = mission.apply(Spec(at=point))
    assert ended.code == DIED, f"{point} was not reached\n{ended.text}"
    print(point)
    again = mission.converged()
    assert "not approved then" not in again.text, f"{point}\n{again.text}"


def test_every_point_is_tried(mission):
    assert len(mission.points) == len(set(mission.points)) <= LARGEST
    begun = [p for p in mission.points if p.startswith("before begin")]
    assert len(begun) == len([p for p in mission.points if p.startswith("after end")]) >= 60
    for position in POSITIONS:
        assert sum(p.startswith(position) for p in mission.points) >= ENOUGH, position
