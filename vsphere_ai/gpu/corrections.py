"""Corrections of GPUs: what has to be of a host for its GPUs to be shared, and of a VM for what it does on them."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.model.estate.correction import Correction


@dataclass(frozen=True)
class SharedDirectGpus(Correction):
    """A host gives its GPUs to VMs as vGPUs (Shared Direct)."""


@dataclass(frozen=True)
class DividedGpus(Correction):
    """The GPUs of a host are in MIG mode or not; `name` is the PCI address of one, empty where all are meant.

    `layout` are the GPU instances of each; None: vSphere makes those that VMs need.
    """

    in_mig: bool = True
    layout: tuple[str, ...] | None = None


@dataclass(frozen=True)
class VgpuProfiles(Correction):
    """A VM has vGPUs of these profiles."""

    profiles: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnifiedMemory(Correction):
    """The vGPUs of a VM have unified memory, or none of them has it."""

    is_on: bool = False


@dataclass(frozen=True)
class PeerToPeer(Correction):
    """A VM lets its GPUs and NICs exchange data without its memory (GPUDirect RDMA)."""
