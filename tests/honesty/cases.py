"""Which cases there are: by seed and number, each fault alone, two at once, or one that strikes during the run."""

from __future__ import annotations

import random

from honesty import drawing, faults_hosts, faults_states, faults_vms, strikes  # noqa: F401 - they fill FAULTS
from honesty.case import Case
from honesty.faults import FAULTS

TRIES = 40
"""How many farms are drawn until one has a place for the faults."""


def alone() -> int:
    """How many faults there are: the first so many cases have one each, and nothing else."""
    return len(FAULTS)


def case(seed: int, number: int) -> Case:
    """Return the case of that number: the same one whenever the seed is."""
    rng = random.Random(f"{seed}/{number}")
    names = sorted(FAULTS)
    if number < len(names):
        return _with(rng, (names[number],), spoilt=True)
    what = rng.choices(("whole", "one", "two", "struck"), (20, 30, 30, 20))[0]
    if what == "whole":
        return drawing.draw(rng)
    if what == "struck":
        return strikes.into(drawing.draw(rng), rng)
    return _with(rng, tuple(rng.sample(names, 1 if what == "one" else 2)))


def _with(rng: random.Random, names: tuple[str, ...], *, spoilt: bool = False) -> Case:
    """Return a case with these faults, or with as many of them as there is a place for.

    `spoilt`: one whose job they make impossible, where they can.
    """
    best, worth = drawing.draw(rng), -1
    for _ in range(TRIES):
        made = drawing.draw(rng)
        fitting = [name for name in names if FAULTS[name].into(made, rng)]
        now = 2 * len(fitting) + (spoilt and any(f.spoils(made, f.about) for f in made.faults))
        if now > worth:
            best, worth = made, now
        if worth >= 2 * len(names) + spoilt:
            break
    return best
