"""JSON of what commands print: an indented document, or one on a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vsphere_ai.model.text import escaped
from vsphere_ai.planning.document import dumps

if TYPE_CHECKING:
    from vsphere_ai.documents.printed import PrintedDocument, PrintedLine


def json_text(document: PrintedDocument) -> str:
    """Return a document as indented text."""
    return dumps(document.as_json())


def json_line(document: PrintedLine) -> str:
    """Return a document as one line, for a stream of them."""
    return escaped(json.dumps(document.as_json(), ensure_ascii=False))
