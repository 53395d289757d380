"""Mixins of kinds of hosts and datacenters whose settings others compare: GPUs, what a reboot takes, networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vsphere_ai.fabric.nic_settings import Pause
from vsphere_ai.fabric.nioc import Bandwidth
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View


@dataclass(frozen=True)
class Loss:
    """What a reboot of one host loses for good, in words; `unread` is why that is not known."""

    host: Target
    what: tuple[str, ...] = ()
    unread: str = ""


class SharesGpus:
    """A host kind that says how VMs share the GPUs of a host."""

    def shares(self, pci: str) -> bool:
        """Return whether a GPU gives vGPUs (shared direct)."""
        return False

    def consolidates(self) -> bool:
        """Return whether one GPU is filled before the next; otherwise VMs are spread."""
        return False


class DividesGpus:
    """A host kind that divides GPUs into parts, which a reboot may take."""

    def is_divided(self, pci: str) -> bool | None:
        """Return whether a GPU is in MIG mode; None when this is not known."""
        return None

    def layout_of(self, pci: str) -> tuple[str, ...] | None:
        """Return the GPU instances of a GPU with their starts; None when they are left open or not known."""
        return None

    @classmethod
    def loss(cls, host: Target, view: View) -> Loss | None:
        """Return what a host that will reboot loses; `view` is the present, with what the playbook states."""
        return None

    @classmethod
    def kept(cls, host: Target, view: View) -> Mapping[str, str]:
        """Return what has to be there after a reboot as before: of each part (a PCI address) its state."""
        return {}


class SwitchSettings(Protocol):
    """What others read of the settings of a distributed switch."""

    mtu: int | None
    nioc: bool | None
    bandwidth: Mapping[Any, Bandwidth] | None
    resource_pools: Mapping[str, Any] | None


class HasSwitches:
    """A kind whose states have switches of a datacenter."""

    def switch(self, name: str) -> SwitchSettings | None:
        """Return what a state says of a switch; None when it says nothing."""
        raise NotImplementedError


class Pauses:
    """A host kind whose states switch global pause of NICs on or off."""

    def pauses(self) -> Mapping[str, Pause]:
        """Return NIC -> global pause, where a state says it."""
        raise NotImplementedError
