"""Explanation of a name: what the documentation says of a kind, key, rule, check, board or XID. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Group = Literal[
    "topic", "command", "kind", "key", "rule", "check", "board", "XID", "MIG profile", "vGPU type", "variable",
    "lab defect",
]  # fmt: skip
GROUPS: tuple[Group, ...] = (
    "topic", "command", "kind", "key", "rule", "check", "board", "XID", "MIG profile", "vGPU type", "variable",
    "lab defect",
)  # fmt: skip
"""Groups in the order in which they are listed."""


@dataclass(frozen=True)
class ExplanationPart:
    """A part of an explanation: pairs of a label and its text, or lines that are shown as they are (`code`)."""

    title: str
    pairs: tuple[tuple[str, str], ...] = ()
    code: str = ""


@dataclass(frozen=True)
class NameExplained:
    """What is known of a name: paragraphs, parts, the public source, and the page of the documentation."""

    name: str
    group: Group
    title: str
    text: tuple[str, ...] = ()
    parts: tuple[ExplanationPart, ...] = ()
    source: str = ""
    page: str = ""


@dataclass(frozen=True)
class Listed:
    """A name that can be explained, with its group and its title."""

    name: str
    group: Group
    title: str
