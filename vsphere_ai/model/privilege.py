"""Privileges that a kind needs of the account in vCenter: a row of the role in the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NETWORK = "Network.Assign"
"""What connecting an adapter takes, on the port group."""
MEMBERS, HOST_NETWORK = "DVSwitch.HostOp", "Host.Config.Network"
"""What changing the members of a distributed switch takes, on the switch and on each host."""

ASSIGN, ON_OBJECT = "InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable"
"""What attaching a tag takes: on the tag, which a global permission gives, and on the object (vSphere Security 8.0,
vSphere Tagging Privileges). Asked of vCenter at the root folder; no real vCenter was asked (unverified)."""


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


def connecting(purpose: str) -> Duty:
    """Return the row for connecting an adapter, of a VM or of a host, to a distributed port group."""
    return Duty(f"{purpose}: connecting an adapter", "the distributed port groups", network=True, also=(NETWORK,))
