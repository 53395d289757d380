"""Documents of which reports are written: found in a file by their keys, and read by the models that print them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from vsphere_ai.documents.capacity import CapacityDocument
from vsphere_ai.documents.findings import AnyFindingsDocument
from vsphere_ai.documents.fleets import FleetPlanDocument
from vsphere_ai.documents.stored import read_document
from vsphere_ai.documents.trace import TraceDocument

ReportedDocument = AnyFindingsDocument | TraceDocument | CapacityDocument | FleetPlanDocument
REPORTED: Mapping[str, tuple[type[ReportedDocument], frozenset[str]]] = {
    "check": (AnyFindingsDocument, frozenset(("verdict", "findings"))),
    "rdma trace": (TraceDocument, frozenset(("vcenter", "traces", "pairs", "playbook"))),
    "capacity": (CapacityDocument, frozenset(("vcenter", "hosts"))),
    "fleet plan": (FleetPlanDocument, frozenset(("fleet_version", "shards", "totals"))),
}
"""Command -> the model of what it prints, and the keys by which that is known."""


def reported_document(values: JsonValue, content: bytes, file: str) -> ReportedDocument | None:
    """Return the document that a file has, of its values and their text; None where it is none of `REPORTED`.

    `UnreadableDocument` where it lacks something, or holds something else than its command prints.
    """
    if not isinstance(values, dict) or "schema_version" not in values:
        return None
    model = next((model for model, keys in REPORTED.values() if keys <= values.keys()), None)
    return read_document(model, content, file, strict=True) if model else None
