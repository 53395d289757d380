"""Folding: what many targets have in common is said once, with their names as ranges, a count and one sample."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from vsphere_ai.model.finding import Subject
from vsphere_ai.model.names.name_ranges import fold, listed, quoted
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import columns, counted, safe
from vsphere_ai.report.layout import grouped

T = TypeVar("T")
FEW = 6
"""Values of one shape that are still shown each by itself."""
NAMED = 12
"""How many terms a line has that is not about each of its targets."""
Named = Target | Subject
NOUNS = {"datacenter": "datacenter", "host": "host", "vm": "VM"}
Line = tuple[str, int]
"""A line as it may come from outside, and the indent of what does not fit; 0: it is never wrapped."""
_WORD = re.compile(r"[^\s,;:()\[\]]+")


@dataclass(frozen=True)
class Alike(Generic[T]):
    """Targets of which one thing is said. With a `sample` it is said of that one, and the others differ in details."""

    targets: Sequence[Named]
    value: T
    sample: Named | None = None


def alike(pairs: Iterable[tuple[T, Named]], shape: Callable[[T, Named], Hashable], *, full: bool) -> list[Alike[T]]:
    """Group targets by what is said of them; more than a `FEW` values of one shape become one with a sample."""
    exact: dict[T, list[Named]] = grouped(pairs)
    shapes = grouped((shape(value, targets[0]), value) for value, targets in exact.items())
    found: list[Alike[T]] = []
    for values in shapes.values():
        if full or len(values) <= FEW:
            found += [Alike(exact[value], value) for value in values]
        else:
            first = exact[values[0]]
            found.append(Alike([t for v in values for t in exact[v]], values[0], first[0]))
    return found


def shape(text: str, target: Named | None) -> str:
    """Return a text without what may differ between targets of which the same is said: their names, and numbers."""
    if target is not None:
        text = text.replace(target.name, "NAME")
    return re.sub(r"[0-9]+", "#", text)


def nameless(text: str, names: frozenset[str]) -> str:
    """Return a text with each of these names replaced by the same word."""
    return _WORD.sub(lambda word: "NAME" if word[0] in names else word[0], text)


def names(targets: Iterable[Named]) -> str:
    """Return the names of targets as ranges; those of the same name have their references beside them."""
    found = list(targets)
    count = Counter(t.name for t in found)
    return listed(t.name if count[t.name] == 1 or not t.ref else f"{t.name} ({t.ref})" for t in found)


def first(targets: Sequence[Named]) -> str:
    """Return names as ranges, at most `NAMED` of them."""
    terms = fold(t.name for t in targets)
    more = (
        f" and {counted(len(terms) - NAMED, 'more name').replace('more names', 'more')}" if len(terms) > NAMED else ""
    )
    return f"{', '.join(terms[:NAMED])}{more}"


def how_many(targets: Sequence[Named]) -> str:
    """Return a number of targets with their noun: ``32 hosts``."""
    kinds = {NOUNS.get(t.kind, t.kind) for t in targets}
    return counted(len(targets), kinds.pop() if len(kinds) == 1 else "target")


def of_sample(each: Alike[T]) -> str:
    """Return the words that lead to a sample; "" where there is none."""
    return f"; for example {quoted(each.sample.name)}" if each.sample else ""


def fitted(text: str, width: int) -> str:
    """Return a text whose lines fit into that many columns; what is wrapped stands under the last column of its line.

    A column starts after two spaces or more. Such lines are wrapped as prose: a table has to fit by itself.
    """
    lines = text.splitlines()
    return "\n".join(wrapped(((line, _hanging(line)) for line in lines), width))


def _hanging(line: str) -> int:
    lead = len(line) - len(line.lstrip())
    columns = [found.end() for found in re.finditer(r"(?<=\S)  +(?=\S)", line[:24])]
    return columns[-1] if columns else lead + 2


def wrapped(lines: Iterable[Line], width: int) -> Iterator[str]:
    """Yield lines that a terminal of that many columns takes; words stay whole."""
    for text, indent in lines:
        line = safe(text)
        if not indent or columns(line) <= width:
            yield line
            continue
        lead = line[: len(line) - len(line.lstrip())]
        yield from _wrap(line[len(lead) :], width, lead, " " * min(indent, width * 2 // 5))


def _wrap(text: str, width: int, lead: str, hanging: str) -> Iterator[str]:
    """Yield the lines of a text; the spaces between its words stay, except where a line ends."""
    line, space = lead, ""
    for part in re.findall(r"\s+|\S+", text.rstrip()):
        if part.isspace():
            space = part
        elif space and columns(line + space + part) > width:
            yield line
            line, space = hanging + part, ""
        else:
            line, space = line + space + part, ""
    yield line
