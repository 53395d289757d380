"""Rules of compatibility and of the five pillars, explained by their own texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.compat import assessment, gate
from vsphere_ai.compat.base import CompatRule
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.records.explained import ExplanationPart, NameExplained
from vsphere_ai.resources import kinds

UNREADABLE = "a property it reads is not shown"


def verdicts_of(rule: CompatRule) -> Mapping[Verdict, str]:
    """Return when a compatibility rule gives each verdict, with unknown where a property cannot be read."""
    found = dict(rule.verdicts)
    found["unknown"] = "; ".join(filter(None, (found.get("unknown"), UNREADABLE if rule.properties else "")))
    return {v: when + " (refuses a plan)" * (v == "unknown" and rule.blocks_unknown) for v, when in found.items()}


def concerned(rule: CompatRule) -> str:
    """Return the kinds that make a compatibility rule relevant."""
    touching = sorted(name for name, kind in kinds().items() if kind.traits.topics & rule.about)
    return ", ".join(f"`{name}`" for name in touching) or "every playbook"


def explained() -> Iterator[NameExplained]:
    """Yield every rule of `check` and of `assess`."""
    for rule in gate.rules():
        reads = tuple((managed, ", ".join(paths)) for managed, paths in rule.properties.items())
        verdicts = tuple((v, when) for v, when in verdicts_of(rule).items() if when)
        parts = (
            ExplanationPart("Verdicts", verdicts),
            ExplanationPart("Reads", reads),
            ExplanationPart("", (("relevant for", concerned(rule)),)),
        )
        text = (" ".join(rule.doc.split()),)
        page = "docs/compatibility.md"
        yield NameExplained(rule.id, "rule", rule.title, text, tuple(p for p in parts if p.pairs), rule.source, page)
    for pillar in assessment.rules():
        reads = tuple((managed, ", ".join(paths)) for managed, paths in pillar.reads.items())
        more = (("uses", ", ".join(pillar.uses)), ("not corrected by a playbook", pillar.by_hand))
        parts = (
            ExplanationPart("Verdicts", tuple(pillar.verdicts.items())),
            ExplanationPart("Reads", reads),
            ExplanationPart("", tuple(pair for pair in more if pair[1])),
        )
        text = (pillar.question or " ".join(pillar.doc.split()),)
        title, page = f"{pillar.title} ({pillar.pillar})", "docs/assessment.md"
        yield NameExplained(pillar.id, "rule", title, text, tuple(p for p in parts if p.pairs), pillar.source, page)
