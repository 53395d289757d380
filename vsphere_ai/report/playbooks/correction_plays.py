"""Plays of corrections, as text: a play per value, for all targets that it corrects alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.yaml_text import flow
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import safe
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.playbooks.play_patterns import Patterns
from vsphere_ai.report.playbooks.playbook_text import play_heads
from vsphere_ai.resources.corrections import PLACEHOLDERS, plays_of

Stated = tuple[str, str, tuple[str, ...]]
"""The kind of a target, the comment above its play, and the lines of the play."""


def play_lines(estate: Estate, corrections: Iterable[Correction], own: Mapping[Target, str] = {}) -> Iterator[str]:
    """Yield the lines of the plays that bring corrections about; below a comment where something is to be chosen.

    Targets in `own` have a play for each alone, below the comment that they have there.
    """
    patterns = Patterns(estate)
    for (_, comment, lines), targets in grouped(_plays(corrections, own)).items():
        to_choose = [word for word in PLACEHOLDERS if any(word in line for line in lines)]
        if comment:
            yield f"# {safe(comment)}"
        elif to_choose:
            yield f"# write your own in place of {', '.join(to_choose)}; until then this playbook is refused"
        for head in play_heads(patterns, targets):
            yield from (*head, *(f"  {line}" for line in lines))


def _plays(corrections: Iterable[Correction], own: Mapping[Target, str]) -> Iterator[tuple[Stated, Target]]:
    """Yield what a play states, with the kind of its targets and its comment, and one of its targets."""
    for target, kinds in plays_of(corrections).items():
        lines = tuple(f"{kind}: {flow(value)}" for kind, value in sorted(kinds.items()))
        yield (target.kind, own.get(target, ""), lines), target
