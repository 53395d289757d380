"""Host lists of Slurm: names with ranges in brackets, such as ``gpu[01-04,7]``.

Source: SchedMD/slurm src/common/hostlist.c; each form was tried with ``scontrol show hostnames`` of Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_IN_RANGE = 65_536
"""Names of one range, MAX_RANGE of src/common/hostlist.c."""
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_TEXT = re.compile(r"[\w./:%@+-]*", re.ASCII)


def expanded(text: str) -> list[str]:
    """Return the names of a host list: groups may stand anywhere in a name; `ValueError` for one that is none."""
    names: list[str] = []
    for part in filter(None, re.split(r",(?![^\[]*\])", text)):  # empty parts are passed over
        rest = _GROUP.sub("", part)
        if not _TEXT.fullmatch(rest):
            raise ValueError(f"'{part}' is no name of a node")
        made = [""]
        at = 0
        for group in _GROUP.finditer(part):
            numbers = list(_numbers(group[1]))
            if len(made) * len(numbers) > MOST_IN_RANGE:
                raise ValueError(f"'{part}' is no list of {MOST_IN_RANGE} names or fewer")
            made = [f"{name}{part[at : group.start()]}{number}" for name in made for number in numbers]
            at = group.end()
        names += [f"{name}{part[at:]}" for name in made]
    if not names:
        raise ValueError(f"'{text}' names no node")
    return names


def _numbers(inner: str) -> Iterator[str]:
    for piece in inner.split(","):
        match = _RANGE.fullmatch(piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first or last - first >= MOST_IN_RANGE:
            raise ValueError(f"'{piece}' is no range")
        yield from (f"{number:0{len(match[1])}d}" for number in range(first, last + 1))
