"""Values that a playbook is made of, and the form in which a saved plan keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.language.validation import describe
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.resources.base import Resource

Kinds = Mapping[str, type[Resource]]

FORMAT = 1

_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
_DAY = 86_400


def seconds(value: object) -> Any:
    """Return the seconds of ``30m``, ``1h30m`` or ``90s``: more than 0 and at most a day."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found and value:
        value = sum(int(number or 0) * unit for number, unit in zip(found.groups(), (3600, 60, 1), strict=True))
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


class Options(BaseModel):
    """A part of a play that says how, not what."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Rolling(Options):
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


class Power(Options):
    """How VMs are switched off: guest shutdown for `shutdown_timeout` seconds, then, with `force`, the hard way."""

    shutdown_timeout: Seconds = 300
    force: bool = False


@dataclass(frozen=True)
class Stated:
    """A wanted state and where the playbook says it."""

    state: Resource
    mark: Mark


@dataclass(frozen=True)
class Play:
    """What some hosts or some VMs should be. `mark` is the play's place, `pattern_mark` that of its pattern."""

    name: str
    target: TargetKind
    pattern: str
    states: tuple[Stated, ...]
    rolling: Rolling = field(default_factory=Rolling)
    power: Power = field(default_factory=Power)
    vcenter: str = ""
    spare_hosts: int = 0
    """Hosts that may fail while all VMs of the play still find a GPU elsewhere; 0 asks for none."""
    mark: Mark = field(default_factory=lambda: Mark(""))
    pattern_mark: Mark = field(default_factory=lambda: Mark(""))
    targets: tuple[Target, ...] | None = None
    """What the pattern meant when a run was approved: these and no others, by reference; those that are gone are left
    out. None: the pattern is looked up."""


@dataclass(frozen=True)
class Playbook:
    """A playbook that was read. `digest` is the SHA-256 of its text, `text` that text, if it is at hand."""

    path: str
    digest: str
    plays: tuple[Play, ...]
    text: str = field(default="", repr=False, compare=False)


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


class Desired(dict[Target, TargetPlan]):
    """What a playbook wants of each of its targets; not changed once it is made."""

    @cached_property
    def stated(self) -> Mapping[tuple[str, str], Resource]:
        """The wanted states by reference of the target and kind."""
        return {(target.ref, state.kind): state for target, plan in self.items() for state in plan.states}


def stated_of(desired: Mapping[Target, TargetPlan]) -> Mapping[tuple[str, str], Resource]:
    """Return the wanted states by reference of the target and kind."""
    return (desired if isinstance(desired, Desired) else Desired(desired)).stated


def to_document(playbook: Playbook) -> dict[str, Any]:
    """Return a playbook as plain JSON values, to be kept inside of a saved plan."""
    return {
        "format": FORMAT,
        "path": playbook.path,
        "digest": playbook.digest,
        "plays": [_play_document(play) for play in playbook.plays],
    }


def from_document(document: Mapping[str, Any], kinds: Kinds) -> Playbook:
    """Return the playbook of `to_document`; `InputError` when the document is not one."""
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']}, this version reads {FORMAT}")
        plays = tuple(_play(play, kinds) for play in document["plays"])
        return Playbook(str(document["path"]), str(document["digest"]), plays)
    except RecursionError:
        message = "the saved playbook cannot be read: it is nested too deeply"
        raise InputError([Diagnostic(Mark("saved plan"), message, "make the plan again")]) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # a ValidationError is a ValueError
        reason = f"{error.error_count()} values are wrong" if isinstance(error, ValidationError) else str(error)
        message = f"the saved playbook cannot be read: {reason}"
        raise InputError([Diagnostic(Mark("saved plan"), message, "make the plan again")]) from None


def _play_document(play: Play) -> dict[str, object]:
    return {
        "name": play.name,
        "target": play.target,
        "pattern": play.pattern,
        "vcenter": play.vcenter,
        "spare_hosts": play.spare_hosts,
        "states": [
            {
                "kind": stated.state.kind,
                "state": stated.state.model_dump(mode="json", exclude_unset=True),
                "mark": _mark_document(stated.mark),
            }
            for stated in play.states
        ],
        "rolling": play.rolling.model_dump(mode="json", exclude_unset=True),
        "power": play.power.model_dump(mode="json", exclude_unset=True),
        "mark": _mark_document(play.mark),
        "pattern_mark": _mark_document(play.pattern_mark),
        **({} if play.targets is None else {"targets": [[t.kind, t.name, t.ref] for t in play.targets]}),
    }


def _mark_document(mark: Mark) -> list[str | int]:
    return [mark.file, mark.line, mark.column]


def _mark(document: Any) -> Mark:
    file, line, column = document
    return Mark(_text(file), int(line), int(column))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{describe(value)} stands where text belongs")
    return value


def _kind(value: Any) -> TargetKind:
    if value not in get_args(TargetKind):
        raise ValueError(f"{describe(value)} is no kind of target")
    kind: TargetKind = value
    return kind


def _play(document: Mapping[str, Any], kinds: Kinds) -> Play:
    # JSON has lists where the models have tuples; pydantic's JSON mode knows that.
    states = (
        Stated(kinds[each["kind"]].model_validate_json(json.dumps(each["state"])), _mark(each["mark"]))
        for each in document["states"]
    )
    meant, target = document.get("targets"), _kind(document["target"])
    stated = tuple(states)
    if any(s.state.target != target for s in stated):
        raise ValueError(f"it has settings that are not of a {target}")
    return Play(
        name=_text(document["name"]),
        target=target,
        pattern=_text(document["pattern"]),
        states=stated,
        rolling=Rolling.model_validate_json(json.dumps(document["rolling"])),
        power=Power.model_validate_json(json.dumps(document["power"])),
        vcenter=_text(document["vcenter"]),
        spare_hosts=int(document["spare_hosts"]),
        mark=_mark(document["mark"]),
        pattern_mark=_mark(document["pattern_mark"]),
        targets=None if meant is None else tuple(Target(_kind(k), _text(name), _text(ref)) for k, name, ref in meant),
    )
