"""Programs that run on nodes: plain Python with its standard library, sent as they are."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def rank_file() -> str:
    """Return the program that starts a process with the variables and arguments of its rank."""
    return files(__package__).joinpath("rank.py").read_text("utf-8")
