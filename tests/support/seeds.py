"""How many cases run, and what they draw by chance: RELIABILITY=full runs all, RELIABILITY_SEED=N repeats a run."""

from __future__ import annotations

import os
import random

FULL = os.environ.get("RELIABILITY") == "full"
SEED = int(os.environ.get("RELIABILITY_SEED", "1"))


def cases(small, full):
    """Numbers of the cases to run: a few every time, all of them with RELIABILITY=full."""
    return range(full if FULL else small)


def chance(*about):
    """Random numbers of one case, the same whenever the seed is."""
    return random.Random(f"{SEED}/{'/'.join(map(str, about))}")
