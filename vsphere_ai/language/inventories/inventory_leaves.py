"""Leaf switches of an inventory: section `leaves:`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from vsphere_ai.language.inventories.patterns import PatternError, parse
from vsphere_ai.language.yaml_files.validation import ValuePlace, validate


def _listed(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    try:
        parse(*texts)
    except PatternError as error:
        raise ValueError(f"{error.message}\n{error.help}") from None
    return texts


class Leaf(BaseModel):
    """A leaf switch: the hosts that it connects, and for what; without `rails`, `switches` and `vmnics`, for all."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    hosts: Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_patterns)]
    rails: tuple[Annotated[int, Field(ge=0, le=63)], ...] = ()
    switches: tuple[str, ...] = ()
    """Names of distributed switches."""
    vmnics: tuple[str, ...] = ()


def read_leaves(values: Mapping[str, object], place: ValuePlace) -> dict[str, Leaf]:
    """Return the leaves that `leaves:` describes, with every fault noted."""
    found: dict[str, Leaf] = {}
    for name, value in values.items():
        bare = isinstance(value, str | tuple)
        inside = place.inside(("leaves", name), "hosts" if bare else "")
        made = validate(Leaf, {"hosts": value} if bare else value, inside)
        if made is not None:
            found[name] = made
    return found
