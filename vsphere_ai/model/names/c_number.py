"""Numbers in files that programs in C read with strtol and base 0."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)", re.ASCII)


def c_number(text: str) -> tuple[int, str] | None:
    """Return the number that a text begins with and what follows it, as strtol with base 0; None without digits.

    Blanks may stand before it; ``0x`` begins a hexadecimal number, ``0`` an octal one (ISO C, 7.22.1.4).
    """
    match = _NUMBER.match(text)
    if match is None:
        return None
    digits = match[2].lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    return int(digits, base) * (-1 if match[1] == "-" else 1), text[match.end() :]
