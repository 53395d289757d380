"""Corrections of GPUs: what has to be of a host for its GPUs to be shared by VMs."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.model.estate.correction import Correction


@dataclass(frozen=True)
class SharedDirectGpus(Correction):
    """A host gives its GPUs to VMs as vGPUs (Shared Direct)."""
