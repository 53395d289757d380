"""Corrections of GPUs: what has to be of a host or a VM for its GPUs to be shared, or to reach other devices."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.model.estate.correction import Correction


@dataclass(frozen=True)
class SharedDirectGpus(Correction):
    """A host gives its GPUs to VMs as vGPUs (Shared Direct)."""


@dataclass(frozen=True)
class PeerToPeer(Correction):
    """The GPUs and NICs of a VM exchange data without its memory (GPUDirect RDMA)."""
