"""Faults of Kubernetes manifests as text and as JSON values."""

from __future__ import annotations

from collections import Counter

from pydantic import JsonValue

from vsphere_ai.kubernetes.check import ManifestCheck
from vsphere_ai.kubernetes.objects import Manifest
from vsphere_ai.model.text import safe


def manifest_text(checked: ManifestCheck) -> str:
    """Return every fault with its place, rule and excerpt, and what was looked at."""
    lines: list[str] = []
    for fault in checked.faults:
        lines.append(f"{safe(str(fault.mark))}  {fault.severity}  {fault.rule}  {safe(fault.object)}")
        lines.append(f"  {safe(fault.message)}")
        lines += [f"  {safe(line)}" for line in fault.excerpt.splitlines()]
        lines += [f"  {safe(line)}" for line in fault.help.splitlines()]
    kinds = Counter(each.kind for each in checked.objects)
    found = ", ".join(f"{count} {safe(kind)}" for kind, count in sorted(kinds.items())) or "no objects of these kinds"
    lines.append(f"checked: {found}")
    if checked.unjudged:
        without_rules = Counter(each.kind for each in checked.unjudged)
        named = ", ".join(f"{count} {safe(kind)}" for kind, count in sorted(without_rules.items()))
        lines.append(f"not judged: {named}, for which there are no rules")
    if checked.others:
        lines.append(f"not checked: {_count(checked.others, 'object')} of other API groups")
    severities = Counter(fault.severity for fault in checked.faults)
    counts = [_count(severities[name], name) for name in ("error", "warning") if severities[name]]
    lines.append(", ".join(counts) or ("no faults" if checked.objects else "nothing was checked"))
    return "\n".join(lines)


def manifest_document(checked: ManifestCheck) -> dict[str, JsonValue]:
    """Return the same as JSON values."""
    return {
        "objects": [_named(each) for each in checked.objects],
        "not_judged": [_named(each) for each in checked.unjudged],
        "not_checked": checked.others,
        "faults": [
            {
                "file": fault.mark.file,
                "line": fault.mark.line,
                "column": fault.mark.column,
                "rule": fault.rule,
                "severity": fault.severity,
                "object": fault.object,
                "message": fault.message,
                "help": fault.help,
            }
            for fault in checked.faults
        ],
    }


def _named(manifest: Manifest) -> JsonValue:
    return {"kind": manifest.kind, "name": manifest.name, "namespace": manifest.namespace}


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
