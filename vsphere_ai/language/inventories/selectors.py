"""Selectors: conditions of plays and of groups of an inventory, by which hosts, VMs and datacenters are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from vsphere_ai.errors import UsageError
from vsphere_ai.language.inventories.inventory_fields import InventorySection
from vsphere_ai.language.inventories.patterns import PatternError, Term, condition, parse, split
from vsphere_ai.model.state import TargetKind

POWER: Mapping[TargetKind, tuple[str, ...]] = {"host": ("on", "off", "standby"), "vm": ("on", "off", "suspended")}
APPLIES: Mapping[str, tuple[TargetKind, ...]] = {
    "tag": ("datacenter", "host", "vm"),
    "attribute": ("datacenter", "host", "vm"),
    "pool": ("vm",),
    "cluster": ("host", "vm"),
    "datacenter": ("datacenter", "host", "vm"),
    "folder": ("host", "vm"),
    "gpu": ("host", "vm"),
    "power": ("host", "vm"),
}
"""Condition -> the kinds of targets that it can be about."""


class Unread(UsageError, remedy="name hosts or VMs, or a group of names"):
    """Conditions ask for facts that were not read: `wants` are pairs of a condition's key and what of it is wanted."""

    title = "usage"

    def __init__(self, wants: Iterable[tuple[str, str]]) -> None:
        self.wants = frozenset(wants)
        keys = ", ".join(f"'{key}='" for key in sorted({key for key, _ in self.wants}))
        super().__init__(f"{keys} cannot be used here", rule="selector.not-here")


def pattern_text(text: str) -> str:
    """Return a pattern as it is; ValueError when it cannot be read."""
    return pattern_texts((text,), split)[0]


def pattern_texts(texts: tuple[str, ...], check: Callable[..., Iterable[Term]] = parse) -> tuple[str, ...]:
    """Return patterns as they are; ValueError when one cannot be read, or together they only take away."""
    try:
        tuple(check(*texts))
    except PatternError as error:
        raise ValueError(f"{error.message}\n{error.help}") from None
    return texts


def listed(given: object) -> object:
    """Return one text as a list of it; everything else as it is."""
    return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given


def as_selector(given: object) -> object:
    """Return a pattern, or several, as the selector of these names; everything else as it is."""
    if isinstance(given, str):
        return {"names": (given,)}
    return {"names": given} if isinstance(given, tuple | list) and all(isinstance(t, str) for t in given) else given


def as_selectors(given: object) -> object:
    """Return selectors of which some are written as patterns, and one alone as a list of it."""
    several = given if isinstance(given, tuple | list) else (given,)
    return tuple(as_selector(each) for each in several)


def tag_name(text: str) -> str:
    """Return ``Category/name`` of a tag; ValueError when one of the two is missing."""
    category, slash, name = text.partition("/")
    if not (category and slash and name):
        raise ValueError(f"'{text}' does not say which tag\nwrite the category and the tag: Team/ml, or Team/*")
    return text


def power_state(text: str, kinds: Iterable[TargetKind]) -> str:
    """Return a power state of targets of these kinds; ValueError when it is none."""
    words = tuple(dict.fromkeys(word for kind in kinds for word in POWER.get(kind, ())))
    if text not in words:
        raise ValueError(f"'{text}' is no power state\nwrite {', '.join(words[:-1])} or {words[-1]}")
    return text


def _host_power(text: str) -> str:
    return power_state(text, ("host",))


def _vm_power(text: str) -> str:
    return power_state(text, ("vm",))


Text = Annotated[str, Field(min_length=1)]
Patterns = Annotated[
    tuple[Annotated[str, AfterValidator(pattern_text)], ...], BeforeValidator(listed), AfterValidator(pattern_texts)
]
Values = Annotated[tuple[Text, ...], BeforeValidator(listed)]
Tags = Annotated[tuple[Annotated[str, AfterValidator(tag_name)], ...], BeforeValidator(listed)]
HostPower = Annotated[tuple[Annotated[str, AfterValidator(_host_power)], ...], BeforeValidator(listed)]
VmPower = Annotated[tuple[Annotated[str, AfterValidator(_vm_power)], ...], BeforeValidator(listed)]


class Conditions(InventorySection):
    """Targets that fulfil all of the given conditions; of several values of one condition any is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    kind: ClassVar[TargetKind]

    names: Patterns | None = None
    """Patterns, as a play has them."""
    datacenter: Values | None = None
    """Names or inventory paths of datacenters."""
    tag: Tags | None = None
    """vSphere tags that are attached to it, each as `Category/name`; `*` stands for any characters."""
    attribute: Mapping[str, Values] | None = None
    """Custom attributes by name, each with its value; `*` stands for any characters."""
    any: tuple[Conditions, ...] | None = None
    without: tuple[Conditions, ...] | None = None

    @model_validator(mode="after")
    def _something(self) -> Conditions:
        if not [value for _, value in self if value]:
            known = " or ".join(f"'{name}: ...'" for name in type(self).model_fields)
            raise ValueError(f"this selects nothing\ngive {known}")
        return self

    def terms(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each condition but `names`, `any` and `without`: its key, and the values of which any is enough."""
        for key in APPLIES:
            value = getattr(self, key) if key in type(self).model_fields else None
            if key == "attribute" and value:
                for name, texts in value.items():
                    yield key, tuple(f"{name}={text}" for text in texts)
            elif value:
                yield key, value

    @property
    def text(self) -> str:
        """The selector in a line, as it is shown."""
        parts = [_either(self.names or ())] if self.names else []
        parts += [_either(condition(key, value) for value in values) for key, values in self.terms()]
        parts += [_either(_closed(each.text) for each in self.any)] if self.any else []
        parts += [f"not {_closed(each.text)}" for each in self.without or ()]
        return " and ".join(parts)


def _closed(text: str) -> str:
    return f"({text})" if " and " in text else text


def _either(texts: Iterable[str]) -> str:
    several = tuple(texts)
    return f"({' or '.join(several)})" if len(several) > 1 else "".join(several)


class HostGroup(Conditions):
    """Hosts that fulfil all of the given conditions; of several values of one condition any is enough."""

    kind = "host"
    cluster: Values | None = None
    """Names or inventory paths of clusters, or of hosts that stand alone."""
    folder: Values | None = None
    """Host folders, with those below them."""
    gpu: Values | None = None
    """GPU models of which the host has one: a family such as `A100`, a board or a product of the catalogue."""
    power: HostPower | None = None
    """`on`, `off` or `standby`."""
    any: Annotated[tuple[HostGroup, ...], BeforeValidator(as_selectors)] | None = None
    """Selectors or patterns, of which the host fulfils at least one."""
    without: Annotated[tuple[HostGroup, ...], BeforeValidator(as_selectors)] | None = None
    """Selectors or patterns, of which the host fulfils none."""


class VmSelector(Conditions):
    """VMs that fulfil all of the given conditions; of several values of one condition any is enough."""

    kind = "vm"
    folder: Values | None = None
    """VM folders, with those below them."""
    cluster: Values | None = None
    """Names or inventory paths of clusters, or of hosts that stand alone."""
    pool: Values | None = None
    """Resource pools, by name or path below the cluster's, with the pools below them."""
    gpu: Values | None = None
    """GPU models: of the VM's own GPUs, or of the host's where the VM has none."""
    power: VmPower | None = None
    """`on`, `off` or `suspended`."""
    any: Annotated[tuple[VmSelector, ...], BeforeValidator(as_selectors)] | None = None
    """Selectors or patterns, of which the VM fulfils at least one."""
    without: Annotated[tuple[VmSelector, ...], BeforeValidator(as_selectors)] | None = None
    """Selectors or patterns, of which the VM fulfils none."""


class DatacenterGroup(Conditions):
    """Datacenters that fulfil all of the given conditions; of several values of one condition any is enough."""

    kind = "datacenter"
    any: Annotated[tuple[DatacenterGroup, ...], BeforeValidator(as_selectors)] | None = None
    """Selectors or patterns, of which the datacenter fulfils at least one."""
    without: Annotated[tuple[DatacenterGroup, ...], BeforeValidator(as_selectors)] | None = None
    """Selectors or patterns, of which the datacenter fulfils none."""


SELECTORS: Mapping[TargetKind, type[HostGroup | VmSelector | DatacenterGroup]] = {
    "host": HostGroup,
    "vm": VmSelector,
    "datacenter": DatacenterGroup,
}
