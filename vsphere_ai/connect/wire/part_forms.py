"""Forms of parts of an answer: what two parts that differ in nothing but their texts become, but for these texts.

A part is parsed once; of the next one of the same form only the texts are taken. Of these, most never differ: a pattern
holds them as they are, so that a part is compared with it rather than taken apart. Nothing is assumed of a part whose
texts are not certain: it has no form, and is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vsphere_ai.connect.wire.part_patterns import Pattern
from vsphere_ai.connect.wire.part_shapes import Shape, filled, whole_shape
from vsphere_ai.connect.wire.wire_types import Unfamiliar
from vsphere_ai.model.plain import Plain

# the text of an element without elements in it, where it means itself: no entities, no white space but blanks
_TEXTS = re.compile("[>]([^<>&\x00-\x1f\x7f\ufffe\uffff]+)</")
_BETWEEN = "\x00"  # stands in no XML
_MOST = 2000
"""Forms that are kept of one kind of part."""
_TRIED = 4
"""Patterns that are compared with a part, of those whose parts begin with the same tag."""


@dataclass(slots=True)
class _PartForm:
    """What parts of one form become: `raw` with holes in the places of texts, which `shape` fills."""

    raw: Plain
    shape: Shape
    texts: list[str]
    """Those of the last part whose value was made of all of its texts."""
    differing: frozenset[int] = frozenset()
    """The numbers of texts that have been different before."""
    pattern: Pattern | None = None

    def learn(self, texts: list[str]) -> bool:
        """Take the texts of another part; return whether one is different that was the same until now."""
        differing = self.differing.union(n for n, (a, b) in enumerate(zip(self.texts, texts, strict=True)) if a != b)
        self.texts = texts
        known, self.differing = self.differing, differing
        return differing != known

    def patterned(self, pieces: Sequence[str], around: tuple[int, int]) -> Pattern | None:
        """Return the pattern of parts, by what stands around the texts of one of them."""
        order = {number: at for at, number in enumerate(sorted(self.differing))}
        shape = whole_shape(filled(self.raw, self.texts, order), len(order))
        between = [pieces[0] + ">"]
        for number, text in enumerate(self.texts):
            behind = "</" + pieces[number + 1] + (">" if number + 1 < len(self.texts) else "")
            if number in self.differing:
                between.append(behind)
            else:
                between[-1] += text + behind
        return Pattern(between, shape, around) if shape else None


class Forms:
    """The forms of parts, each of which `parse` makes one value of: within it, it reads them with a `PartReader`."""

    def __init__(self, parse: Callable[[str, Sequence[str] | None], Plain]) -> None:
        self._parse = parse
        self._known: dict[str, _PartForm | None] = {}
        self._patterns: dict[str, list[Pattern]] = {}

    def value(self, part: str, begin: str = "", end: str = "") -> Plain:
        """Return the value of a part, which stands between `begin` and `end`.

        Raises Unfamiliar, or what values raise.
        """
        tag = part[: part.find(">") + 1]
        for pattern in self._patterns.get(tag, ()):
            value = pattern.value(part)
            if value is not None:
                return value
        return self._unlike(f"{begin}{part}{end}", tag, (len(begin), len(end)))

    def _unlike(self, text: str, tag: str, around: tuple[int, int]) -> Plain:
        pieces = _TEXTS.split(text)
        name, texts = _BETWEEN.join(pieces[::2]), pieces[1::2]
        if name not in self._known and len(self._known) < _MOST and texts:
            self._known[name] = self._learned(text, texts)
        form = self._known.get(name)
        if form is None or name.count(_BETWEEN) != len(texts):
            return self._parse(text, None)
        if form.learn(texts):
            before, form.pattern = form.pattern, form.patterned(pieces[::2], around)
            others = [p for p in self._patterns.get(tag, ()) if p is not before]
            self._patterns[tag] = [*([form.pattern] if form.pattern else ()), *others][:_TRIED]
        return form.shape.made(texts)

    def _learned(self, text: str, texts: list[str]) -> _PartForm | None:
        """Return the form of a part; None where it has none."""
        if "&" in text:
            return None  # a text that is written as entities may be taken for another one
        try:
            raw = self._parse(text, texts)
            shape = whole_shape(raw, len(texts))
        except Unfamiliar:
            return None
        return _PartForm(raw, shape, texts) if shape else None
