"""Events that the functions of `app` emit while they work: typed values for a caller to show, log or count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """What is being done now, in a few words; empty when it has ended."""

    text: str


@dataclass(frozen=True)
class Remark:
    """A sentence for the operator. `rule` is the id of what it is about: the text may change, the id does not."""

    rule: str
    text: str


@dataclass(frozen=True)
class Waiting:
    """A sign of life while something long is waited for, every few seconds."""

    text: str


Event = Status | Remark | Waiting
Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing with an event: for a caller who does not listen."""
