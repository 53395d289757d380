"""Playbook of what an assessment found: the corrections of all rules that a playbook can bring about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import safe
from vsphere_ai.model.vm_sets import member_of
from vsphere_ai.report.playbooks.correction_plays import play_lines


@dataclass(frozen=True)
class AssessmentFix:
    """The text of a playbook, the rules that it corrects, and those that warn or fail and that it does not.

    `text` is empty where no rule is corrected.
    """

    text: str
    corrected: tuple[str, ...]
    left: tuple[str, ...]


def fix_of(estate: Estate, findings: Sequence[Finding], by_hand: Mapping[str, str]) -> AssessmentFix:
    """Return the playbook of findings that warn or fail; `by_hand` says why a rule has no correction.

    What is to be of VMs that a playbook makes belongs into that playbook, and is left to it.
    """
    bad = [f for f in findings if f.verdict in ("warn", "fail")]
    fixable: list[tuple[str, Correction]] = [
        (f.rule, c) for f in bad for c in f.corrections if not _is_to_be_made(estate, c)
    ]
    merged: dict[object, Correction] = {}
    for _, correction in fixable:
        before = merged.get(correction.place)
        merged[correction.place] = before.merged(correction) if before else correction
    corrected = tuple(sorted({rule for rule, _ in fixable}))
    left = tuple(sorted({f.rule for f in bad} - {*corrected}))
    lines = [f"# corrects {rule}" for rule in corrected]
    lines += [f"# left: {rule}: {safe(by_hand.get(rule) or 'see its remedy')}" for rule in left]
    lines += play_lines(estate, merged.values())
    return AssessmentFix("\n".join(lines) + "\n" if corrected else "", corrected, left)


def _is_to_be_made(estate: Estate, correction: Correction) -> bool:
    member = member_of(estate, correction.target.ref)
    return member is not None and not member.exists
