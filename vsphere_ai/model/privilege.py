"""Privileges that a kind needs of the account in vCenter: a row of the role in the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Duty:
    """A row of the role: what it is for, where it is needed, and the methods and ConfigSpec fields behind it.

    `unstated` maps those methods for which the type table of the API has no privilege to the one that is documented.
    """

    purpose: str
    where: str
    methods: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    extra_config: bool = False
    network: bool = False
    also: tuple[str, ...] = ()
    unstated: Mapping[str, str] = field(default_factory=dict, hash=False)
