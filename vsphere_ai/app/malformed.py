"""Values that are not as vSphere defines them: reported, and left out of a result."""

from __future__ import annotations

from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.model.facts import Estate
from vsphere_ai.planning.needed_facts import left_out


def report_malformed(estate: Estate, emit: Emit) -> None:
    """Emit a remark per value that was left out."""
    for line in left_out(estate):
        emit(Remark("vcenter.malformed", f"note: {line}"))
