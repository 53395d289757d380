"""Clusters of a scenario: DRS, HA, resource pools and rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from vsphere_ai.lab.scenario.names import expand


@dataclass(frozen=True)
class Rule:
    """A DRS rule of a cluster. A name in `vms` or `hosts` may hold a range.

    `kind` is ``affinity`` or ``anti-affinity`` between `vms`, or ``host-affinity`` or ``host-anti-affinity`` between
    them and `hosts`.
    """

    name: str
    kind: str
    vms: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    mandatory: bool = False
    enabled: bool = True

    @property
    def vm_names(self) -> set[str]:
        """The names of the VMs."""
        return {name for text in self.vms for name in expand(text)}

    @property
    def host_names(self) -> list[str]:
        """The names of the hosts."""
        return [name for text in self.hosts for name in expand(text)]


@dataclass(frozen=True)
class Pool:
    """A resource pool below the root pool of a cluster; a text alone is its `path`, such as ``research/llm``.

    A limit of -1 is none. Where a pool is expandable, its VMs may reserve of the pool above it what it has not itself.
    A pool that stands in the path of another one only has the default values.
    """

    SHORT: ClassVar[str] = "path"

    path: str
    memory_reservation_mb: int = 0
    memory_limit_mb: int = -1
    memory_expandable: bool = True
    cpu_reservation_mhz: int = 0
    cpu_limit_mhz: int = -1
    cpu_expandable: bool = True


@dataclass(frozen=True)
class Ha:
    """HA of a cluster; ``true`` or ``false`` alone say whether it is on.

    `admission_control` keeps resources for a failover: with ``percentage`` `cpu_percent` and `memory_percent` of the
    cluster (-1: as `failover_level` of its hosts demand), with ``slots`` room for all VMs when the `failover_level`
    largest hosts are gone, with ``hosts`` the `failover_hosts`. `slot_cpu_mhz` and `slot_memory_mb` fix the size of a
    slot. `options` are advanced options, such as ``das.vmcpuminmhz: "64"``.
    """

    SHORT: ClassVar[str] = "enabled"

    enabled: bool = True
    admission_control: str = "off"
    failover_level: int = 1
    cpu_percent: int = -1
    memory_percent: int = -1
    failover_hosts: tuple[str, ...] = ()
    slot_cpu_mhz: int = 0
    slot_memory_mb: int = 0
    options: dict[str, str] = field(default_factory=dict)

    @property
    def host_names(self) -> list[str]:
        """The names of the dedicated failover hosts."""
        return [name for text in self.failover_hosts for name in expand(text)]


@dataclass(frozen=True)
class Cluster:
    """A cluster. `drs` is ``off``, ``manual``, ``partiallyAutomated`` or ``fullyAutomated``.

    `drs_options` are advanced options of DRS, such as ``VgpuMMAutomationTimeoutSecs: "-1"`` or
    ``MaxVCPUsPerCore: "4"``.
    `image`: it is managed with a single image; `configuration_profile`: by a vSphere Configuration Profile (8.0).
    `evc` is the generation of processors that EVC makes of those of its hosts. `swap` is where the swap files of VMs
    are that name no place themselves.
    """

    name: str
    drs: str = "fullyAutomated"
    ha: Ha = field(default_factory=lambda: Ha(enabled=False))
    drs_options: dict[str, str] = field(default_factory=dict)
    image: bool = False
    configuration_profile: bool = False
    pools: tuple[Pool, ...] = ()
    evc: str = ""
    swap: str = "vmDirectory"
    rules: tuple[Rule, ...] = ()
