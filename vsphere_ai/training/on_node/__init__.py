"""Programs that run on nodes: plain Python, sent as they are; `burn` needs PyTorch there, `rank` nothing else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def rank_file() -> str:
    """Return the program that starts a process with the variables and arguments of its rank."""
    return files(__package__).joinpath("rank.py").read_text("utf-8")


@cache
def burn_file() -> str:
    """Return the program that keeps a GPU busy and reports its losses."""
    return files(__package__).joinpath("burn.py").read_text("utf-8")
