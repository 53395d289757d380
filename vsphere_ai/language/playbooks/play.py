"""Values that a playbook is made of, and the form in which a saved plan keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from functools import cache, cached_property
from typing import Annotated, Literal, Protocol

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.language.inventories.selectors import SELECTORS, DatacenterGroup, HostGroup, VmSelector
from vsphere_ai.language.yaml_files.document import FaultCollector, describe, excerpt
from vsphere_ai.language.yaml_files.variable_values import GivenValue
from vsphere_ai.model.state import KindName, Target, TargetKind
from vsphere_ai.model.variables import VariableValue
from vsphere_ai.resources.base import Resource

Kinds = Mapping[KindName, type[Resource]]

FORMAT = 1
TARGETS: Mapping[str, TargetKind] = {"datacenters": "datacenter", "hosts": "host", "vms": "vm"}

_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
_DAY = 86_400


def seconds(value: object) -> int:
    """Return the seconds of ``30m``, ``1h30m`` or ``90s``: more than 0 and at most a day."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found and value:
        value = sum(int(n) * unit for n, unit in zip(found.groups(), (3600, 60, 1), strict=True) if n)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{describe(value)} is not a time\nwrite a number and a unit: 90s, 30m, 1h30m")
    # vSphere takes a timeout of 0 for "never".
    if not 0 < value <= _DAY:
        raise ValueError("a time must be more than 0 and at most 24h\nwrite e.g. 30m")
    return value


def _failures(value: object) -> object:
    if value == 0 and isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return _share(value)
    except ValueError:
        raise ValueError(
            f"{describe(value)} is not a number of hosts\nwrite 0 or more, or a share of the hosts such as 10%"
        ) from None


def _batches(value: object) -> object:
    given = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not given:
        raise ValueError("an empty list is no batches\nwrite e.g. [1, 25%], or leave it out")
    return tuple(_share(size) for size in given)


def _share(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"[1-9]\d?%|100%", value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError(
        f"{describe(value)} is not a number of hosts\nwrite 1 or more, or a share of the cluster such as 25%"
    )


Seconds = Annotated[int, BeforeValidator(seconds)]


class PlayOptions(BaseModel):
    """A part of a play that says how, not what."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)


class Rolling(PlayOptions):
    """How hosts are taken out of service. `timeout` (seconds) bounds each of: entering maintenance, coming back."""

    max_unavailable: Annotated[int | str, BeforeValidator(_share)] = 1
    """Hosts per cluster that may be down at once, or a share of them such as ``25%``."""
    serial: Annotated[tuple[int | str, ...], BeforeValidator(_batches)] = ()
    """Sizes of the batches, the last one repeated; a share is one of the hosts of a cluster in the rollout."""
    max_fail: Annotated[int | str, BeforeValidator(_failures)] = 0
    """Hosts of a cluster that may fail before no further one is started, or a share of those in the rollout."""
    evacuate: Literal["refuse", "power_off", "vmotion"] = "refuse"
    reboot: Literal["ssh", "api"] = "ssh"
    timeout: Seconds = 1800
    settle: Seconds = 60
    """How long (seconds) a host may take to be healthy once it is in service again."""


class Power(PlayOptions):
    """How VMs are switched off: guest shutdown for `shutdown_timeout` seconds, then, with `force`, the hard way."""

    shutdown_timeout: Seconds = 300
    force: bool = False


@dataclass(frozen=True)
class Stated:
    """A wanted state and where the playbook says it."""

    state: Resource
    mark: Mark


def _state_document(stated: Stated) -> dict[str, object]:
    state = stated.state.model_dump(mode="json", exclude_unset=True)
    return {"kind": stated.state.kind, "state": state, "mark": astuple(stated.mark)}


def _stated_of(document: dict[str, JsonValue], info: ValidationInfo) -> Stated:
    kind: type[Resource] = info.context[document["kind"]]  # type: ignore[index] # the kinds, see `from_document`
    # JSON has lists where the models have tuples; pydantic's JSON mode knows that.
    mark = TypeAdapter(Place).validate_python(document["mark"])
    return Stated(kind.model_validate_json(json.dumps(document["state"])), mark)


def _fields(*names: str) -> BeforeValidator:
    return BeforeValidator(lambda given: dict(zip(names, given, strict=True)) if isinstance(given, list) else given)


# how a saved plan keeps them
Place = Annotated[Mark, _fields("file", "line", "column"), PlainSerializer(astuple)]
Meant = Annotated[Target, _fields("kind", "name", "ref"), PlainSerializer(astuple)]
Wanted = Annotated[Stated, PlainValidator(_stated_of), PlainSerializer(_state_document)]
Selector = HostGroup | VmSelector | DatacenterGroup


def _selector_document(selector: Selector | None) -> dict[str, object] | None:
    if selector is None:
        return None
    return {"of": selector.kind, "conditions": selector.model_dump(mode="json", exclude_none=True)}


def _selector_of(document: object) -> object:
    if not isinstance(document, dict):
        return document
    return SELECTORS[document["of"]].model_validate_json(json.dumps(document["conditions"]))


Conditional = Annotated[Selector | None, PlainValidator(_selector_of), PlainSerializer(_selector_document)]


@dataclass(frozen=True)
class Play:
    """What some hosts or some VMs should be. `mark` is the play's place, `pattern_mark` that of its pattern."""

    name: str
    target: TargetKind
    pattern: str
    states: tuple[Wanted, ...]
    rolling: Rolling = field(default_factory=Rolling)
    power: Power = field(default_factory=Power)
    vcenter: str = ""
    spare_hosts: int = 0
    """Hosts that may fail while all VMs of the play still find a GPU elsewhere; 0 asks for none."""
    mark: Place = field(default_factory=lambda: Mark(""))
    pattern_mark: Place = field(default_factory=lambda: Mark(""))
    targets: tuple[Meant, ...] | None = None
    """What the pattern meant when a run was approved: these and no others, by reference; those that are gone are left
    out. None: the pattern is looked up."""
    part: tuple[Meant, ...] | None = None
    """Those of its targets that have these values of variables; further plays of the same pattern have the others."""
    replaces: Mapping[str, int] = field(default_factory=dict)
    """Names of VMs of a set that are made anew, and the generation that goes; 0: the one that is there."""
    adopts: tuple[str, ...] = ()
    """Names of VMs that become VMs of the set as they are; of the others nothing changes."""
    detach_disks: bool = False
    """Disks that are not the own ones of a VM are detached before it is destroyed, and stay."""
    selector: Conditional = None
    """The conditions that stand in the place of a pattern; `pattern` is then their text."""


@dataclass(frozen=True)
class VmValue:
    """A value of VMs of a set, as in ``${train[1].nics.mgmt.address}``: of one by its index, or of each (None)."""

    text: str
    set: str
    index: int | None
    path: tuple[str, ...]


@dataclass(frozen=True)
class PlaybookOutput:
    """A named value that a playbook gives to others: the parts of each of its texts; a number or a boolean is one part.

    `listed`: the playbook writes a list. A text with a value of each VM is a list by itself.
    """

    name: str
    items: tuple[tuple[str | int | float | bool | VmValue, ...], ...]
    listed: bool
    mark: Mark


@dataclass(frozen=True)
class ResolvedReference:
    """A reference as it is written, the other playbook (absolute path) and its output, the value, and the place."""

    text: str
    file: str
    output: str
    value: str | int | float | bool | tuple[str | int | float | bool, ...]
    mark: Place


Uses = Mapping[str, frozenset[str]]
"""Variables that a play names, by kind; those of keys that are no kinds under an empty one."""


class Varies(Protocol):
    """A play with variables of which groups and hosts of the inventory give different values; see `varying.Varying`."""

    def values(self, host: str, groups: Collection[str], faults: FaultCollector) -> Mapping[str, GivenValue]:
        """Return the values of a host in some groups."""

    def own(self, values: Mapping[Target, Mapping[str, GivenValue]]) -> Iterator[tuple[Target, str, GivenValue]]:
        """Yield the values that groups and hosts give."""

    def parts(
        self, play: Play, values: Mapping[Target, Mapping[str, GivenValue]], faults: FaultCollector, excerpt: str
    ) -> Iterator[Play]:
        """Yield the play for the hosts of each combination of values."""


@dataclass(frozen=True)
class Playbook:
    """A playbook that was read. `digest` is the SHA-256 of its text, `text` that text, if it is at hand."""

    path: str
    digest: str
    plays: tuple[Play, ...]
    text: str = field(default="", repr=False, compare=False)
    outputs: tuple[PlaybookOutput, ...] = ()
    """What it gives to others; a saved plan does not keep them."""
    references: tuple[ResolvedReference, ...] = ()
    """What it takes from others, with the values that it was read with."""
    variables: tuple[VariableValue, ...] = ()
    """What its variables are."""
    varying: Mapping[Mark, Varies] = field(default_factory=dict, repr=False, compare=False)
    """Plays by their place whose hosts have different values of variables."""
    uses: Mapping[Mark, Uses] = field(default_factory=dict, repr=False, compare=False)
    """Variables that plays name, by the place of the play, and those that outputs name, by no place."""
    declared: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Names of its variables, in order."""
    texts: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Texts of the files that it includes, by name."""
    unmatched: dict[Mark, InputError] | None = field(default=None, repr=False, compare=False)
    """Where it is for several vCenters: plays by their place whose patterns mean nothing in this one, and why."""

    def excerpt(self, mark: Mark, width: int = 1) -> str:
        """Return the line of a place in the playbook, or in a file that it includes, as `document.excerpt` does."""
        return excerpt(self.texts.get(mark.file, self.text), mark, width)


@dataclass(frozen=True)
class TargetPlan:
    """All that is wanted of one host or VM, from every play that means it."""

    states: tuple[Resource, ...]
    rolling: Rolling = field(default_factory=Rolling)
    power: Power = field(default_factory=Power)
    marks: Mapping[str, Mark] = field(default_factory=dict)
    """Kind -> where the playbook says it."""
    spare_hosts: int = 0
    start_ssh: bool = True
    """Whether a run may start the SSH service of a host; the inventory says."""


TargetPlans = Mapping[Target, TargetPlan]
"""What a playbook wants of each target."""


class Desired(dict[Target, TargetPlan]):
    """What a playbook wants of each of its targets; not changed once it is made."""

    @cached_property
    def stated(self) -> Mapping[tuple[str, KindName], Resource]:
        """The wanted states by reference of the target and kind."""
        return {(target.ref, state.kind): state for target, plan in self.items() for state in plan.states}


def stated_of(desired: Mapping[Target, TargetPlan]) -> Mapping[tuple[str, KindName], Resource]:
    """Return the wanted states by reference of the target and kind."""
    return (desired if isinstance(desired, Desired) else Desired(desired)).stated


@cache
def _references() -> TypeAdapter[tuple[ResolvedReference, ...]]:
    return TypeAdapter(tuple[ResolvedReference, ...])


@cache
def _variables() -> TypeAdapter[tuple[VariableValue, ...]]:
    return TypeAdapter(tuple[VariableValue, ...])


@cache
def _saved() -> TypeAdapter[tuple[Play, ...]]:
    return TypeAdapter(tuple[Play, ...])


def to_document(playbook: Playbook) -> dict[str, JsonValue]:
    """Return a playbook as plain JSON values, to be kept inside of a saved plan."""
    plays = _saved().dump_python(playbook.plays, mode="json", exclude_unset=True, exclude_none=True)
    saved: dict[str, JsonValue] = {"format": FORMAT, "path": playbook.path, "digest": playbook.digest, "plays": plays}
    if playbook.references:
        saved["references"] = _references().dump_python(playbook.references, mode="json")
    if playbook.variables:
        saved["variables"] = _variables().dump_python(playbook.variables, mode="json")
    return saved


def from_document(document: Mapping[str, JsonValue], kinds: Kinds) -> Playbook:
    """Return the playbook of `to_document`; `InputError` when the document is not one."""
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']}, this version reads {FORMAT}\nplan again")
        plays = _saved().validate_json(json.dumps(document["plays"]), context=kinds)
        for play in plays:
            if any(stated.state.target != play.target for stated in play.states):
                raise ValueError(f"it has settings that are not of a {play.target}\nplan again")
        references = _references().validate_json(json.dumps(document.get("references", [])))
        variables = _variables().validate_json(json.dumps(document.get("variables", [])))
        path, digest = str(document["path"]), str(document["digest"])
        return Playbook(path, digest, plays, references=references, variables=variables)
    except RecursionError:
        reason = "it is nested too deeply"
    except ValidationError as error:
        reason = f"{error.error_count()} values are wrong"
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error)
    message = f"the saved playbook cannot be read: {reason}"
    raise InputError([Diagnostic(Mark("saved plan"), message, "make the plan again")])
