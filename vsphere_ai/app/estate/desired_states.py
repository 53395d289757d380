"""Desired states of the targets of a playbook, derived once for all estates that list the same objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from vsphere_ai.language.inventories.selected import RECORD
from vsphere_ai.language.playbooks.play import Desired, Playbook
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.vm_sets import SET

LISTED = ("name", "parent", "parentVApp", "parentFolder", "config.template", "runtime.host")
"""Properties of an object by which patterns and selectors choose it; whatever else they look at is in `RECORD`."""
ANSWERS = ("Task", "Alarm", "AddressLedger")
"""Types that no play is about, and that only a deep reading has."""


@dataclass(frozen=True)
class DesiredStates:
    """What a playbook sets of `every` target of an estate, and of its `own`: those that `--limit` leaves."""

    playbook: Playbook
    estate: Estate
    every: Desired
    own: Desired

    def holds_for(self, playbook: Playbook, estate: Estate) -> bool:
        """Return whether it is the same on an estate: it lists the same objects, whatever else was read of them."""
        return playbook is self.playbook and (estate is self.estate or listing(estate) == self._listing)

    @cached_property
    def _listing(self) -> Mapping[str, object]:
        return listing(self.estate)


def listing(estate: Estate) -> Mapping[str, object]:
    """Return what decides which objects of an estate a play is about, by reference; under "" the VMs managed by others.

    A deep reading may show by its settings that a VM is an agent of vCenter, which is then no target.
    """
    whole = (f"{SET}:", RECORD)
    objects: dict[str, object] = {
        ref: facts.properties if ref.startswith(whole) else tuple(map(facts.properties.get, LISTED))
        for ref, facts in estate.objects.items()
        if ref.partition(":")[0] not in ANSWERS
    }
    return {**objects, "": (estate.vms, estate.managed)}
