"""Writes every JSON Schema: ``python -m tools.docgen.schemas docs/schemas``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tools.docgen.schemas.documents import baseline_schema, job_schema, printed_schema, printed_schemas, profile_schema
from tools.docgen.schemas.inventory import inventory_schema
from tools.docgen.schemas.playbook import playbook_schema
from tools.docgen.schemas.variables import values_schema

SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "playbook": playbook_schema,
    "inventory": inventory_schema,
    "values": values_schema,
    "job": job_schema,
    "profile": profile_schema,
    "baseline": baseline_schema,
    **{name: partial(printed_schema, name) for name in printed_schemas()},
}


def text_of(name: str) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the schemas into the given folder."""
    folder = Path(arguments[0] if arguments else "docs/schemas")
    for path in folder.glob("*.schema.json"):
        path.unlink()
    for name in SCHEMAS:
        (folder / f"{name}.schema.json").write_text(text_of(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
