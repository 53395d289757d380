"""Values as an operator reads them; text from outside is made harmless for a terminal."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

FEW = 4
"""Names that a sentence lists at most."""


def shown(value: object) -> str:
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
    return _UNUSUAL.sub(lambda c: "\N{REPLACEMENT CHARACTER}" if _invisible(c[0]) else c[0], text)


def plain(text: str) -> str:
    """Return text of a guest without escape sequences; other control characters are replaced, lines are kept."""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(safe(line.replace("\t", "    ")) for line in lines)


def counted(number: int, noun: str) -> str:
    """Return a number of things: ``1 host``, ``2 hosts``, ``2 processes``."""
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{number} {noun}{'' if number == 1 else ending}"


def short_list(names: Sequence[str]) -> str:
    """Return names with commas, the first few only when they are many."""
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{', '.join(names[: FEW - 1])} and {len(names) - FEW + 1} others"


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def cut(text: str, width: int) -> str:
    """Return a text that takes no more than so many columns; ``…`` shows where it was cut."""
    if columns(text) <= width:
        return text
    kept, left = "", width - 1
    for character in text:
        left -= _columns(character)
        if left < 0:
            break
        kept += character
    return f"{kept}…" if width > 0 else ""


def filled(text: str, width: int) -> str:
    """Return a text of exactly so many columns, cut or followed by spaces."""
    text = cut(text, width)
    return text + " " * (width - columns(text))


def duration(seconds: float) -> str:
    """Return seconds as ``45s``, ``4m10s`` or ``1h05m``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# ECMA-48: control sequences, operating system commands up to their end, and other escapes
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_ -/]+[0-~]?)")

# only these are looked up one by one: a plan has a million characters
_UNUSUAL = re.compile(r"[^ -~]")

# what no text of ours holds: C1 controls, escape sequences other than CSI, and signs that reorder or hide what follows
_NEVER_OURS = re.compile("[\x80-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\x1b(?!\\[)")


def tame(text: str) -> str:
    """Take from a whole output, its own colours and cursor moves included, what only a name from outside can hold.

    The last net below `safe`, which is for each value: what got here unseen must still not command a terminal.
    """
    return _NEVER_OURS.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str, *, yaml: bool = False) -> str:
    """Write the invisible characters of a JSON text (or a YAML one) as escapes: its values stay what they are."""
    return _UNUSUAL.sub(lambda c: _escape(c[0], yaml=yaml) if c[0] != "\n" and _invisible(c[0]) else c[0], text)


def _escape(character: str, *, yaml: bool) -> str:
    if yaml and ord(character) > 0xFFFF:
        return f"\\U{ord(character):08x}"
    return json.dumps(character)[1:-1]


def _invisible(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
