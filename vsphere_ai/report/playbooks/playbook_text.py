"""Playbook text of observed states, as a person would write it: names as ranges, a line no wider than 100 columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.yaml_text import prose, scalar, term
from vsphere_ai.model.state import State, Target, TargetKind
from vsphere_ai.model.text import safe
from vsphere_ai.report.folding import names
from vsphere_ai.report.playbooks.play_patterns import CommentedTerm, Patterns
from vsphere_ai.report.playbooks.play_titles import NOUNS, Titles
from vsphere_ai.report.playbooks.state_text import WIDEST, state_lines

MODELINE = "# yaml-language-server: $schema={}"
"""The line by which editors find a schema, by its path from the file."""


def playbook_text(
    estate: Estate,
    plays: Iterable[tuple[Sequence[Target], Sequence[State]]],
    remarks: Mapping[Target, str],
    groups: Mapping[str, frozenset[Target]] = {},
    notes: Iterable[str] = (),
) -> str:
    """Return plays of what was read, below `notes` and why something is missing, both as comments.

    Targets that are a group are named by it. One whose name is not unique, means something else as a pattern, or is
    that of a group, is named by its reference.
    """
    lines = [f"# {safe(f'{estate.about.name} {estate.about.version}')}, as it was read"]
    lines += [f"# {safe(note)}".rstrip() for note in notes]
    lines += _remark_lines(remarks)
    titles, patterns = Titles(estate), Patterns(estate, groups)
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


def play_heads(patterns: Patterns, targets: Sequence[Target]) -> Iterator[list[str]]:
    """Yield the first lines of the plays, mostly one, for targets of one kind."""
    for terms in patterns.of(targets):
        first, *more = _pattern_lines(NOUNS[targets[0].kind].lower(), terms)
        yield [f"- {first}", *(f"  {line}" for line in more)]


def _pattern_lines(key: str, terms: Sequence[CommentedTerm]) -> list[str]:
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
