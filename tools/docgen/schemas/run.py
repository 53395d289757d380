"""JSON Schema of the lines of a run."""

from __future__ import annotations

from tools.docgen.schemas.draft7 import DRAFT, Schema, schema_of
from vsphere_ai.documents.run_lines import EventLine, RunLine, SummaryLine
from vsphere_ai.planning.document import SCHEMA_VERSION


def run_schema() -> Schema:
    """Return the schema every line meets; within a schema version, keys are only ever added."""
    definitions: dict[str, Schema] = {}
    lines = schema_of(RunLine | EventLine | SummaryLine, definitions, mode="serialization")
    title = f"One line of vsphere-ai apply -o json, schema_version {SCHEMA_VERSION}"
    return {"$schema": DRAFT, "title": title, **lines, "definitions": definitions}
