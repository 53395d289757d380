"""Requirements of admission, explained by their own texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.admission.admit import every_requirement
from vsphere_ai.admission.base import Occasion, Requirement
from vsphere_ai.admission.oracles import DIFFERENCES, ORACLES
from vsphere_ai.model.records.explained import ExplanationPart, NameExplained

OCCASIONS: Mapping[Occasion, str] = {
    "clone": "when it is cloned there",
    "power_on": "when it powers on",
    "power_cycle": "when it is powered off and on again",
    "vmotion": "when a run moves it while it runs",
    "evacuate": "when DRS moves it for maintenance mode",
    "cold_move": "when it moves while it is off",
    "reconfigure": "when it is changed while it runs",
    "ha_restart": "when vSphere HA restarts it",
}


def occasions_of(each: Requirement) -> str:
    """Return for which occasions a requirement is asked, as words."""
    return ", ".join(words for occasion, words in OCCASIONS.items() if occasion in each.occasions)


def explained() -> Iterator[NameExplained]:
    """Yield every requirement, and the rules about vCenter's own answers beside them."""
    for each in every_requirement():
        reads = tuple((managed, ", ".join(paths)) for managed, paths in each.reads.items())
        about = (("asked", occasions_of(each)), ("faults of vCenter", ", ".join(each.faults)))
        parts = (ExplanationPart("", tuple(p for p in about if p[1])), ExplanationPart("Reads", reads))
        text = (" ".join(each.doc.split()),)
        shown = tuple(p for p in parts if p.pairs)
        yield NameExplained(each.id, "rule", each.title, text, shown, each.source, "docs/admission.md")
    asked = tuple((oracle.name, oracle.asked) for oracle in ORACLES)
    for rule in DIFFERENCES:
        shown = (
            ExplanationPart("", (("verdict", rule.verdict), ("what to do", rule.help))),
            ExplanationPart("Checks", asked),
        )
        source = "; ".join(dict.fromkeys(oracle.source for oracle in ORACLES))
        yield NameExplained(rule.id, "rule", rule.title, (rule.doc,), shown, source, "docs/admission.md")
