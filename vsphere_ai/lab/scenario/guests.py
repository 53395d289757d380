"""Guests of a scenario as a whole: whether their commands are processes of the machine that the lab runs on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guests:
    """How guests carry out commands that come over SSH.

    With `run_jobs` they are processes **on the lab's machine, as the user of the lab**, below an init process of each
    guest: training jobs run for real. Without it nothing runs, and what programs print is computed. `processes` is the
    most of one guest, `memory_mb` the memory and `minutes` the time that one process may take.
    """

    run_jobs: bool = False
    processes: int = 256
    memory_mb: int = 8192
    minutes: float = 60.0
