"""Plan of the fixes: one playbook merged from the fixes of many links, and what it does not change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from vsphere_ai.fabric import dvs
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target

RdmaPath = tuple[Target, Facts]
"""A host, and the port group that RDMA goes over there."""
Place = tuple[type[Correction], Target, str]
"""What a correction is of: see `Correction.place`."""


@dataclass
class FixPlan:
    """Corrections by place; `unchanged`: what is not changed and why; `unfixed`: hosts whose path stays broken."""

    corrections: dict[Place, Correction] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    unfixed: dict[Target, str] = field(default_factory=dict)

    def add(self, correction: Correction) -> None:
        """Merge a correction with the one of the same place."""
        have = self.corrections.get(correction.place)
        self.corrections[correction.place] = have.merged(correction) if have else correction

    def keep(self, why: str) -> None:
        """Note once what is not changed, and why."""
        if why not in self.unchanged:
            self.unchanged.append(why)


def by_switch(estate: Estate, paths: Iterable[RdmaPath]) -> dict[str, list[RdmaPath]]:
    """Return the paths by the reference of their distributed switch, without those whose switch cannot be read."""
    found: dict[str, list[RdmaPath]] = {}
    for host, group in paths:
        switch = dvs.switch_of(estate, group)
        if switch is not None:
            found.setdefault(switch.ref, []).append((host, group))
    return found
