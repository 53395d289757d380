"""Waiting for what happens in a lab or a process, so that a test does not depend on how fast the machine is."""

from __future__ import annotations

import os
import re
import time

LONG = 300.0
"""Seconds after which what was waited for is taken not to happen; no test that passes waits as long."""


def busy():
    """Return how much longer a limit of time has to be than on a quiet machine: the processes for each processor."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def until(true, seconds=LONG, *, why="it did not happen in time"):
    """Wait until a function answers something true, and return it."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, why
        time.sleep(0.02)
    return value


def struck(lab, rule, *, alive=None):
    """Wait until a rule of the lab has fired; `alive` is a process that must not end before."""

    def fired():
        assert alive is None or alive.poll() is None, f"it ended before rule {rule} was met"
        return any(f["rule"] == rule for f in lab.get("/lab/faults")["fired"])

    until(fired, why=f"rule {rule} was not met")


def heard(stream, pattern):
    """Read a process's output up to a line with this pattern, and return what was read."""
    seen = []
    for line in stream:
        seen.append(line)
        if re.search(pattern, line.rstrip("\n")):
            return "".join(seen)
    raise AssertionError(f"it ended without {pattern!r}:\n{''.join(seen)}")
