"""Playbook text of observed states, as a person would write it: names as ranges, a line no wider than 100 columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.name_ranges import fold, is_hostile
from vsphere_ai.model.state import State, Target, TargetKind
from vsphere_ai.model.text import safe
from vsphere_ai.report.folding import names
from vsphere_ai.report.play_titles import NOUNS, Titles
from vsphere_ai.report.yaml_text import WIDEST, prose, scalar, state_lines, term

PATTERN_SIGNS = frozenset(",:;[]!&*?")
LONGEST = 4000
"""Characters of the pattern of one play; more targets make another play of the same settings."""
SPACES = "~^+=%"
"""Characters one of which stands for the spaces of names while these are folded."""
MODELINE = "# yaml-language-server: $schema={}.schema.json"
"""The line by which editors find a schema that `vsphere-ai schema` wrote beside the file."""


class Term(NamedTuple):
    """A part of a pattern, and a comment on what it means where it does not say so itself."""

    text: str
    comment: str = ""


def playbook_text(
    estate: Estate,
    plays: Iterable[tuple[Sequence[Target], Sequence[State]]],
    remarks: Mapping[Target, str],
    taken: Collection[str] = (),
) -> str:
    """Return plays of what was read, below why something is missing.

    A target whose name is not unique, means something else as a pattern, or is among the `taken` (names of groups), is
    named by its reference.
    """
    lines = [MODELINE.format("playbook"), f"# {safe(f'{estate.about.name} {estate.about.version}')}, as it was read"]
    lines += _remark_lines(remarks)
    titles, patterns = Titles(estate), Patterns(estate, taken)
    for targets, states in plays:
        parts = [line for state in states for line in state_lines(state)]
        title = titles.of(targets)
        for terms in patterns.of(targets) if parts else ():
            head = _pattern_lines(NOUNS[targets[0].kind].lower(), terms)
            named = [f"name: {prose(title)}", *head] if title else head
            lines += ["", f"- {named[0]}", *(f"  {line}" for line in named[1:]), *parts]
    return "\n".join(lines) + "\n"


def _remark_lines(remarks: Mapping[Target, str]) -> Iterator[str]:
    """Yield comments, one for all targets of which the same is to be said."""
    alike: dict[tuple[TargetKind, str], list[Target]] = defaultdict(list)
    for target, words in remarks.items():
        alike[target.kind, words].append(target)
    for (_, words), targets in alike.items():
        text = safe(f"{names(targets)}: {words}")
        yield from wrap(
            text, WIDEST, initial_indent="# ", subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False
        )


def play_heads(estate: Estate, targets: Iterable[Target]) -> dict[Target, str]:
    """Return the first line of a play for each target."""
    patterns = Patterns(estate)
    return {t: f"- {'  '.join(_pattern_lines(NOUNS[t.kind].lower(), patterns.terms([t])))}" for t in targets}


class Patterns:
    """Patterns that mean given targets of one estate and no others."""

    def __init__(self, estate: Estate, taken: Collection[str] = ()) -> None:
        every = (*estate.datacenters, *estate.hosts, *estate.vms)
        self._count = Counter((t.kind, t.name) for t in every)
        self._names = {t.name for t in every} | set(taken)
        self._taken = set(taken)

    def of(self, targets: Sequence[Target]) -> Iterator[list[Term]]:
        """Yield the terms of as many patterns as it takes; one but for thousands of names without an order."""
        terms: list[Term] = []
        size = 0
        for each in self.terms(targets):
            if size + len(each.text) > LONGEST:
                yield terms
                terms, size = [], 0
            terms.append(each)
            size += len(each.text) + 1
        yield terms

    def terms(self, targets: Sequence[Target]) -> list[Term]:
        """Return terms that together mean these targets: ranges, names, then references."""
        ranges = _ranges([t.name for t in targets if self._is_plain(t)])
        odd = [each for each in ranges if "[" in each] + ([",".join(ranges)] if len(ranges) > 1 else [])
        if any(each in self._names for each in odd):
            return [self._by_reference(t) for t in targets]  # there is a name that reads as this pattern
        return [*map(Term, ranges), *(self._by_reference(t) for t in targets if not self._is_plain(t))]

    def _is_plain(self, target: Target) -> bool:
        """Return whether a pattern of the name means this target: not every one, a path, a group or several names."""
        name = target.name
        more = name in self._taken or name.startswith("/") or bool(PATTERN_SIGNS & set(name)) or name.strip() != name
        return name not in ("", "all") and not more and self._count[target.kind, name] == 1

    def _by_reference(self, target: Target) -> Term:
        return Term(target.ref, safe(target.name))


def _ranges(names: Sequence[str]) -> list[str]:
    """Return names as ranges; a space in a name is no hindrance."""
    space = next((s for s in SPACES if not any(s in name for name in names)), "")
    alike = {name.replace(" ", space) if space else name: name for name in names}
    foldable = [each for each in alike if not is_hostile(each)]
    terms = [each.replace(space, " ") if space else each for each in fold(foldable)]
    return [*terms, *sorted(name for each, name in alike.items() if is_hostile(each))]


def _pattern_lines(key: str, terms: Sequence[Term]) -> list[str]:
    """Return a key with its pattern: one term, a list on one line, or one that fills several."""
    if len(terms) == 1:
        return [f"{key}: {term(terms[0].text)}" + (f"  # {terms[0].comment}" if terms[0].comment else "")]
    if any(each.comment for each in terms):
        parts = [f"  - {term(t.text)}" + (f"  # {t.comment}" if t.comment else "") for t in terms]
        return [f"{key}:", *parts]
    lines = [f"{key}: ["]
    for number, each in enumerate(terms, 1):
        text = scalar(each.text) + ("]" if number == len(terms) else ",")
        begun = lines[-1].endswith("[") or not lines[-1].strip()
        if not begun and len(lines[-1]) + len(text) + 1 > WIDEST - 2:
            lines.append(" " * (len(key) + 3))
            begun = True
        lines[-1] += text if begun else f" {text}"
    return lines
