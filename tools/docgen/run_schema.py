"""The JSON Schema of the lines of a run; ``python -m tools.docgen.run_schema`` prints it."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from vsphere_ai.planning.document import SCHEMA_VERSION
from vsphere_ai.report.run_json import EventLine, RunLine, SummaryLine


def run_schema() -> dict[str, Any]:
    """Return the schema every line meets; within a schema version, keys are only ever added."""
    lines: TypeAdapter[Any] = TypeAdapter(RunLine | EventLine | SummaryLine)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of vsphere-ai apply --format json, schema_version {SCHEMA_VERSION}",
        **lines.json_schema(),
    }


def main() -> None:
    """Print the schema."""
    print(json.dumps(run_schema(), indent=2))


if __name__ == "__main__":
    main()
