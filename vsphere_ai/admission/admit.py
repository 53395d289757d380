"""The one answer to whether a VM may run on a host: yes, no or unknown, with every reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Literal

from vsphere_ai.admission import requirements as folder
from vsphere_ai.admission.base import Occasion, Reason, Requirement
from vsphere_ai.admission.machine import PATHS, Machine
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.facts import Facts


@dataclass(frozen=True)
class Admission:
    """The answer for one VM on one host, with every reason; those that refuse come first."""

    reasons: tuple[Reason, ...] = ()

    @property
    def answer(self) -> Literal["yes", "no", "unknown"]:
        """Yes, unless a reason says otherwise; what is only preferred does not."""
        verdicts = {r.verdict for r in self.reasons}
        return "no" if "no" in verdicts else "unknown" if "unknown" in verdicts else "yes"

    @property
    def refusals(self) -> tuple[Reason, ...]:
        """Every reason for which the VM may not run there."""
        return tuple(r for r in self.reasons if r.verdict == "no")

    @property
    def words_against(self) -> str:
        """The refusals as words; "" where the VM may run there, or it is not known whether it may."""
        return "; ".join(r.message for r in self.refusals)

    @property
    def words(self) -> str:
        """The reasons that decide, as words."""
        decisive = self.refusals or tuple(r for r in self.reasons if r.verdict == "unknown")
        return "; ".join(r.message for r in decisive)


@cache
def every_requirement() -> tuple[Requirement, ...]:
    """Return every requirement, by id: a `Requirement` in a module below the folder `requirements` is one."""
    loaded = (import_module(module.name) for module in walk_packages(folder.__path__, f"{folder.__name__}."))
    found = (value for module in loaded for value in vars(module).values() if isinstance(value, Requirement))
    return tuple(sorted({r.id: r for r in found}.values(), key=lambda r: r.id))


@cache
def properties() -> Mapping[str, tuple[str, ...]]:
    """Return every property path that a requirement reads, by managed type."""
    union: dict[str, set[str]] = {"VirtualMachine": set(PATHS)}
    for each in every_requirement():
        for managed, paths in each.reads.items():
            union.setdefault(managed, set()).update(paths)
    return {managed: tuple(sorted(paths)) for managed, paths in sorted(union.items())}


@cache
def requirements(*, shared: bool, of_host: bool = False, without: tuple[str, ...] = ()) -> tuple[Requirement, ...]:
    """Return the requirements that depend on what else is there (`shared`), or only the others; `without` some.

    `of_host`: only those that a host may answer otherwise than another one.
    """
    asked = (r for r in every_requirement() if r.shared is shared and r.id not in without)
    return tuple(r for r in asked if not (of_host and r.of_vm))


def is_weighed_as_a_whole(cluster: Facts) -> bool:
    """Return whether some requirement needs every host of a cluster, and all VMs there, to answer for one of them."""
    return any(each.of_cluster(cluster) for each in every_requirement())


def that_weigh_service(cluster: Facts) -> tuple[Requirement, ...]:
    """Return the requirements whose answer depends on which other hosts of a cluster are in service at the time."""
    return tuple(each for each in every_requirement() if each.in_service(cluster))


ORDER = {"no": 0, "unknown": 1, "preferred": 2}


def admit(
    vm: Machine, host: Facts, situation: Situation, occasion: Occasion, asked: Iterable[Requirement] | None = None
) -> Admission:
    """Return whether a VM may run on a host at that moment, with every reason.

    `situation` has the other VMs, and may have this one: it is not counted twice. `asked` are the requirements that are
    asked, all by default.
    """
    every = every_requirement() if asked is None else asked
    found = (r for each in every for r in each.check(vm, host, situation, occasion))
    return Admission(tuple(sorted(found, key=lambda r: (ORDER[r.verdict], r.rule))))
