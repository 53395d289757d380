"""Explanation of names: kinds, keys, rules, checks, boards and XIDs, from the package itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache

from vsphere_ai.app.project.explanations import admission, boards, checks, keys, pages, rules, xids
from vsphere_ai.errors import UsageError
from vsphere_ai.model.records.explained import GROUPS, Listed, NameExplained

_XID = re.compile(r"xid[\s:_-]*(\d+)", re.IGNORECASE)
_STEPS = re.compile(r"\[\]|\.\*")
"""Steps into a list or mapping in the name of a key: `nics[].type`, `gpus.*.mode`."""
HIDDEN = ("MIG profile", "vGPU type")
"""Groups with so many names that they are explained, but not listed."""


@cache
def _known() -> Mapping[str, tuple[NameExplained, ...]]:
    found: dict[str, list[NameExplained]] = {}
    data = (*keys.explained(), *rules.explained(), *admission.explained(), *boards.explained(), *xids.explained())
    own = {(each.name, each.group) for each in data}
    tables = (each for each in pages.explained() if (each.name, each.group) not in own)
    for each in (*data, *checks.explained(), *tables):
        found.setdefault(each.name.lower(), []).append(each)
    return {name: tuple(several) for name, several in found.items()}


def explain(name: str, more: Iterable[str] = (), also: Sequence[NameExplained] = ()) -> tuple[NameExplained, ...]:
    """Return what is known of a name: of itself, else of the keys and rules that end with it.

    `more` are names that are explained elsewhere, and `also` what something else knows of this name. `UsageError` with
    what is meant where nothing has the name.
    """
    asked = _normal(name)
    found = (*also, *(_known().get(asked) or _known().get(re.sub(r"^fault\..*", "fault.name", asked), ())))
    found = found or tuple(e for known in _ending(asked) for e in _known()[known])
    if found:
        return found
    names = [*_known(), *more]
    group, dot, _ = asked.partition(".")
    beside = [n for n in names if dot and n.startswith(f"{group}.")]
    near = get_close_matches(asked, names, n=3, cutoff=0.7) or [n for n in names if asked in n][:3]
    near = near or get_close_matches(asked, beside, n=3, cutoff=0) or get_close_matches(asked, names, n=3, cutoff=0.6)
    help = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else "vsphere-ai explain lists all names"
    raise UsageError(f"there is no explanation of '{name}'", help, rule="usage.topic")


def listed(name: str = "") -> tuple[Listed, ...]:
    """Return the names that can be explained, by group; of one group, or of one prefix, where `name` is one."""
    every = [Listed(e.name, e.group, e.title) for several in _known().values() for e in several]
    every.sort(key=lambda e: (GROUPS.index(e.group), not e.name.isdecimal() or int(e.name), e.name))
    if not name:
        return tuple(e for e in every if e.group not in HIDDEN)
    asked = _normal(name).rstrip(".")
    if asked in _known():
        return ()
    groups = {g for g in GROUPS if asked in (g.lower(), f"{g.lower()}s")}
    return tuple(e for e in every if e.group in groups or e.name.lower().startswith(f"{asked}."))


def _normal(name: str) -> str:
    number = _XID.fullmatch(name.strip())
    return number[1] if number else _STEPS.sub("", name.strip()).lower()


def _ending(asked: str) -> Iterator[str]:
    return (known for known in _known() if known.endswith(f".{asked}"))
