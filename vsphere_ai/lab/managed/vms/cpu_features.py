"""Features of processors that VMs demand: a VM that runs those which it was shown when it powered on."""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.mainboard import OFFLINE, level
from vsphere_ai.lab.managed.host_resources import requirements
from vsphere_ai.lab.store import ManagedObject

SHOWN = "cpu features"
"""Among what the lab keeps of a VM that runs or is suspended: the features that it was shown at its power-on."""


def needed(vm: ManagedObject) -> tuple[str, ...]:
    """Return the features that a host has to show a VM."""
    found: tuple[str, ...] = vm.extra.get(SHOWN, OFFLINE)
    return found


def show(farm: Farm, vm: ManagedObject) -> None:
    """Write what a VM demands in its present state; a suspended one goes on demanding what it was shown."""
    runtime = vm["runtime"]
    if runtime.powerState == "poweredOff":
        vm.extra.pop(SHOWN, None)
    elif SHOWN not in vm.extra:
        vm.extra[SHOWN] = farm.host(farm.host_of(vm)).mainboard.shown_features
    runtime.offlineFeatureRequirement = _known(OFFLINE)
    shown = vm.extra.get(SHOWN, ())
    runtime.featureRequirement = _known(shown)
    runtime.minRequiredEVCModeKey = f"intel-{level({*shown})}" if shown else None


_made: dict[tuple[str, ...], object] = {}


def _known(features: tuple[str, ...]) -> object:
    """Return the requirements for features: the same objects for all VMs, which are many."""
    if features not in _made:
        _made[features] = vim.vm.RuntimeInfo()._GetPropertyInfo("featureRequirement").type(requirements(features))
    return _made[features]
