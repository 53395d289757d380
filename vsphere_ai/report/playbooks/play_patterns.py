"""Patterns that mean given targets and no others: ranges, names, and references where a name is not enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.name_ranges import fold, is_hostile
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import safe

PATTERN_SIGNS = frozenset(",:;[]!&*?")
LONGEST = 4000
"""Characters of the pattern of one play; more targets make another play of the same settings."""
SPACES = "~^+=%"
"""Characters one of which stands for the spaces of names while these are folded."""


class CommentedTerm(NamedTuple):
    """A part of a pattern, and a comment on what it means where it does not say so itself."""

    text: str
    comment: str = ""


class Patterns:
    """Patterns that mean given targets of one estate and no others."""

    def __init__(self, estate: Estate, groups: Mapping[str, frozenset[Target]] = {}) -> None:
        every = (*estate.datacenters, *estate.hosts, *estate.vms)
        self._count = Counter((t.kind, t.name) for t in every)
        self._names = {t.name for t in every} | set(groups)
        self._groups = {targets: name for name, targets in groups.items()}
        self._taken = frozenset(groups)

    def of(self, targets: Sequence[Target]) -> Iterator[list[CommentedTerm]]:
        """Yield the terms of as many patterns as it takes; one but for thousands of names without an order."""
        terms: list[CommentedTerm] = []
        size = 0
        for each in self.terms(targets):
            if size + len(each.text) > LONGEST:
                yield terms
                terms, size = [], 0
            terms.append(each)
            size += len(each.text) + 1
        yield terms

    def terms(self, targets: Sequence[Target]) -> list[CommentedTerm]:
        """Return terms that together mean these targets: a group, or ranges, names, then references."""
        if group := self._groups.get(frozenset(targets)):
            return [CommentedTerm(group)]
        ranges = _ranges([t.name for t in targets if self._is_plain(t)])
        odd = [each for each in ranges if "[" in each] + ([",".join(ranges)] if len(ranges) > 1 else [])
        if any(each in self._names for each in odd):
            return [self._by_reference(t) for t in targets]  # there is a name that reads as this pattern
        return [*map(CommentedTerm, ranges), *(self._by_reference(t) for t in targets if not self._is_plain(t))]

    def _is_plain(self, target: Target) -> bool:
        """Return whether a pattern of the name means this target: not every one, a path, a group or several names."""
        name = target.name
        more = name in self._taken or name.startswith("/") or bool(PATTERN_SIGNS & set(name)) or name.strip() != name
        return name not in ("", "all") and not more and self._count[target.kind, name] == 1

    def _by_reference(self, target: Target) -> CommentedTerm:
        return CommentedTerm(target.ref, safe(target.name))


def _ranges(names: Sequence[str]) -> list[str]:
    """Return names as ranges; a space in a name is no hindrance."""
    space = next((s for s in SPACES if not any(s in name for name in names)), "")
    alike = {name.replace(" ", space) if space else name: name for name in names}
    foldable = [each for each in alike if not is_hostile(each)]
    terms = [each.replace(space, " ") if space else each for each in fold(foldable)]
    return [*terms, *sorted(name for each, name in alike.items() if is_hostile(each))]
