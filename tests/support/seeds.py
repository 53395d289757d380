"""How many cases run, and what they draw by chance: RELIABILITY=full or all, RELIABILITY_SEED=N repeats a run.

By default a few cases of every test run; `full` has those that take the longest in smaller numbers than `all`.
"""

from __future__ import annotations

import os
import random

LEVELS = ("", "full", "all")
asked = os.environ.get("RELIABILITY", "")
if asked not in LEVELS:
    raise SystemExit(f"RELIABILITY={asked}: write full or all, or leave it out for a few cases of every test")
LEVEL = LEVELS.index(asked)
FULL, ALL = LEVEL >= 1, LEVEL == 2
SEED = int(os.environ.get("RELIABILITY_SEED", "1"))


def by_level(small, full, every=None):
    """One of the values; where `every` is not given, `full` is all there is."""
    return (small, full, full if every is None else every)[LEVEL]


def few(values, every):
    """All of them, or by default only every third, fourth, ..."""
    return values if FULL else values[::every]


def cases(small, full, every=None):
    """Numbers of the cases to run."""
    return range(by_level(small, full, every))


def chance(*about):
    """Random numbers of one case, the same whenever the seed is."""
    return random.Random(f"{SEED}/{'/'.join(map(str, about))}")
