"""Admission of a VM by a host: one requirement per module of `requirements`, each with the fault that vCenter raises.

The lab judges by its hardware and by what vCenter itself knows, such as rules and pools. What is asked when follows
vSphere's own texts: a VM that is moved while it is off is not weighed before it powers on; HA restarts VMs without
asking its admission control. Sources are at each requirement; nothing of it was seen on a real vCenter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.store import ManagedObject


class Occasion(Enum):
    """On what occasion a VM is to be on a host."""

    START = "the scenario begins with the VM on"
    POWER_ON = "power-on, resume"
    VMOTION = "vMotion"
    COLD = "a clone, a new VM or a move that leaves the VM off"
    RECONFIGURE = "a running VM is changed"
    EVACUATE = "DRS evacuates a host"
    HA_RESTART = "HA restarts a VM whose host has failed"


class CheckTests(Enum):
    """Tests of vCenter's checkers (CheckTestType); NONE are those that no checker makes."""

    SOURCE = "sourceTests"
    HOST = "hostTests"
    POOL = "resourcePoolTests"
    DATASTORE = "datastoreTests"
    NETWORK = "networkTests"
    NONE = ""


ALWAYS = frozenset(Occasion) - {Occasion.START}
RUNS = frozenset({Occasion.POWER_ON, Occasion.VMOTION, Occasion.EVACUATE, Occasion.HA_RESTART})
"""Occasions on which a VM that runs comes to a host."""


@dataclass(frozen=True)
class LabCase:
    """A VM, the host it is to be on, and the occasion. `config` is that of the VM as it will be.

    `pool` is the resource pool it will be in. With `by_drs` DRS chooses the host, so that rules between VMs bind.
    """

    farm: Farm
    vm: ManagedObject
    host: ManagedObject
    occasion: Occasion
    config: Any
    pool: ManagedObject
    by_drs: bool = False

    @property
    def runs_here(self) -> bool:
        """Whether the VM runs on the host already."""
        runtime = self.vm["runtime"]
        return bool(runtime.powerState == "poweredOn" and runtime.host == self.host.ref)


Faults = Iterator[Exception]


@dataclass(frozen=True)
class LabRequirement:
    """What a host has to be like: on which occasions it is looked at, which tests of the checkers it belongs to.

    `place` orders requirements: the fault of the first one is what a method ends with.
    """

    place: int
    occasions: frozenset[Occasion]
    group: CheckTests
    faults: Callable[[LabCase], Faults]
    name: str


def requirement(
    place: int, occasions: frozenset[Occasion], group: CheckTests
) -> Callable[[Callable[[LabCase], Faults]], LabRequirement]:
    """Make a requirement of a function that yields the faults of a case."""

    def made(function: Callable[[LabCase], Faults]) -> LabRequirement:
        return LabRequirement(place, occasions, group, function, function.__name__)

    return made


@cache
def every_requirement() -> tuple[LabRequirement, ...]:
    """Return every requirement below the folder, in the order in which they are looked at."""
    folder = import_module(f"{__name__}.requirements")
    modules = (import_module(each.name) for each in walk_packages(folder.__path__, f"{folder.__name__}."))
    found = (value for module in modules for value in vars(module).values() if isinstance(value, LabRequirement))
    return tuple(sorted(found, key=lambda each: (each.place, each.name)))


def refusals(case: LabCase, groups: frozenset[CheckTests] = frozenset(CheckTests)) -> Faults:
    """Yield every fault of a case, the one that a method ends with first; only those of some tests, if asked for."""
    for each in every_requirement():
        if case.occasion in each.occasions and each.group in groups:
            yield from each.faults(case)


def check(case: LabCase) -> None:
    """Raise the fault that vCenter refuses a case with; claims nothing."""
    for fault in refusals(case):
        raise fault


def admits(case: LabCase) -> bool:
    """Return whether nothing is against a case."""
    return next(refusals(case), None) is None


def case_of(farm: Farm, vm: ManagedObject, host: ManagedObject, occasion: Occasion, *, by_drs: bool = False) -> LabCase:
    """Return the case of a VM as it is, in its own pool, or the root pool of a host of another compute resource."""
    compute = farm.store.get(host["parent"])
    pool = farm.store.get(vm["resourcePool"]) if vm["resourcePool"] is not None else None
    if pool is None or pool["owner"] != compute.ref:
        pool = farm.store.get(compute["resourcePool"])
    return LabCase(farm, vm, host, occasion, vm["config"], pool, by_drs)
