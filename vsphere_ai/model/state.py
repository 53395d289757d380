"""Targets, states, and the difference between two states of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NewType, Self, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict, Field

TargetKind = Literal["datacenter", "host", "vm"]
KindName = NewType("KindName", str)
"""The name of a kind. Only `resources` makes names of its own; other rooms have those of states, of changes or of
`kinds()`, or check a text against these: so no word that is spelt like a kind is taken for one."""


@dataclass(frozen=True, order=True)
class Target:
    """A datacenter (for what its hosts and VMs share), an ESXi host or a virtual machine.

    `ref` is its managed object reference, e.g. ``HostSystem:host-12``.
    """

    kind: TargetKind
    name: str
    ref: str

    def __str__(self) -> str:
        return self.name


class Settings(BaseModel):
    """Settings of which a playbook names some: what is left out (None) stays as it is."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)
    other_words: ClassVar[Mapping[str, str]] = {}
    """Words of other tools for these settings (see `same_word`) -> the help for someone who writes one of them."""

    def filled(self, now: Self | None) -> Self:
        """Return these settings with what is left out as it is now."""
        return self.model_copy(update={n: getattr(now, n) for n, value in self if value is None} if now else {})


class State(Settings):
    """A state of one kind: wanted (from a playbook) and observed (from the estate) have the same shape.

    None in a wanted state means "leave as it is"; None in an observed state means "cannot be known".
    """

    kind: ClassVar[KindName]
    shorthand: ClassVar[str] = ""
    """The field a bare list or scalar is put in: ``vgpu: [a]`` is ``vgpu: {profiles: [a]}``."""
    keyed: ClassVar[bool] = False
    """The shorthand's field is a mapping of names, and a playbook writes nothing else: ``uplinks: {dvs-1: {...}}``."""


class Placed:
    """A state of a VM that decides on which hosts the VM can run."""

    @property
    def is_bound(self) -> bool:
        """Whether a VM in this state may be unable to run on a host."""
        return type(self).runs_on is not Placed.runs_on

    def runs_on(self, host: Target, view: Any) -> bool:
        """Return whether a VM in this state can run on a host; `view` is the estate as planned so far.

        That depends on the state and on the host, not on what is planned of VMs.
        """
        return True


class FieldLimits(TypedDict, total=False):
    """What a field takes, as pydantic checks it."""

    ge: int
    le: int
    min_length: int
    max_length: int
    pattern: str


def setting(description: str, **limits: Unpack[FieldLimits]) -> Any:
    """Declare a field of a playbook that may be left out."""
    return Field(default=None, description=description, **limits)


def observed(description: str) -> Any:
    """Declare a field that is read and shown, but cannot be set in a playbook."""
    return Field(default=None, description=description, json_schema_extra={"observed": True})


def is_observed(model: type[BaseModel], field: str) -> bool:
    """Return whether a field was declared with `observed`."""
    extra = model.model_fields[field].json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("observed"))


Effect = Literal["", "in place", "power cycle", "rebuild"]
"""What the change of a field takes: nothing else, the VM off and on again, or another VM in its place."""


@dataclass(frozen=True)
class FieldChange:
    """One line of a plan: a field (dotted below a mapping), its value before and after; None = absent."""

    name: str
    before: Any
    after: Any
    effect: Effect = ""

    @property
    def sign(self) -> str:
        """``+`` when something appears, ``-`` when it goes or a list only loses entries, ``~`` when it changes."""
        if self.before in (None, (), {}):
            return "+"
        gone, new = _entries(self.before, self.after), _entries(self.after, self.before)
        return "-" if self.after in (None, (), {}) or (gone and not new) else "~"

    @property
    def removed(self) -> int:
        """How many things go: of a list those entries that nothing replaces."""
        entries = len(_entries(self.before, self.after)) - len(_entries(self.after, self.before))
        return max(entries, int(self.sign == "-"))


def _entries(of: object, without: object) -> list[object]:
    """Return the entries of a list, or the keys of a mapping, that another has not; anything else has none."""
    if not isinstance(of, tuple | Mapping):
        return []
    left = list(without) if isinstance(without, tuple | Mapping) else []
    found = []
    for entry in of:
        if entry in left:
            left.remove(entry)
        else:
            found.append(entry)
    return found


@dataclass(frozen=True)
class Change:
    """From what is there to what is wanted, for one kind on one target."""

    target: Target
    before: Any
    after: Any
    recreate: bool = False
    """It is in the desired state now, but a reboot of this plan destroys it and the plan makes it again."""

    @property
    def kind(self) -> KindName:
        """The kind both states are of."""
        kind: KindName = self.after.kind
        return kind

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """Every field that differs, in the order of the model."""
        return differences(self.before, self.after)


def differences(before: object, after: BaseModel | None) -> tuple[FieldChange, ...]:
    """Return every field in which `after` asks for something else than `before` is, in the order of the model."""
    return tuple(_differences(before, after)) if after is not None else ()


def _differences(before: object, after: BaseModel) -> Iterator[FieldChange]:
    for name in type(after).model_fields:
        old, new = getattr(before, name, None), getattr(after, name)
        if new is None:
            continue  # left as it is
        if isinstance(new, Mapping):
            yield from _of_mappings(old or {}, new)
        elif old != new:
            yield FieldChange(name, old, new)


def _of_mappings(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[FieldChange]:
    for key in sorted(new):
        one, two = old.get(key), new[key]
        if one == two:
            continue
        if isinstance(two, BaseModel) and (one is None or isinstance(one, BaseModel)):
            for field in _differences(one, two):
                yield FieldChange(f"{key} {field.name}", field.before, field.after)
        else:
            yield FieldChange(key, one, two)
