"""Losses of a reboot: what a host's GPUs lose for good, and what has to be there after the reboot as before."""

from __future__ import annotations

from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources import kinds
from vsphere_ai.resources.mixins import DividesGpus, Loss


def loss_of(host: Target, view: View) -> Loss | None:
    """Return what a host that will reboot loses; `view` is how everything is now, with what the playbook states."""
    return next((loss for kind in _kinds() if (loss := kind.loss(host, view)) is not None), None)


def kept_modes(host: Target, view: View) -> dict[str, str]:
    """Return PCI address -> the mode of a GPU that has to be there after a reboot, where no playbook says another."""
    return {pci: mode for kind in _kinds() for pci, mode in kind.kept(host, view).items()}


def _kinds() -> list[type[DividesGpus]]:
    return [kind for kind in kinds().values() if issubclass(kind, DividesGpus)]
