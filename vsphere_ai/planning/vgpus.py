"""vGPU profiles that a VM will have by all its kinds together."""

from __future__ import annotations

from functools import cache

from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources import kinds
from vsphere_ai.resources.mixins import VmDevices


@cache
def _giving() -> tuple[str, ...]:
    devices = ((name, cls) for name, cls in kinds().items() if issubclass(cls, VmDevices))
    return tuple(name for name, cls in devices if cls.vgpus is not VmDevices.vgpus)


def vgpus_of(vm: Target, view: View) -> tuple[str, ...]:
    """Return every vGPU profile a VM will have; only states of kinds that give some are looked at."""
    return tuple(profile for state in view.wanted(vm.ref, _giving()) for profile in state.vgpus(vm, view))
