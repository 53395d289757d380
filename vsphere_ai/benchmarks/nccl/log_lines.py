"""Lines of a log as a program wrote them: without what keeps each line as a value, and without counters before it.

Container runtimes write a JSON object per line (Docker, json-file), Ansible a list of JSON texts (`stdout_lines`), Open
MPI an XML element (``--xml``); `grep -n`, `nl`, dmesg and job runners count lines or seconds before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from vsphere_ai.model.bounded import json_value

LINE_VALUES = 1000
"""Values of an object that keeps a line: text, stream, time, and labels (Docker's `labels` and `env` options)."""
FEWEST = 4
"""Lines of one shape from which on a number that grows from line to line is a counter, and no number of a process."""
LEAST_DISTINCT = 0.6
"""Share of the lines that have a number of their own: several lines may have the same second."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_LISTED = re.compile(r'\s*(".*"),?')
_XML = re.compile(r"^\s*<(stdout|stderr)([^>]*)>(.*?)(?:&#010;)?</\1>$")


def unwrapped(line: str) -> str:
    """Return the line that a JSON object, a JSON text or an XML element of a log holds; any other line as it is."""
    if line.startswith("{") and '"log"' in line:
        try:
            text = json_value(line, LINE_VALUES).get("log")
        except ValueError:
            return line
        return text.rstrip("\n") if isinstance(text, str) else line
    if text := _LISTED.fullmatch(line):
        try:
            listed = json_value(text[1], LINE_VALUES)
        except ValueError:
            return line
        return listed.rstrip("\n") if isinstance(listed, str) else line
    element = _XML.match(line)
    return f"<{element[1]}{element[2]}> {element[3]}" if element else line


class Counters:
    """Numbers of prefixes that count lines or time, by the shape of the prefix: what it is without its numbers."""

    def __init__(self, prefixes: Iterable[str] = ()) -> None:
        numbers: dict[str, list[tuple[float, ...]]] = {}
        for prefix in prefixes:
            shape, counts = _shape(prefix)
            numbers.setdefault(shape, []).append(tuple(map(float, counts)))
        self._places: Mapping[str, frozenset[int]] = {
            shape: places for shape, seen in numbers.items() if (places := _growing(seen))
        }

    def without(self, prefix: str) -> str:
        """Return a prefix without its counters."""
        if not self._places:
            return prefix
        shape, counts = _shape(prefix)
        places = self._places.get(shape)
        if places is None:
            return prefix
        kept = iter("" if place in places else number for place, number in enumerate(counts))
        return " ".join(_NUMBER.sub(lambda _: next(kept), prefix).split())


def _shape(prefix: str) -> tuple[str, list[str]]:
    return _NUMBER.sub("0", prefix), _NUMBER.findall(prefix)


def _growing(seen: Sequence[tuple[float, ...]]) -> frozenset[int]:
    """Return the places of numbers that grow from line to line."""
    if len(seen) < FEWEST:
        return frozenset()
    columns = list(zip(*seen, strict=True))
    return frozenset(
        place
        for place, column in enumerate(columns)
        if all(one <= other for one, other in pairwise(column)) and len(set(column)) >= LEAST_DISTINCT * len(column)
    )
