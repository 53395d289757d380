"""Explanations of names, and the list of what can be explained, as text of at most 80 columns and as documents."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from vsphere_ai.documents.reference.explanations import (
    ExplanationDocument,
    ExplanationPartDocument,
    LabelledText,
    NameDocument,
    NamesDocument,
)
from vsphere_ai.model.records.explained import GROUPS, ExplanationPart, Group, Listed, NameExplained

WIDTH = 80
LABELS = 16
"""Width of the column of labels; a longer label has a line of its own."""
BY_PREFIX = ("key", "rule")
"""Groups of so many names that a list of all groups shows the first word of each, and how many there are."""


def explained_text(found: Sequence[NameExplained]) -> str:
    """Return what is known of a name as text."""
    return "\n\n".join("\n".join(_lines(each)) for each in found)


def explained_document(name: str, found: Sequence[NameExplained]) -> ExplanationDocument:
    """Return what is known of a name as it is printed."""
    return ExplanationDocument(topic=name, found=tuple(map(_name_document, found)))


def _name_document(each: NameExplained) -> NameDocument:
    return NameDocument(
        name=each.name,
        group=each.group,
        title=each.title,
        text=each.text,
        parts=tuple(
            ExplanationPartDocument(
                title=p.title, pairs=tuple(LabelledText(name=n, text=t) for n, t in p.pairs), code=p.code
            )
            for p in each.parts
        ),
        source=each.source,
        page=each.page,
    )


def _lines(each: NameExplained) -> Iterator[str]:
    head = f"{each.name} ({each.group})"
    yield from (head, "=" * len(head))
    said = {text for part in each.parts for _, text in part.pairs}
    for text in (*((each.title,) if each.title not in said else ()), *each.text):
        yield from _wrapped(text)
    for part in each.parts:
        yield from _part(part)
    ends = [(label, text) for label, text in (("source", each.source), ("page", each.page)) if text]
    yield from ("", *_pairs(ends)) if ends else ()


def _part(part: ExplanationPart) -> Iterator[str]:
    yield ""
    if part.title:
        yield part.title
    if part.code:
        yield from textwrap.indent(part.code, "  ").splitlines()
    yield from _pairs(part.pairs)


def _pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for label, text in pairs:
        if len(label) >= LABELS:
            yield f"  {label}"
        head = " " * (LABELS + 2) if len(label) >= LABELS else f"  {label:<{LABELS}}" if label else "  "
        yield from _wrapped(text, head)


def _wrapped(text: str, head: str = "") -> list[str]:
    """Return lines of a text; a name that is longer than a line stays whole."""
    wrap = textwrap.TextWrapper(WIDTH, head, " " * len(head), break_long_words=False, break_on_hyphens=False)
    return wrap.wrap(text)


def listing_text(found: Sequence[Listed], topics: Iterable[str], *, whole: bool = False) -> str:
    """Return the list of what can be explained; `whole`: each name with its title, else names by group."""
    if whole:
        return "\n".join(_pairs((each.name, textwrap.shorten(each.title, 2 * WIDTH)) for each in found))
    return "\n".join(_listing(found, topics))


def _listing(found: Sequence[Listed], topics: Iterable[str]) -> Iterator[str]:
    yield "vsphere-ai explain NAME explains a name; GROUP or PREFIX lists names."
    for group in GROUPS:
        names = [*(topics if group == "topic" else ()), *(e.name for e in found if e.group == group)]
        if not names:
            continue
        names = list(dict.fromkeys(names))
        yield from ("", f"{group}s ({len(names)})")
        if group in BY_PREFIX:
            firsts = Counter(name.partition(".")[0] for name in names)
            names = [f"{first} ({count})" if count > 1 else first for first, count in sorted(firsts.items())]
        yield from _wrapped(", ".join(names), "  ")


def listing_document(found: Sequence[Listed], topics: Iterable[str]) -> NamesDocument:
    """Return names by group as they are printed."""
    groups: dict[Group, tuple[str, ...]] = {}
    for group in GROUPS:
        names = (*(topics if group == "topic" else ()), *(e.name for e in found if e.group == group))
        groups |= {group: names} if names else {}
    return NamesDocument(topics=groups)
