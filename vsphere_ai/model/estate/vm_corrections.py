"""Corrections of VMs beside their networks and GPUs: their CPUs and NUMA nodes, and the sets that they are members of.

The kind that sets one says how a play states it: `resources.corrections`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vsphere_ai.model.estate.correction import Correction


@dataclass(frozen=True)
class CpuSettings(Correction):
    """A VM has so many vCPUs, cores per socket, NUMA nodes of its host, or its CPU reserved; None: as it is.

    `nodes` are numbers of NUMA nodes, or ``gpu``: those of the VM's GPUs.
    """

    cpus: int | None = None
    cores_per_socket: int | None = None
    nodes: tuple[int, ...] | Literal["gpu"] | None = None
    is_reserved: bool | None = None
    low_latency: bool = False


@dataclass(frozen=True)
class SetOfVms(Correction):
    """The set that a VM is a member of has what these fields say; what is empty stays as it is.

    `apart`: DRS keeps its VMs on different hosts where it can. `port_group`: each VM has an RDMA adapter on it.
    `fast_disk`: each VM has a scratch disk behind an NVMe controller. A `datastore`, a `pool` of resources or a
    `port_group` may be a description in capitals of what the operator has to choose.
    """

    apart: bool = False
    datastore: str = ""
    pool: str = ""
    port_group: str = ""
    fast_disk: bool = False
