"""Echo of a call in its fault: servers, and plug-ins behind them, quote the values that they refuse as they like."""

from __future__ import annotations

import base64
import json
import re
import textwrap
from html import unescape
from urllib.parse import quote

SHORTEST = 6
"""Characters of the shortest value that is quoted."""
LINE = 76
"""Characters of a line of base64 in a mail (RFC 2045)."""
CUT = 60
_VALUE = re.compile(rb">([^<>]+)</")


def echo(body: bytes) -> str:
    """Return the values of a request, each as it is, encoded, escaped, wrapped, cut and packed twice."""
    values = dict.fromkeys(unescape(found.decode("utf-8", "replace")) for found in _VALUE.findall(body))
    return "; ".join(_spellings(value) for value in values if len(value) >= SHORTEST)


def _spellings(value: str) -> str:
    raw = value.encode()
    packed = base64.b64encode(raw).decode()
    spelt = {
        "value": json.dumps(value, ensure_ascii=False),
        "cut": f"'{value[:CUT]}...'",
        "end": f"'...{value[-CUT:]}'",
        "wrapped": "\n".join(textwrap.wrap(value, LINE, break_on_hyphens=False)),
        "base64": "\n".join(textwrap.wrap(packed, LINE)),
        "hex": raw.hex(),
        "url": f"https://vcenter/spec?value={quote(value, safe='')}&packed={quote(packed, safe='')}",
        "bytes": _bytes(value),
    }
    return ", ".join(f"{name} {text}" for name, text in spelt.items())


def _bytes(value: str) -> str:
    """Return the bytes that a value in base64 holds, in hexadecimal; of another value none."""
    try:
        return base64.b64decode(value, validate=True).hex()
    except ValueError:
        return "none"
