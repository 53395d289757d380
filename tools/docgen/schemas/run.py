"""JSON Schema of the lines of a run."""

from __future__ import annotations

from tools.docgen.schemas.draft7 import DRAFT, Schema, schema_of
from vsphere_ai.planning.document import SCHEMA_VERSION
from vsphere_ai.report.plans.run_json import EventLine, RunLine, SummaryLine


def run_schema() -> Schema:
    """Return the schema every line meets; within a schema version, keys are only ever added."""
    definitions: dict[str, Schema] = {}
    lines = schema_of(RunLine | EventLine | SummaryLine, definitions)
    title = f"One line of vsphere-ai apply -o json, schema_version {SCHEMA_VERSION}"
    return {"$schema": DRAFT, "title": title, **lines, "definitions": definitions}
