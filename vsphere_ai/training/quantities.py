"""Sizes, rates, times and counts as operators write them: ``2.3TiB``, ``19.2GB/s``, ``400h``, ``175e9``, ``7B``.

Decimal units are powers of 1000 and binary ones of 1024; a small ``b`` is a bit. Nothing is without a unit but counts.
"""

from __future__ import annotations

import math
import re

_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_SIZE = re.compile(rf"{_NUMBER}\s*([kMGTP]?)(i?)([Bb])(/s)?")
_COUNT = re.compile(rf"{_NUMBER}\s*([KMBT]?)")
_TIME = re.compile(rf"{_NUMBER}\s*(s|min|h|d)")
_PREFIXES = ("", "k", "M", "G", "T", "P")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def size(text: str) -> float:
    """Return the bytes of a size; `ValueError` for anything else."""
    return _bytes(text, rate=False, example="2.3TiB or 80GB")


def rate(text: str) -> float:
    """Return the bytes per second of a rate; `ValueError` for anything else."""
    return _bytes(text, rate=True, example="19.2GB/s or 200Gb/s")


def count(text: str) -> float:
    """Return a count, such as parameters: ``175e9``, ``175B`` (10^9), ``350M``; `ValueError` for anything else."""
    found = _COUNT.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise ValueError(f"'{text}' is no count\nwrite e.g. 175e9, 175B or 350M")
    return float(found[1]) * float({"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[found[2]])


def seconds(text: str) -> float:
    """Return the seconds of a time; `ValueError` for anything else."""
    found = _TIME.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise ValueError(f"'{text}' is no time\nwrite e.g. 90s, 30min, 400h or 30d")
    return float(found[1]) * _SECONDS[found[2]]


def _bytes(text: str, *, rate: bool, example: str) -> float:
    found = _SIZE.fullmatch(text.strip())
    if found is None or bool(found[5]) != rate or not float(found[1]) or (found[3] and not found[2]):
        raise ValueError(f"'{text}' is no {'rate' if rate else 'size'}\nwrite e.g. {example}")
    number, prefix, binary, unit, _ = found.groups()
    factor = math.pow(1024 if binary else 1000, _PREFIXES.index(prefix))
    return float(number) * factor / (8 if unit == "b" else 1)
