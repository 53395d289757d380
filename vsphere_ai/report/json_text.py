"""JSON documents of the commands: indented, or one line each, with the schema version first."""

from __future__ import annotations

import json

from vsphere_ai.model.text import escaped
from vsphere_ai.planning.document import SCHEMA_VERSION, dumps, plain


def json_text(**fields: object) -> str:
    """Return a document of these fields; dataclasses and models become plain values."""
    return dumps({"schema_version": SCHEMA_VERSION, **{name: plain(value) for name, value in fields.items()}})


def json_line(**fields: object) -> str:
    """Return a document of these fields as one line, for a stream of them."""
    document = {"schema_version": SCHEMA_VERSION, **{name: plain(value) for name, value in fields.items()}}
    return escaped(json.dumps(document, ensure_ascii=False))
