"""JSON documents of the commands: indented, with the schema version first."""

from __future__ import annotations

from typing import Any

from vsphere_ai.planning.document import SCHEMA_VERSION, dumps, plain


def json_text(**fields: Any) -> str:
    """Return a document of these fields; dataclasses and models become plain values."""
    return dumps({"schema_version": SCHEMA_VERSION, **{name: plain(value) for name, value in fields.items()}})
