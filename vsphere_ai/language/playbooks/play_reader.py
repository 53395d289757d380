"""Plays of a playbook: read from its document with every fault noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator

from vsphere_ai.language.inventories.patterns import PatternError, members, parse
from vsphere_ai.language.inventories.selectors import SELECTORS
from vsphere_ai.language.playbooks.output import KEY, is_outputs, read_outputs, sets_of
from vsphere_ai.language.playbooks.play import (
    TARGETS,
    Kinds,
    Play,
    PlaybookOutput,
    PlayOptions,
    Power,
    Rolling,
    Selector,
    Stated,
)
from vsphere_ai.language.playbooks.variables import KEY as VARS
from vsphere_ai.language.playbooks.variables import is_declaration, is_for_anchors
from vsphere_ai.language.yaml_files.document import Document, DocumentPath, FaultCollector, describe
from vsphere_ai.language.yaml_files.validation import ValuePlace, settable, validate
from vsphere_ai.language.yaml_files.variable_values import FOR_ANCHORS
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import KindName, TargetKind
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.resources.playbook_files import ReadsFiles

WORDS: Mapping[TargetKind, str] = {"datacenter": "datacenters", "host": "hosts", "vm": "virtual machines"}
MOST_SPARE = 64


def _has_conditions(given: object) -> bool:
    """Return whether a play has conditions in the place of a pattern, or among patterns."""
    several = given if isinstance(given, tuple) else (given,)
    return any(isinstance(each, Mapping) for each in several)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"expected text, but this is {describe(value)}\nwrite text; quote it when it looks like a number")


def _spare(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_SPARE:
        return value
    raise ValueError(f"expected a number of hosts, but this is {describe(value)}\nwrite 0 to {MOST_SPARE}")


class PlaySettings(PlayOptions):
    """What a play says beside its pattern and its kinds."""

    name: Annotated[str, BeforeValidator(_text)] = ""
    vcenter: Annotated[str, BeforeValidator(_text)] = ""
    rolling: Rolling = Rolling.model_construct()
    power: Power = Power.model_construct()
    spare_hosts: Annotated[int, BeforeValidator(_spare)] = 0


def is_no_play(item: object) -> bool:
    """Return whether an item of a playbook's list is outputs, variables, or anchors."""
    return is_outputs(item) or is_declaration(item) or is_for_anchors(item)


class PlayReader:
    """Reads the plays of one document; every fault is noted, and a play with a fault is left out."""

    def __init__(self, document: Document, kinds: Kinds, faults: FaultCollector) -> None:
        self.document, self.kinds, self.place = document, kinds, ValuePlace(document, (), faults)

    def plays(self) -> tuple[Play, ...]:
        """Return the plays of the document."""
        data = self.document.data
        if data == () and self.place.document.root.value == [] and self.place.faults.found:
            return ()  # what was to be included could not be
        if not isinstance(data, tuple) or not data:
            what = "is empty" if data in (None, ()) else "is not a list of plays"
            self.place.refuse((), f"the playbook {what}", "start each play with '- hosts: ...' or '- vms: ...'")
            return ()
        found = (self.play(index, value) for index, value in enumerate(data) if not is_no_play(value))
        if all(is_no_play(value) for value in data):
            self.place.refuse((), "the playbook has no play", "start one with '- hosts: ...' or '- vms: ...'")
        return tuple(play for play in found if play is not None)

    def outputs(self, plays: tuple[Play, ...]) -> tuple[PlaybookOutput, ...]:
        """Return the outputs of the document, which may name the sets of its plays."""
        data = self.document.data if isinstance(self.document.data, tuple) else ()
        known = None if self.place.faults.found else sets_of(plays)  # a set with a fault is not said to be missing
        found: dict[str, PlaybookOutput] = {}
        for index, item in enumerate(data):
            if isinstance(item, Mapping) and is_outputs(item):
                for each in read_outputs(item, self.place.inside((index,)), known):
                    earlier = found.setdefault(each.name, each)
                    if earlier is not each:
                        message = f"the output '{each.name}' is there already, at {earlier.mark}"
                        self.place.refuse_key((index, KEY, each.name), message, "choose another name")
        return tuple(found.values())

    def play(self, index: int, value: object) -> Play | None:
        """Return the play that an item of the document is."""
        path = (index,)
        if not isinstance(value, Mapping):
            help = "write '- hosts: ...' or '- vms: ...' and below it what they should be"
            self.place.refuse(path, f"a play is a mapping, but this is {describe(value)}", help)
            return None
        key = self._target_key(value, path)
        target = TARGETS.get(key)
        self._check_keys(value, path, target)
        selector = self._selector(value[key], target, (index, key)) if target and _has_conditions(value[key]) else None
        pattern = selector.text if selector else ""
        if key and not _has_conditions(value[key]):
            pattern = self._pattern(value, (index, key))
        if (pattern or selector) and any(issubclass(self.kinds[k], MakesVms) for k in value if k in self.kinds):
            self._check_names(pattern, (index, key))
        settings = self._settings(value, path)
        stated = tuple(self._stated(kind, value[kind], path) for kind in value if kind in self.kinds)
        if not any(kind in self.kinds for kind in value):
            self.place.refuse(path, "this play has no settings", f"add one of: {self._known(target)}")
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
            selector=selector,
        )

    def _target_key(self, value: Mapping[str, object], path: DocumentPath) -> str:
        keys = [key for key in TARGETS if key in value]
        if len(keys) > 1:
            each = " or for ".join(f"'{key}'" for key in keys)
            self.place.refuse_key((*path, keys[1]), f"a play is for {each}, not for both", "make two plays of it")
        elif not keys:
            help = "add 'hosts: PATTERN' or 'vms: PATTERN' (or 'datacenters: PATTERN')"
            self.place.refuse(path, "this play does not say what it is for", help)
        return keys[0] if len(keys) == 1 else ""

    def _check_keys(self, value: Mapping[str, object], path: DocumentPath, target: TargetKind | None) -> None:
        for key in value:
            kind = self.kinds.get(KindName(key))
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
            elif key.startswith(FOR_ANCHORS):
                help = f"write it as an item of its own, above this play: '- {key}: ...'"
                self.place.refuse_key((*path, key), f"'{key}' cannot stand in a play", help)
            elif not kind and key not in (*TARGETS, VARS, *PlaySettings.model_fields):
                known = [
                    *TARGETS,
                    VARS,
                    *PlaySettings.model_fields,
                    *(name for name, each in self.kinds.items() if target in (None, each.target)),
                ]
                self.place.refuse_key((*path, key), f"unknown key '{key}'", suggest(key, known))

    def _selector(self, given: object, target: TargetKind, path: DocumentPath) -> Selector | None:
        """Return the conditions of a play; those of a list are alternatives."""
        below = "any" if isinstance(given, tuple) else ""
        return validate(SELECTORS[target], {below: given} if below else given, self.place.inside(path, below))

    def _pattern(self, value: Mapping[str, object], path: DocumentPath) -> str:
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

    def _check_names(self, pattern: str, path: DocumentPath) -> None:
        """Refuse a pattern of a play that makes VMs which does not name them."""
        try:
            members(pattern)
        except PatternError as error:
            self.place.refuse(path, error.message, error.help)

    def _settings(self, value: Mapping[str, object], path: DocumentPath) -> PlaySettings | None:
        given = {key: value[key] for key in PlaySettings.model_fields if key in value}
        for part in ("rolling", "power"):
            below = given.get(part)
            for key in ("timeout", "shutdown_timeout", "settle"):
                if isinstance(below, Mapping) and isinstance(below.get(key), int | float):
                    help = f"write e.g. {below[key]}s or {below[key]}m"
                    self.place.refuse((*path, part, key), "this time has no unit", help)
        return validate(PlaySettings, given, self.place.inside(path))

    def _stated(self, name: str, value: object, path: DocumentPath) -> Stated | None:
        kind, at = self.kinds[KindName(name)], (*path, name)
        if value is None:
            self.place.refuse_key(at, f"'{name}' says nothing", "say what should be, or remove the line")
            return None
        if isinstance(value, Mapping) and not kind.keyed and self._is_item(kind, value):
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

    def _is_item(self, kind: type[Resource], value: Mapping[str, object]) -> bool:
        """Return whether a mapping is one item of the list a kind is written as."""
        own, item = settable(kind), settable(kind, (kind.shorthand,)) if kind.shorthand else []
        return bool(value) and not any(key in own for key in value) and any(key in item for key in value)

    def _known(self, target: TargetKind | None) -> str:
        return ", ".join(name for name, kind in self.kinds.items() if target in (None, kind.target))
