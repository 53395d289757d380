"""Project of a new user: the vCenter it is for, and names for groups of hosts and VMs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vsphere_ai.model.state import Target, TargetKind


@dataclass(frozen=True)
class ProjectVCenter:
    """A vCenter as an inventory names it. `password` is a reference to its place, never a password.

    `fingerprint` (SHA-256, ``AB:CD:…``) and `ca_file` are empty where the system's authorities vouch for it.
    """

    name: str
    address: str
    port: int
    username: str
    password: str
    fingerprint: str = ""
    ca_file: str = ""


@dataclass(frozen=True)
class ProjectGroup:
    """A group of hosts or VMs: its conditions by their keys, and what they mean now."""

    kind: TargetKind
    name: str
    conditions: Mapping[str, str | tuple[str, ...]]
    targets: frozenset[Target]


@dataclass(frozen=True)
class Project:
    """What an inventory is written from. Without a vCenter: the running lab."""

    vcenter: ProjectVCenter | None
    groups: tuple[ProjectGroup, ...] = ()
