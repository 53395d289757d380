"""Names with a range, which stand for several."""

from __future__ import annotations

import re
from collections.abc import Iterator

RANGE = re.compile(r"\[([0-9]{1,9}):([0-9]{1,9})\]")


def expand(name: str) -> Iterator[str]:
    """Yield the names a name with a ``[01:16]`` range stands for; leading zeros set the width."""
    found = RANGE.search(name)
    if found is None:
        yield name
        return
    first, last = found.groups()
    for number in range(int(first), int(last) + 1):
        yield f"{name[: found.start()]}{number:0{len(first)}d}{name[found.end() :]}"
