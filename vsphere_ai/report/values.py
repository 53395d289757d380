"""Values as an operator reads them; text from outside is made harmless for a terminal."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Any


def shown(value: Any) -> str:
    """Return a value in words: nothing is ``none``, several equal things are counted."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        count = Counter(str(v) for v in value)
        return safe(", ".join(v if n == 1 else f"{v} ×{n}" for v, n in count.items()))
    return safe(str(value)) or "none"


def safe(text: str) -> str:
    """Replace control, bidirectional and other invisible characters: names come from elsewhere."""
    return "".join(
        c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )
