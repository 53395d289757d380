"""Corrections as plays: each kind says how a play states what it can set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.names.yaml_text import flow
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.state import Target
from vsphere_ai.resources import kinds

ADDRESS, TIME_SERVER, LOG_HOST = "CHOOSE AN ADDRESS", "CHOOSE A TIME SERVER", "CHOOSE A LOG HOST"
EXCEPTION_USER = "CHOOSE AN EXCEPTION USER"
"""Placeholders in a play for what the operator has to write; no playbook with one is accepted."""
PLACEHOLDERS = (ADDRESS, TIME_SERVER, LOG_HOST, EXCEPTION_USER)
Plays = Mapping[Target, Mapping[str, Plain]]
"""Target -> name of a kind -> its value in a play for the target."""


class Corrects:
    """A kind whose states bring corrections about."""

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """Return its value in a play for one target that brings about those of the corrections that are its own.

        Empty: none of them is.
        """
        raise NotImplementedError


class PlayLine(NamedTuple):
    """A line of a play: the name of a kind, and its value."""

    kind: str
    value: Plain


def plays_of(corrections: Iterable[Correction]) -> Plays:
    """Return the plays that bring corrections about: datacenters first, which is what hosts share, then the others."""
    by_target: dict[Target, list[Correction]] = {}
    for correction in corrections:
        by_target.setdefault(correction.target, []).append(correction)
    return {target: dict(_lines(by_target[target])) for target in sorted(by_target)}


def text_of(*corrections: Correction) -> str:
    """Return what a play for one target says to bring corrections about, such as ``hardware: {firmware: efi}``."""
    return ", ".join(f"{line.kind}: {flow(line.value)}" for line in _lines(corrections))


def line_for(correction: Correction) -> PlayLine:
    """Return the line of a play that brings a correction about; `LookupError` where no kind does."""
    line = next(iter(_lines((correction,))), None)
    if line is None:
        raise LookupError(f"no resource type brings about a {type(correction).__name__}")
    return line


def _lines(corrections: Sequence[Correction]) -> Iterable[PlayLine]:
    for name, kind in kinds().items():
        if issubclass(kind, Corrects) and (value := kind.correcting(corrections)):
            yield PlayLine(name, value)
