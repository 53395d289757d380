"""Names and addresses of servers that hosts use, such as time servers and log hosts."""

from __future__ import annotations

import ipaddress
import re

_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")


def address_or_name(text: str) -> str | None:
    """Return an IP address in its usual spelling, or a name as it is written; None for what is neither."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text if _NAME.fullmatch(text) and not text.replace(".", "").isdecimal() else None
