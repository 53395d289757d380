"""Checkpoints: their size, the time to write one, and how often to write one.

Sources: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974); J. T. Daly, A
higher order estimate of the optimum checkpoint interval, FGCS 22 (2006), equation 37.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

BYTES_PER_PARAMETER = 14
"""Bytes per parameter of a checkpoint with Adam in mixed precision: weights in 2, master weights and two moments in 4
each. Unverified: a listed GPT-175B of 2.3 TiB has 14.45."""


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a job: `size` in bytes, times in seconds, `lost` the share of time that goes to them and failures.

    `mtbf` is of the whole job. Without it only the time to write one is known.
    """

    size: float
    write: float
    mtbf: float | None = None
    young: float | None = None
    daly: float | None = None
    lost: float | None = None


def checkpoint_size(parameters: float, bytes_each: float = BYTES_PER_PARAMETER) -> float:
    """Return the bytes of a checkpoint."""
    return parameters * bytes_each


def write_time(size: float, rate: float) -> float:
    """Return the seconds to write `size` bytes at `rate` bytes per second."""
    return size / rate


def young(write: float, mtbf: float) -> float:
    """Return Young's interval between checkpoints, in the unit of both: good where writing is short beside the MTBF."""
    return sqrt(2 * write * mtbf)


def daly(write: float, mtbf: float) -> float:
    """Return Daly's interval between the end of a checkpoint and the start of the next: also where writing is long."""
    if write >= 2 * mtbf:
        return mtbf
    part = write / (2 * mtbf)
    return young(write, mtbf) * (1 + sqrt(part) / 3 + part / 9) - write


def checkpoints(size: float, rate: float, node_mtbf: float | None = None, nodes: int = 1) -> Checkpoints:
    """Return how long a checkpoint takes and how often to write one; `node_mtbf` is of one of the `nodes`."""
    write = write_time(size, rate)
    if node_mtbf is None:
        return Checkpoints(size, write)
    mtbf = node_mtbf / nodes
    every = daly(write, mtbf)
    # the time to write one in each interval, and on a failure half of an interval with what was being written
    lost = write / (every + write) + (every + write) / (2 * mtbf)
    return Checkpoints(size, write, mtbf, young(write, mtbf), every, min(1.0, lost))
