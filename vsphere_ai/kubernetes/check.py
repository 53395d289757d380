"""Manifests that are checked: the rules of each project for its own objects, in one list by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from vsphere_ai.errors import Mark
from vsphere_ai.kubernetes import network_operator_rules, spiderpool_rules
from vsphere_ai.kubernetes.kinds.spiderpool import GROUP as SPIDERPOOL
from vsphere_ai.kubernetes.objects import Manifest, ObjectFinding, manifests
from vsphere_ai.language.yaml_files.document import Document
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import counted, safe

Check = Callable[[Sequence[Manifest]], Iterator[ObjectFinding]]
MAX_VALUES = 200_000
"""Values in the documents of one reading."""
MOST_KINDS = 12
"""Kinds that a message names."""
FAMILIES: Mapping[str, tuple[tuple[str, ...], Check]] = {
    "spiderpool": ((SPIDERPOOL,), spiderpool_rules.check),
    "network-operator": (tuple(network_operator_rules.GROUPS), network_operator_rules.check),
}
"""Name on the command line -> API groups, and the check of their objects."""


@dataclass(frozen=True)
class ManifestCheck:
    """What was looked at, and the findings in the order of their places."""

    objects: tuple[Manifest, ...]
    others: tuple[Manifest, ...]
    """Objects of other API groups, which were not looked at."""
    findings: tuple[ObjectFinding, ...]
    unjudged: tuple[Manifest, ...] = ()
    """Objects of kinds that exist and have no rules here."""

    @property
    def summary(self) -> Iterator[Finding]:
        """What was checked, and what was not; ``unknown`` where that is all."""
        if self.objects:
            yield Finding(None, "manifest.checked", "pass", f"checked: {_kinds(self.objects)}")
        else:
            yield Finding(None, "manifest.checked", "unknown", "there are no objects of these kinds")
        if self.unjudged:
            message = f"not looked at: {_kinds(self.unjudged)}, for which there are no rules"
            yield Finding(None, "manifest.not-judged", "info", message)
        if self.others:
            message = f"not looked at: {_kinds(self.others)}, of other API groups"
            yield Finding(None, "manifest.not-checked", "info", message)


def check_documents(documents: Sequence[Document], families: Sequence[str]) -> ManifestCheck:
    """Check the objects of some families (see `FAMILIES`) in documents of manifests."""
    found = list(manifests(documents))
    objects = [each for each in found if isinstance(each, Manifest)]
    groups = {group for name in families for group in FAMILIES[name][0]}
    own = tuple(each for each in objects if each.group in groups)
    findings = {each for each in found if isinstance(each, Finding)}
    findings.update(filter(None, (_misspelt(each, groups) for each in objects)))
    for name in families:
        findings.update(FAMILIES[name][1](own))
    unjudged = tuple(
        each for each in own if any(rules.is_not_judged(each) for rules in (network_operator_rules, spiderpool_rules))
    )
    looked_at = tuple(each for each in own if each not in unjudged)
    others = tuple(each for each in objects if each.group not in groups)
    return ManifestCheck(looked_at, others, tuple(sorted(findings, key=_place)), unjudged)


def _kinds(objects: Sequence[Manifest]) -> str:
    kinds = sorted(Counter(safe(each.kind)[:80] or "object without a kind" for each in objects).items())
    more = f" and {counted(len(kinds) - MOST_KINDS, 'other kind')}" if len(kinds) > MOST_KINDS else ""
    return ", ".join(f"{count} {kind}" for kind, count in kinds[:MOST_KINDS]) + more


def _place(finding: ObjectFinding) -> tuple[Mark, str, str, str]:
    return finding.target.mark or Mark("", 0, 0), finding.rule, finding.verdict, finding.message


def _misspelt(manifest: Manifest, groups: set[str]) -> ObjectFinding | None:
    """Return what is wrong with an object whose group is nearly one of those: nothing would look at it."""
    near = get_close_matches(manifest.group, groups, n=1, cutoff=0.85)
    if not near or manifest.group in groups:
        return None
    message = f"there is no API group '{manifest.group}'"
    return manifest.fault(("apiVersion",), "manifest.group", message, f"did you mean '{near[0]}'?")
