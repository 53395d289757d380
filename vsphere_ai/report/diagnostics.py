"""Errors in input files as text: place, excerpt, and what would work."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.errors import Diagnostic
from vsphere_ai.model.text import counted, safe


def diagnostics_text(diagnostics: Sequence[Diagnostic], compared_with: str = "") -> str:
    """Return every error with its place and its excerpt, and a count; with the vCenter that was read, if any."""
    lines: list[str] = []
    for found in diagnostics:
        lines.append(f"{safe(str(found.mark))}  error  {safe(found.message)}")
        lines += [f"  {safe(line)}" for line in found.excerpt.splitlines()]
        lines += [f"  {safe(line)}" for line in found.help.splitlines()]
    where = f" on {safe(compared_with)}" if compared_with else ""
    lines.append(f"{counted(len(diagnostics), 'error')}{where} — nothing was changed")
    return "\n".join(lines)
