"""Playbooks: read from their file, and looked up in an estate."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BeforeValidator

from vsphere_ai.errors import InputError, Mark, UsageError
from vsphere_ai.language.document import Document, DocumentPath, Faults, excerpt, load
from vsphere_ai.language.inventory import Inventory, VCenterSettings
from vsphere_ai.language.output import KEY, is_outputs, read_outputs, sets_of
from vsphere_ai.language.patterns import PatternError, members, parse
from vsphere_ai.language.play import Desired, Kinds, Options, Output, Play, Playbook, Power, Rolling, Stated, TargetPlan
from vsphere_ai.language.reference import Resolve, resolved, unresolved
from vsphere_ai.language.selection import passed_over, select
from vsphere_ai.language.validation import Place, describe, settable, suggest, validate
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.resources.playbook_files import ReadsFiles

TARGETS: Mapping[str, TargetKind] = {"datacenters": "datacenter", "hosts": "host", "vms": "vm"}
WORDS: Mapping[TargetKind, str] = {"datacenter": "datacenters", "host": "hosts", "vm": "virtual machines"}
MOST_SPARE = 64
MOST_AT_ONCE = 50
"""Names that are looked up in one go: a pattern has a limit."""

Opts = TypeVar("Opts", bound=Options)


def load_playbook(path: Path, kinds: Kinds, resolve: Resolve = unresolved) -> Playbook:
    """Read a playbook whose plays may use `kinds`; `InputError` with every fault in it.

    `resolve` gives the values of references to outputs of other playbooks.
    """
    faults = Faults()
    document = resolved(load(path, faults), resolve, faults)
    reader = _Reader(document, kinds, faults)
    plays = reader.plays()
    outputs = reader.outputs(plays)
    faults.raise_any()
    digest = hashlib.sha256(document.text.encode()).hexdigest()
    return Playbook(str(path), digest, plays, document.text, outputs)


def vcenters(playbook: Playbook, inventory: Inventory) -> tuple[str, ...]:
    """Return the names of the vCenters the plays are for; `InputError` when one is unknown or not said."""
    faults = Faults()
    names = {_vcenter(play, playbook, inventory, faults) for play in playbook.plays}
    faults.raise_any()
    return tuple(sorted(names))


def choose_vcenter(playbook: Playbook | None, inventory: Inventory, name: str) -> VCenterSettings:
    """Return the vCenter of that name, else the only one that a playbook, or the inventory, has."""
    known = inventory.vcenters
    if name and name not in known:
        raise UsageError(f"the inventory has no vCenter '{name}'", f"it has {', '.join(known)}")
    names = (name,) if name else vcenters(playbook, inventory) if playbook else tuple(known)
    if len(names) != 1:
        raise UsageError(f"there are {len(names)} vCenters: {', '.join(names)}", "choose one with --vcenter")
    return known[names[0]]


def desired(playbook: Playbook, inventory: Inventory, estate: Estate, *, vcenter: str = "") -> Desired:
    """Return what is wanted of each target of an estate, by target.

    With `vcenter`, only plays for that vCenter are looked at. `InputError` names every pattern that means nothing and
    every setting that two plays want differently.
    """
    faults = Faults()
    found: dict[Target, _Wanted] = {}
    conflicts: dict[tuple[str, Mark, Mark], list[str]] = defaultdict(list)
    for play in playbook.plays:
        if vcenter and _vcenter(play, playbook, inventory, faults) != vcenter:
            continue
        for target in _targets(play, playbook, inventory, estate, faults):
            wanted = found.setdefault(target, _Wanted())
            for what, earlier in wanted.add(play):
                conflicts[what, _place_of(play, what), earlier].append(target.name)
    for (what, mark, earlier), names in conflicts.items():
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        message = f"two plays want a different '{what}' of {shown}: here and at {earlier}"
        faults.add(mark, message, "keep one of them", excerpt=excerpt(playbook.text, mark, len(what)))
    faults.raise_any()
    return Desired({target: replace(found[target].plan(), start_ssh=inventory.start_ssh) for target in sorted(found)})


def managed(playbook: Playbook, inventory: Inventory, estate: Estate, *, vcenter: str) -> frozenset[Target]:
    """Return the VMs that patterns of the plays mean and that vCenter or an extension looks after: they stay out."""
    if not estate.managed:
        return frozenset()
    plays = [p for p in playbook.plays if p.target == "vm" and p.targets is None]
    plays = [p for p in plays if _vcenter(p, playbook, inventory, Faults()) == vcenter]
    return frozenset(v for p in plays for v in passed_over(p.pattern, inventory, estate))


def pinned(
    playbook: Playbook, inventory: Inventory, estate: Estate, only: Collection[Target], *, vcenter: str
) -> Playbook:
    """Return a playbook whose plays for a vCenter are for what they mean in an estate now, as far as it is in `only`.

    A later command that goes on with it is for the same objects, renamed or not; see `Play.targets`.
    """
    faults = Faults()
    plays = []
    for play in playbook.plays:
        if _vcenter(play, playbook, inventory, faults) == vcenter:
            meant = _targets(play, playbook, inventory, estate, faults)
            plays.append(replace(play, targets=tuple(t for t in meant if t in only)))
        else:
            plays.append(play)
    faults.raise_any()
    return replace(playbook, plays=tuple(plays))


def _vcenter(play: Play, playbook: Playbook, inventory: Inventory, faults: Faults) -> str:
    known = inventory.vcenters
    if play.vcenter in known or (not play.vcenter and len(known) == 1):
        return play.vcenter or next(iter(known))
    if play.vcenter:
        message, help = f"the inventory has no vCenter '{play.vcenter}'", suggest(play.vcenter, known, "there is")
    else:
        message, help = (
            f"the inventory has {len(known)} vCenters",
            f"add 'vcenter: ...' to this play; {suggest('', known, 'there is')}",
        )
    faults.add(play.mark, message, help, excerpt=excerpt(playbook.text, play.mark))
    return ""


def _targets(
    play: Play, playbook: Playbook, inventory: Inventory, estate: Estate, faults: Faults
) -> tuple[Target, ...]:
    if play.targets is not None:
        refs = {t.ref for t in play.targets}
        return tuple(t for t in estate.targets(play.target) if t.ref in refs)
    try:
        chosen = [select(p, play.target, inventory, estate, mark=play.pattern_mark) for p in _patterns(play)]
        return tuple(dict.fromkeys(t for each in chosen for t in each))
    except InputError as error:
        for found in error.diagnostics:
            text = found.excerpt or (excerpt(playbook.text, found.mark) if found.mark == play.pattern_mark else "")
            faults.add(found.mark, found.message, found.help, excerpt=text)
        return ()


def _patterns(play: Play) -> list[str]:
    """Return the patterns of a play; of one that makes VMs their names, as what it takes out need not be there."""
    if not any(isinstance(stated.state, MakesVms) for stated in play.states):
        return [play.pattern]
    names = list(members(play.pattern).values())
    return [",".join(names[at : at + MOST_AT_ONCE]) for at in range(0, len(names), MOST_AT_ONCE)]


def _place_of(play: Play, what: str) -> Mark:
    return next((stated.mark for stated in play.states if stated.state.kind == what), play.mark)


@dataclass
class _Wanted:
    """What the plays so far want of one target."""

    states: dict[str, Stated] = field(default_factory=dict)
    rolling: Rolling = field(default_factory=Rolling)
    power: Power = field(default_factory=Power)
    options: dict[str, Mark] = field(default_factory=dict)
    spare_hosts: int = 0

    def add(self, play: Play) -> list[tuple[str, Mark]]:
        """Add a play; return what it wants differently than an earlier one, with the place of that."""
        conflicts: list[tuple[str, Mark]] = []
        for stated in play.states:
            kind = stated.state.kind
            earlier = self.states.setdefault(kind, stated)
            if earlier.state != stated.state:
                conflicts.append((kind, earlier.mark))
        for what, one, other in (("rolling", self.rolling, play.rolling), ("power", self.power, play.power)):
            said = one.model_fields_set & other.model_fields_set
            if any(getattr(one, name) != getattr(other, name) for name in said):
                conflicts.append((what, self.options[what]))
            if other.model_fields_set:
                self.options.setdefault(what, play.mark)
        self.rolling, self.power = _merged(self.rolling, play.rolling), _merged(self.power, play.power)
        self.spare_hosts = max(self.spare_hosts, play.spare_hosts)
        return conflicts

    def plan(self) -> TargetPlan:
        marks = {kind: stated.mark for kind, stated in self.states.items()}
        states = tuple(stated.state for stated in self.states.values())
        return TargetPlan(states, self.rolling, self.power, marks, self.spare_hosts)


def _merged(one: Opts, other: Opts) -> Opts:
    return one.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"expected text, but this is {describe(value)}\nwrite text; quote it when it looks like a number")


def _spare(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_SPARE:
        return value
    raise ValueError(f"expected a number of hosts, but this is {describe(value)}\nwrite 0 to {MOST_SPARE}")


class PlaySettings(Options):
    """What a play says beside its pattern and its kinds."""

    name: Annotated[str, BeforeValidator(_text)] = ""
    vcenter: Annotated[str, BeforeValidator(_text)] = ""
    rolling: Rolling = Rolling()
    power: Power = Power()
    spare_hosts: Annotated[int, BeforeValidator(_spare)] = 0


class _Reader:
    """Reads the plays of one document; every fault is noted, and a play with a fault is left out."""

    def __init__(self, document: Document, kinds: Kinds, faults: Faults) -> None:
        self.document, self.kinds, self.place = document, kinds, Place(document, (), faults)

    def plays(self) -> tuple[Play, ...]:
        data = self.document.data
        if not isinstance(data, tuple) or not data:
            what = "is empty" if data in (None, ()) else "is not a list of plays"
            self.place.refuse((), f"the playbook {what}", "start each play with '- hosts: ...' or '- vms: ...'")
            return ()
        found = (self.play(index, value) for index, value in enumerate(data) if not is_outputs(value))
        if all(is_outputs(value) for value in data):
            self.place.refuse((), "the playbook has no play", "start one with '- hosts: ...' or '- vms: ...'")
        return tuple(play for play in found if play is not None)

    def outputs(self, plays: tuple[Play, ...]) -> tuple[Output, ...]:
        data = self.document.data if isinstance(self.document.data, tuple) else ()
        known = None if self.place.faults.found else sets_of(plays)  # a set with a fault is not said to be missing
        found: dict[str, Output] = {}
        for index, item in enumerate(data):
            if isinstance(item, Mapping) and is_outputs(item):
                for each in read_outputs(item, self.place.inside((index,)), known):
                    earlier = found.setdefault(each.name, each)
                    if earlier is not each:
                        message = f"the output '{each.name}' is there already, at {earlier.mark}"
                        self.place.refuse_key((index, KEY, each.name), message, "choose another name")
        return tuple(found.values())

    def play(self, index: int, value: object) -> Play | None:
        path = (index,)
        if not isinstance(value, Mapping):
            help = "write '- hosts: ...' or '- vms: ...' and below it what they should be"
            self.place.refuse(path, f"a play is a mapping, but this is {describe(value)}", help)
            return None
        key = self.target_key(value, path)
        target = TARGETS.get(key)
        self.check_keys(value, path, target)
        pattern = self.pattern(value, (index, key)) if key else ""
        if pattern and any(issubclass(self.kinds[k], MakesVms) for k in value if k in self.kinds):
            self.check_names(pattern, (index, key))
        settings = self.settings(value, path)
        stated = tuple(self.stated(kind, value[kind], path) for kind in value if kind in self.kinds)
        if not any(kind in self.kinds for kind in value):
            self.place.refuse(path, "this play has no settings", f"add one of: {self.known(target)}")
        if target is None or settings is None:
            return None
        return Play(
            name=settings.name or f"{key} {pattern}",
            target=target,
            pattern=pattern,
            states=tuple(each for each in stated if each is not None),
            rolling=settings.rolling,
            power=settings.power,
            vcenter=settings.vcenter,
            spare_hosts=settings.spare_hosts,
            mark=self.document.mark_of(path),
            pattern_mark=self.document.mark_of((index, key)),
        )

    def target_key(self, value: Mapping[str, object], path: DocumentPath) -> str:
        keys = [key for key in TARGETS if key in value]
        if len(keys) > 1:
            each = " or for ".join(f"'{key}'" for key in keys)
            self.place.refuse_key((*path, keys[1]), f"a play is for {each}, not for both", "make two plays of it")
        elif not keys:
            help = "add 'hosts: PATTERN' or 'vms: PATTERN' (or 'datacenters: PATTERN')"
            self.place.refuse(path, "this play does not say what it is for", help)
        return keys[0] if len(keys) == 1 else ""

    def check_keys(self, value: Mapping[str, object], path: DocumentPath, target: TargetKind | None) -> None:
        for key in value:
            kind = self.kinds.get(key)
            if key == "rolling" and target in ("vm", "datacenter"):
                self.place.refuse_key(
                    (*path, key), "'rolling' is for plays of hosts", "move it to a play with 'hosts:'"
                )
            elif key in ("power", "spare_hosts") and target == "datacenter":
                self.place.refuse_key((*path, key), f"'{key}' is for plays of hosts and VMs", "move it to such a play")
            elif kind and target and kind.target != target:
                other = next(word for word, each in TARGETS.items() if each == kind.target)
                message = f"'{key}' is a setting of {WORDS[kind.target]}, this play is for {WORDS[target]}"
                self.place.refuse_key((*path, key), message, f"move it to a play with '{other}: ...'")
            elif not kind and key not in (*TARGETS, *PlaySettings.model_fields):
                known = [
                    *TARGETS,
                    *PlaySettings.model_fields,
                    *(name for name, each in self.kinds.items() if target in (None, each.target)),
                ]
                self.place.refuse_key((*path, key), f"unknown key '{key}'", suggest(key, known))

    def pattern(self, value: Mapping[str, object], path: DocumentPath) -> str:
        given = value[str(path[-1])]
        items = given if isinstance(given, tuple) else (given,)
        for index, item in enumerate(items):
            at = (*path, index) if isinstance(given, tuple) else path
            if not isinstance(item, str) or not item.strip():
                help = f'quote it: "{self.document.node(at).source}"' if isinstance(item, int | float) else ""
                self.place.refuse(
                    at, f"expected a pattern, but this is {describe(item)}", help or "write a name, a group, or all"
                )
                return ""
        pattern = ",".join(items)
        try:
            parse(pattern)
        except PatternError as error:
            self.place.refuse(path, error.message, error.help)
        return pattern

    def check_names(self, pattern: str, path: DocumentPath) -> None:
        """Refuse a pattern of a play that makes VMs which does not name them."""
        try:
            members(pattern)
        except PatternError as error:
            self.place.refuse(path, error.message, error.help)

    def settings(self, value: Mapping[str, object], path: DocumentPath) -> PlaySettings | None:
        given = {key: value[key] for key in PlaySettings.model_fields if key in value}
        for part in ("rolling", "power"):
            below = given.get(part)
            for key in ("timeout", "shutdown_timeout", "settle"):
                if isinstance(below, Mapping) and isinstance(below.get(key), int | float):
                    help = f"write e.g. {below[key]}s or {below[key]}m"
                    self.place.refuse((*path, part, key), "this time has no unit", help)
        return validate(PlaySettings, given, self.place.inside(path))

    def stated(self, name: str, value: object, path: DocumentPath) -> Stated | None:
        kind, at = self.kinds[name], (*path, name)
        if value is None:
            self.place.refuse_key(at, f"'{name}' says nothing", "say what should be, or remove the line")
            return None
        if isinstance(value, Mapping) and not kind.keyed and self.is_item(kind, value):
            self.place.refuse(
                at, f"'{name}' is a list, but this is one item of it", f"write '{name}:' and below it '- ...', or [...]"
            )
            return None
        bare = kind.keyed or (bool(kind.shorthand) and not isinstance(value, Mapping))
        given = {kind.shorthand: value} if bare else value
        place = self.place.inside(at, kind.shorthand if bare else "")
        made = validate(kind, given, place)
        if made is None:
            return None
        if isinstance(made, ReadsFiles):
            made = made.with_files(place)
        return Stated(made, self.document.mark_of_key(at))

    def is_item(self, kind: type[Resource], value: Mapping[str, object]) -> bool:
        """Return whether a mapping is one item of the list a kind is written as."""
        own, item = settable(kind), settable(kind, (kind.shorthand,)) if kind.shorthand else []
        return bool(value) and not any(key in own for key in value) and any(key in item for key in value)

    def known(self, target: TargetKind | None) -> str:
        return ", ".join(name for name, kind in self.kinds.items() if target in (None, kind.target))
