"""Which cases there are: by seed and number, each fault alone, two at once, or some that strike during the run."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from honesty import drawing, full_gpus, pressed, strikes
from honesty.case import Case
from honesty.faults import FAULTS
from honesty.strikes import STRIKES

for _path in sorted(Path(__file__).parent.glob("faults_*.py")):
    import_module(f"honesty.{_path.stem}")  # it fills FAULTS
TRIES = 40
"""How many farms are drawn until one has a place for the faults."""
Draw = Callable[[random.Random], Case]


def small(rng: random.Random) -> Case:
    """Draw a farm of one host, or of two: there is little to do on it."""
    return drawing.draw(rng, hosts=rng.choice((1, 1, 1, 2)), vms=2)


def alone() -> tuple[str, ...]:
    """The first so many cases: each fault, then each strike, and nothing else is wrong with the farm."""
    return (*sorted(FAULTS), *sorted(STRIKES))


PRESSED = 10_000
"""From this number on all cases are of farms on which little is left."""
NO_REBOOT = 1_000_000
"""From this number on all cases are of windows without a reboot on hosts whose GPUs are full."""


def case(seed: int, number: int, draw: Draw = drawing.draw) -> Case:
    """Return the case of that number: the same one whenever the seed is. `draw` draws its farm and its plays."""
    rng = random.Random(f"{seed}/{number}")
    names = sorted(FAULTS)
    if number >= NO_REBOOT:
        return full_gpus.draw(rng)
    if number >= PRESSED:
        return pressed.draw(rng)
    if number < len(names):
        return _with(rng, draw, (names[number],), spoilt=True)
    if number < len(alone()):
        return _struck(rng, draw, alone()[number])
    what = rng.choices(("whole", "one", "two", "struck", "pressed", "no reboot"), (10, 15, 15, 10, 40, 10))[0]
    if what == "no reboot":
        return full_gpus.draw(rng)
    if what == "pressed":
        return pressed.draw(rng)
    if what == "whole":
        return draw(rng)
    if what == "struck":
        return strikes.into(draw(rng), strikes.drawn(rng))
    return _with(rng, draw, tuple(rng.sample(names, 1 if what == "one" else 2)))


def _struck(rng: random.Random, draw: Draw, name: str) -> Case:
    """Return a case in whose run that strike has something to strike."""
    strike, made = STRIKES[name], draw(rng)
    while not (strike.into(made, rng) if strike.into else strike.met(made)):
        made = draw(rng)
    return strikes.into(made, (name,))


def _with(rng: random.Random, draw: Draw, names: tuple[str, ...], *, spoilt: bool = False) -> Case:
    """Return a case with these faults, or with as many of them as there is a place for.

    `spoilt`: one whose job they make impossible, where they can.
    """
    best, worth = draw(rng), -1
    for _ in range(TRIES * (20 if spoilt else 1)):  # the rarest fault of all has a case of its own, too
        made = draw(rng)
        fitting = [name for name in names if FAULTS[name].into(made, rng)]
        now = 2 * len(fitting) + (spoilt and any(f.spoils(made, f.about) for f in made.faults))
        if now > worth:
            best, worth = made, now
        if worth >= 2 * len(names) + spoilt:
            break
    return best
