"""Corrections of networks: what has to be of a host, a VM, a switch or a port group for RDMA traffic to pass.

They are facts of networks. The kind that sets one says how a play states it: `resources.corrections`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from vsphere_ai.model.estate.correction import Correction


@dataclass(frozen=True)
class SwitchMtu(Correction):
    """A distributed switch of a datacenter takes frames of `mtu` bytes."""

    mtu: int = 0
    is_shared: ClassVar[bool] = True

    def merged(self, other: Self) -> Self:
        """Return the larger MTU: frames of the smaller one pass, too."""
        return replace(self, mtu=max(self.mtu, other.mtu))


@dataclass(frozen=True)
class PortGroupUplinks(Correction):
    """A distributed port group of a datacenter goes over these uplinks; empty: as they are."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    is_shared: ClassVar[bool] = True

    def merged(self, other: Self) -> Self:
        """Return the uplinks of both; of the same role those of the other one."""
        return replace(self, active=other.active or self.active, standby=other.standby or self.standby)


@dataclass(frozen=True)
class UplinkNics(Correction):
    """A host gives a distributed switch these physical NICs: uplink -> NIC."""

    nics: Mapping[str, str] = field(default_factory=dict)
    is_shared: ClassVar[bool] = True

    def merged(self, other: Self) -> Self:
        """Return the NICs of both."""
        return replace(self, nics={**self.nics, **other.nics})


@dataclass(frozen=True)
class KernelAdapter(Correction):
    """A host has a VMkernel adapter on a port group, with `mtu` bytes; `is_new`: its address is still to be chosen."""

    mtu: int | None = None
    for_pvrdma: bool = False
    for_vmotion: bool = False
    is_new: bool = False

    def merged(self, other: Self) -> Self:
        """Return the larger MTU, and what either of them says of the adapter."""
        known = [mtu for mtu in (self.mtu, other.mtu) if mtu is not None]
        rdma, vmotion = self.for_pvrdma or other.for_pvrdma, self.for_vmotion or other.for_vmotion
        new, mtu = self.is_new or other.is_new, max(known, default=None)
        return replace(self, mtu=mtu, for_pvrdma=rdma, for_vmotion=vmotion, is_new=new)


@dataclass(frozen=True)
class HostForPvrdma(Correction):
    """A host lets the traffic of PVRDMA through its firewall; `adapter` names its VMkernel adapter, where it is set."""

    adapter: str = ""

    def merged(self, other: Self) -> Self:
        """Return the adapter of either."""
        return replace(self, adapter=other.adapter or self.adapter)


@dataclass(frozen=True)
class NicPause(Correction):
    """A physical NIC of a host (`name`) has global pause on or off, in both directions."""

    is_on: bool = False


@dataclass(frozen=True)
class LosslessRoce(Correction):
    """NICs of a host keep the frames of RoCE by priority flow control, and know them by their DSCP value."""

    # 26 is one of the eight DSCP values, 24 to 31, that belong to priority 3; unverified, see docs/kinds/roce.md
    priority: int = 3
    dscp: int = 26


@dataclass(frozen=True)
class NewRdmaAdapter(Correction):
    """A VM has a PVRDMA adapter on a port group, with a version of RoCE where `protocol` names one."""

    protocol: str = ""


@dataclass(frozen=True)
class NearFunction(Correction):
    """The SR-IOV adapter that a VM has on a port group is on a NIC by which the port group goes out."""


@dataclass(frozen=True)
class VirtualFunctions(Correction):
    """NICs of a host have so many virtual functions: PCI address -> number."""

    functions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ForeignMacs(Correction):
    """A distributed port group lets frames of MAC addresses pass that are none of its VMs'."""


@dataclass(frozen=True)
class RdmaAdapterSettings(Correction):
    """The PVRDMA adapter that a VM has on a port group is connected, or uses another version of RoCE."""

    connected: bool = False
    protocol: str = ""

    def merged(self, other: Self) -> Self:
        """Return the settings of both."""
        return replace(self, connected=self.connected or other.connected, protocol=other.protocol or self.protocol)


@dataclass(frozen=True)
class MachineNeeds(Correction):
    """A VM has at least a virtual hardware version, all its memory reserved, or EFI firmware."""

    version: int | None = None
    all_memory: bool = False
    efi: bool = False

    def merged(self, other: Self) -> Self:
        """Return the later version, which has what the earlier one has, and the reservation of either."""
        known = [version for version in (self.version, other.version) if version is not None]
        memory, efi = self.all_memory or other.all_memory, self.efi or other.efi
        return replace(self, version=max(known, default=None), all_memory=memory, efi=efi)
