"""Exports for Kubernetes: findings about them as text, and all of an export as JSON values."""

from __future__ import annotations

import textwrap

from pydantic import JsonValue

from vsphere_ai.kubernetes.export import ManifestExport
from vsphere_ai.model.text import counted, safe


def findings_text(export: ManifestExport, width: int) -> list[str]:
    """Return lines: each finding with its rule, what it is about, and what helps; and that nothing is written."""
    lines: list[str] = []
    for finding in export.findings:
        about = f"  {safe(finding.about)}" if finding.about else ""
        lines.append(f"{finding.severity}  {finding.rule}{about}")
        for words in (finding.message, finding.help):
            lines += textwrap.wrap(safe(words), width, initial_indent="  ", subsequent_indent="  ")
    errors = sum(finding.severity == "error" for finding in export.findings)
    return [*lines, f"{counted(errors, 'error')}: nothing is written"] if errors else lines


def export_document(export: ManifestExport) -> dict[str, JsonValue]:
    """Return the objects and the findings as JSON values."""
    return {
        "objects": [dict(each.data) for each in export.objects],
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity,
                "about": finding.about,
                "message": finding.message,
                "help": finding.help,
            }
            for finding in export.findings
        ],
    }
