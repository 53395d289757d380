"""Outputs of a playbook: texts with ``${...}`` for values of the VMs that its sets make; their grammar and checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.errors import Mark
from vsphere_ai.language.inventories.patterns import PatternError, members
from vsphere_ai.language.playbooks.play import Play, PlaybookOutput, VmValue
from vsphere_ai.language.yaml_files.document import DocumentPath, describe
from vsphere_ai.language.yaml_files.validation import ValuePlace
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.resources.makes_vms import MakesVms

KEY = "outputs"
FIELDS = ("name", "index", "rank", "moid", "instance_uuid", "host", "profile", "gpus", "gpu_pci")
"""Fields of a VM."""
NIC_FIELDS = (
    "mac",
    *(f"{name}{family}" for family in ("", "6") for name in ("address", "prefix", "gateway")),
    *("mtu", "port_group", "rail", "role", "pci", "rdma_device"),
)
"""Fields of a NIC. `address`, `prefix` and `gateway` are of IPv4, or of IPv6 where it has no IPv4 address."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TOKEN = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_OF_SET = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)\[\s*(\*|[0-9]{1,6})\s*\]\.(.*)")


@dataclass(frozen=True)
class KnownSet:
    """A set that outputs may name: its VMs by their index, and the names of its NICs."""

    vms: Mapping[int, str]
    nics: tuple[str, ...]
    vcenter: str = ""


class Wrong(ValueError):
    """A value between ``${`` and ``}`` that means nothing; `help` is what would work."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message, self.help = message, help


def sets_of(plays: Sequence[Play]) -> dict[str, KnownSet]:
    """Return the sets that plays make, by name."""
    found: dict[str, KnownSet] = {}
    for play in plays:
        for stated in play.states:
            if isinstance(stated.state, MakesVms):
                wanted = stated.state.wanted_set()
                try:
                    names = members(play.pattern)
                except PatternError:
                    continue
                found[wanted.name] = KnownSet(names, tuple(n.name for n in wanted.nics), play.vcenter)
    return found


def is_outputs(item: object) -> bool:
    """Return whether an item of a playbook's list is no play, but outputs."""
    return isinstance(item, Mapping) and KEY in item


def read_outputs(
    item: Mapping[str, object], place: ValuePlace, known: Mapping[str, KnownSet] | None
) -> tuple[PlaybookOutput, ...]:
    """Return the outputs of an item; faults go to the place. Without `known` sets, only their form is checked."""
    for key in item:
        if key not in (KEY, "name"):
            help = "outputs are an item of their own: '- outputs: {NAME: \"${...}\"}'"
            place.refuse_key((key,), f"'{key}' is for plays, and this item has 'outputs'", help)
    given = item[KEY]
    if not isinstance(given, Mapping) or not given:
        help = "write names and below them texts, as in 'master: \"${train[1].nics.mgmt.address}\"'"
        place.refuse((KEY,), f"outputs are a mapping, but this is {describe(given)}", help)
        return ()
    return tuple(o for name, value in given.items() if (o := _output(name, value, place, known)) is not None)


def _output(name: str, value: object, place: ValuePlace, known: Mapping[str, KnownSet] | None) -> PlaybookOutput | None:
    at: DocumentPath = (KEY, name)
    if not _NAME.fullmatch(name):
        place.refuse_key(at, f"'{name}' is no name of an output", "small letters, digits and '_', at most 40")
        return None
    listed = isinstance(value, tuple)
    items = value if isinstance(value, tuple) else (value,)
    found: list[tuple[str | int | float | bool | VmValue, ...]] = []
    for number, item in enumerate(items):
        spot = (*at, number) if listed else at
        if item is None or isinstance(item, Mapping | tuple):
            place.refuse(spot, f"expected text, but this is {describe(item)}", "an output is text, or a list of texts")
            continue
        try:
            found.append(_template(item, spot, place, known) if isinstance(item, str) else (_constant(item),))
        except Wrong as wrong:
            place.refuse(spot, wrong.message, wrong.help)
    mark = place.document.mark_of_key(place.at(at))
    return PlaybookOutput(name, tuple(found), listed, mark)


def _constant(value: object) -> int | float | bool | str:
    return value if isinstance(value, int | float) else str(value)


def _template(
    text: str, spot: DocumentPath, place: ValuePlace, known: Mapping[str, KnownSet] | None
) -> tuple[str | VmValue, ...]:
    parts: list[str | VmValue] = []
    for part, written in split(text):
        if not written:
            parts.append(part)
            continue
        try:
            parts.append(_value(part, known))
        except Wrong as wrong:
            _refuse_at(written, spot, place, wrong)
    every = {p.set for p in parts if isinstance(p, VmValue) and p.index is None}
    if len(every) > 1:
        words = " and ".join(f"{name}[*]" for name in sorted(every))
        raise Wrong(f"one text is made for each VM of one set, but this has {words}", "make two outputs of it")
    if (
        known is not None
        and len({known[p.set].vcenter for p in parts if isinstance(p, VmValue) and p.set in known}) > 1
    ):
        raise Wrong("the VMs of this text are in different vCenters", "make two outputs of it")
    return tuple(parts)


def split(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text: plain ones, and what is between ``${`` and ``}`` with how it is written."""
    at = 0
    for token in _TOKEN.finditer(text):
        if token.start() > at:
            yield text[at : token.start()], ""
        at = token.end()
        if token[0] == "$${":
            yield "${", ""
        elif token[1] is None:
            raise Wrong("'${' is not closed", "write '${...}', and '$${' for the two signs themselves")
        else:
            yield token[1], token[0]
    if at < len(text) or not text:
        yield text[at:], ""


def _refuse_at(written: str, spot: DocumentPath, place: ValuePlace, wrong: Wrong) -> None:
    """Refuse a value at its own column, where it is on the line on which the text begins."""
    document, mark = place.document, place.document.mark_of(place.at(spot))
    lines = document.text.splitlines()
    line = lines[mark.line - 1] if 0 < mark.line <= len(lines) else ""
    column = line.find(written, mark.column - 1)
    if column >= 0:
        mark = Mark(mark.file, mark.line, column + 1)
    place.faults.add(mark, wrong.message, wrong.help, excerpt=document.excerpt(mark, len(written)))


def _value(written: str, known: Mapping[str, KnownSet] | None) -> VmValue:
    text = written.strip()
    of_set = _OF_SET.fullmatch(text)
    if of_set is not None:
        name, chosen, rest = of_set.groups()
        path = tuple(rest.split("."))
        if known is not None:
            _require_in_set(name, chosen, known)
        value = VmValue(text, name, None if chosen == "*" else int(chosen), path)
    else:
        value = _of_vm(text, known)
    _require_field(value, known)
    return value


def _of_vm(text: str, known: Mapping[str, KnownSet] | None) -> VmValue:
    help = "write e.g. ${train[1].name}, ${train[*].nics.mgmt.address} or ${train-01.host}"
    if "." not in text:
        raise Wrong(f"'{text}' is no value of a VM", help)
    if known is None:
        return VmValue(text, "", 1, ("name",))
    names = {name: (each, index) for each, one in known.items() for index, name in one.vms.items()}
    found = max((n for n in names if text.startswith(f"{n}.")), key=len, default=None)
    if found is None:
        start = text.partition(".")[0]
        raise Wrong(f"no set makes a VM '{start}'", suggest(start, {*names, *known}, "there is") or help)
    return VmValue(text, names[found][0], names[found][1], tuple(text[len(found) + 1 :].split(".")))


def _require_in_set(name: str, chosen: str, known: Mapping[str, KnownSet]) -> None:
    if name not in known:
        raise Wrong(f"no play makes a set '{name}'", suggest(name, known, "there is") or "the playbook makes no VMs")
    if chosen != "*" and int(chosen) not in known[name].vms:
        shown = ", ".join(map(str, sorted(known[name].vms)[:12]))
        raise Wrong(f"the set '{name}' has no VM {chosen}", f"VMs are counted from 1; it has {shown}")


def _require_field(value: VmValue, known: Mapping[str, KnownSet] | None) -> None:
    first, *rest = value.path
    if first != "nics" or not rest:
        if first not in FIELDS:
            raise Wrong(f"a VM has no '{first}'", suggest(first, (*FIELDS, "nics.NAME.address")))
        if rest:
            raise Wrong(f"'{first}' has nothing below it", f"write ${{{value.text.rsplit('.', len(rest))[0]}}}")
        return
    if known is not None and rest[0] not in (nics := known[value.set].nics):
        raise Wrong(f"the VMs of '{value.set}' have no NIC '{rest[0]}'", suggest(rest[0], nics, "there is"))
    field = ".".join(rest[1:])
    if field not in NIC_FIELDS:
        shown = f"'{field}'" if field else "value of its own"
        raise Wrong(f"a NIC has no {shown}", suggest(field, NIC_FIELDS))
