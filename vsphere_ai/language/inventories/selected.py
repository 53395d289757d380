"""Answers of vCenter that conditions of selectors ask for, as one record of an estate, and lookups in it.

The record is made when a selector first needs it, and kept: whom a playbook means does not change during a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from vsphere_ai.language.inventories.patterns import GLOB
from vsphere_ai.language.inventories.selectors import APPLIES, power_state
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import TargetKind

RECORD = "Selectors:answers"
"""Reference of the record among the objects of an estate."""
ASKED = "asked"
NAMES_SHOWN = 12

Want = tuple[str, str]
"""Key of a condition, and what of it is wanted: a tag with its category, or the kind of target whose GPUs matter."""


@dataclass(frozen=True)
class Lookup:
    """References of the objects that fulfil a condition, or why there can be none.

    `near` are values that some objects have, for a hint where nothing is left.
    """

    refs: frozenset[str] = frozenset()
    fault: str = ""
    help: str = ""
    near: tuple[str, ...] = ()


def wants_of(key: str, value: str, kinds: Iterable[TargetKind]) -> tuple[Want, ...]:
    """Return what has to be known to look a condition up; nothing for one that the inventory tree answers."""
    if key == "tag":
        return ((key, value),)
    if key == "gpu":
        return tuple((key, kind) for kind in kinds if kind in APPLIES[key])
    return ((key, ""),) if key in ("attribute", "pool", "power") else ()


def is_known(estate: Estate, want: Want) -> bool:
    """Return whether the record of an estate has the answer."""
    record = estate.get(RECORD)
    return record is not None and want in record.get(ASKED, ())


def look_up(estate: Estate, key: str, value: str, kinds: tuple[TargetKind, ...]) -> Lookup:
    """Return whom a condition means among the objects that were asked; what it needs has to be known."""
    record = estate[RECORD]
    if key == "tag":
        return _tagged(value, record.get("tags"), record.get("categories"))
    if key == "attribute":
        return _attributed(value, record.get("attributes"), record.get("attribute"))
    if key == "pool":
        return _pooled(value, record.get("pools"), record.get("pool"))
    if key == "gpu":
        return _with_gpu(value, {kind: record.get(f"gpu:{kind}") or {} for kind in kinds}, record.get("boards"))
    return _powered(value, kinds, record.get("power"))


def _tagged(value: str, tags: Mapping[str, frozenset[str]], categories: tuple[str, ...]) -> Lookup:
    found = [name for name in tags if _matches(value, name)]
    if found:
        return Lookup(frozenset().union(*(tags[name] for name in found)))
    category = value.partition("/")[0]
    if not any(_matches(category, name) for name in categories):
        known = suggest(category, categories, "there is") or "there are none that this account may see"
        return Lookup(fault=f"there is no tag category '{category}'", help=known)
    own = [name for name in tags if _matches(category, name.partition("/")[0])]
    return Lookup(fault=f"there is no tag '{value}'", help=suggest(value, own, "there is") or "the category is empty")


def _attributed(value: str, names: tuple[str, ...], values: Mapping[str, Mapping[str, str]]) -> Lookup:
    name, equals, wanted = value.partition("=")
    if name not in names:
        return Lookup(fault=f"there is no custom attribute '{name}'", help=suggest(name, names, "there is"))
    having = {ref: own[name] for ref, own in values.items() if name in own}
    refs = frozenset(ref for ref, text in having.items() if not equals or _matches(wanted, text))
    return Lookup(refs, near=tuple(sorted(set(having.values()))))


def _pooled(value: str, paths: Mapping[str, str], pools: Mapping[str, tuple[str, ...]]) -> Lookup:
    wanted = value.strip("/")
    found = [ref for ref, path in paths.items() if f"/{path}".endswith(f"/{wanted}")]
    if not found:
        return Lookup(
            fault=f"there is no resource pool '{value}'",
            help=suggest(wanted, (*paths.values(), *(p.rpartition("/")[2] for p in paths.values())), "there is"),
        )
    if len(found) > 1:
        places = ", ".join(sorted(paths[ref] for ref in found)[:NAMES_SHOWN])
        return Lookup(fault=f"{len(found)} resource pools are called '{value}'", help=f"write the path: {places}")
    return Lookup(frozenset(vm for vm, own in pools.items() if found[0] in own))


def _with_gpu(value: str, of: Mapping[TargetKind, Mapping[str, tuple[str, ...]]], boards: tuple[str, ...]) -> Lookup:
    wanted = value.casefold()
    models = {ref: names for own in of.values() for ref, names in own.items()}
    refs = frozenset(ref for ref, names in models.items() if any(_matches(wanted, n.casefold()) for n in names))
    there = tuple(sorted({name for names in models.values() for name in names}))
    if not refs and not any(_matches(wanted, name.casefold()) for name in boards):
        known = suggest(value, there, "there is") if there else suggest(value, boards)
        return Lookup(fault=f"'{value}' is no GPU model", help=known)
    return Lookup(refs, near=there)


def _powered(value: str, kinds: tuple[TargetKind, ...], states: Mapping[str, str]) -> Lookup:
    try:
        power_state(value, kinds)
    except ValueError as error:
        message, _, help = str(error).partition("\n")
        return Lookup(fault=message, help=help)
    return Lookup(frozenset(ref for ref, state in states.items() if state == value))


def _matches(pattern: str, text: str) -> bool:
    return pattern == text or (bool(GLOB.search(pattern)) and fnmatchcase(text, pattern))
