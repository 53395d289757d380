"""Outlook: the estate before and after a plan, by which the order of everything in it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.power_on_order import ANY_ORDER, PowerOns


class Outlook(NamedTuple):
    """What the order of everything is judged by: the estate as it was read, and as the plan leaves it."""

    before: View
    after: View
    will_run: frozenset[str] = frozenset()
    """References of all VMs that are to be on once the plan is carried out."""
    power_on: PowerOns = ANY_ORDER
    """What VMs that are power-cycled keep to."""
    rules: Mapping[str, tuple[Step, ...]] = MappingProxyType({})
    """Steps that make DRS rules, by cluster: moves keep to what they make, as the steps come before them."""
    later_rules: Mapping[str, tuple[Step, ...]] = MappingProxyType({})
    """Steps that make DRS rules and that moves may come before: these keep to what is there before and after them."""

    def running(self) -> Situation:
        """Return where VMs run before the plan, by the rules that their moves keep to."""
        now = Situation.as_read(self.before, Machines(self.before))
        now.added_rules, now.later_rules = self.rules, self.later_rules
        return now
