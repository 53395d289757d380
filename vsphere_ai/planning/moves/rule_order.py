"""Order that DRS rules between VMs demand of power-ons: a rule that is broken today may hold once a VM powers on.

That a rule is broken already permits no power-on: DRS refuses one that breaks a rule, whatever was before
(github.com/cloudfoundry/bosh-vsphere-cpi-release issue 223). But a VM of the rule may be off at that moment, or DRS may
have moved it by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vsphere_ai.admission.admit import admit
from vsphere_ai.admission.base import STARTS
from vsphere_ai.admission.requirements.vm_rules import vm_rules
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.model.vm_sets import estate_ref, real_ref
from vsphere_ai.planning.moves.admitted import Concerned, concerned, final_situation
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.rolling import Roll

UNKNOWN_HOST = ""
"""In place of a reference: that of the host to which DRS moves a VM, whichever it is."""
RULES = (vm_rules,)


@dataclass(frozen=True)
class RuleMoment:
    """Where the VMs (references) of the rules of a VM are when it powers on, and differently once all is done."""

    off: frozenset[str] = frozenset()
    """They power on after it."""
    left: frozenset[str] = frozenset()
    """DRS has moved them off its host."""
    come: frozenset[str] = frozenset()
    """DRS has moved them to its host: the rule leaves them no other one."""

    def of(self, vm: Target, final: Situation) -> Situation:
        """Return the situation when the VM powers on; `final` is the one once the plan is carried out."""
        then, home = final.copy(), final.home(vm.ref)
        for ref in (*self.off, *self.left, *self.come):
            machine = then.leave(ref)
            if machine is not None and ref not in self.off and home is not None:
                then.arrive(machine, home if ref in self.come else UNKNOWN_HOST)
        return then


Moments = Mapping[Target, RuleMoment]


def rule_moments(
    steps: Sequence[Step],
    moves: Collection[Target],
    windows: Collection[Target],
    rolls: Sequence[Roll],
    outlook: Outlook,
) -> Moments:
    """Return the moments that permit power-ons which rules between VMs would refuse otherwise, or that forbid them.

    `moves` are VMs that DRS moves off the hosts that have `windows`.
    """
    if not any(map(_has_rules, outlook.after.estate.of_type("ClusterComputeResource"))):
        return {}
    asked = {vm: o for vm, o in concerned(steps, outlook.before).items() if o in STARTS}
    return _RuleOrder(asked, frozenset(moves), frozenset(windows), rolls, outlook, steps).moments() if asked else {}


def refused_by_rules(
    steps: Sequence[Step], moves: Collection[Target], roll: Roll, outlook: Outlook
) -> frozenset[Target]:
    """Return the VMs on hosts of a roll-out's cluster that rules between VMs let power on at no moment of it."""
    estate, members = outlook.after.estate, {h.ref for h in roll.members}
    if not any(map(_has_rules, estate.of_type("ClusterComputeResource"))):
        return frozenset()
    asked = {
        vm: occasion
        for vm, occasion in concerned(steps, outlook.before).items()
        if occasion in STARTS and (home := estate.host_of(vm.ref)) is not None and home.ref in members
    }
    return _RuleOrder(asked, frozenset(moves), frozenset(roll.hosts), [roll], outlook, steps).refused()


def _has_rules(cluster: Facts) -> bool:
    return bool((cluster.get("configurationEx") or {}).get("rule"))


@dataclass
class _RuleOrder:
    asked: Concerned
    moves: frozenset[Target]
    windows: frozenset[Target]
    rolls: Sequence[Roll]
    outlook: Outlook
    steps: Sequence[Step]
    _found: dict[Target, RuleMoment] = field(default_factory=dict)

    @cached_property
    def _final(self) -> Situation:
        return final_situation(self.outlook.after, self.steps)

    @cached_property
    def _before(self) -> Situation:
        return self.outlook.running()

    @cached_property
    def _homes(self) -> Mapping[str, Target | None]:
        """Hosts of the VMs that DRS moves, by reference of the VM."""
        return {vm.ref: self.outlook.before.estate.host_of(vm.ref) for vm in self.moves}

    @cached_property
    def _starting(self) -> frozenset[str]:
        return frozenset(vm.ref for vm in self.asked)

    @cached_property
    def _several(self) -> frozenset[str]:
        """References of the hosts whose windows are not one after the other."""
        return frozenset(h.ref for roll in self.rolls if roll.at_a_time != 1 for h in roll.hosts)

    @cached_property
    def _roll_of(self) -> Mapping[str, Roll]:
        """The first roll-out among whose hosts one is, by its reference."""
        return {h.ref: roll for roll in reversed(self.rolls) for h in roll.members}

    @cached_property
    def _window_refs(self) -> frozenset[str]:
        return frozenset(h.ref for h in self.windows)

    def moments(self) -> Moments:
        mates = {vm: own for vm in self.asked if (own := self._mates(vm))}
        for vm, own in mates.items():
            if left := self._left(vm, own):
                self._found[vm] = RuleMoment(left=left)
        refused = [vm for vm in mates if self._refused(vm, self._found.get(vm, RuleMoment()))]
        stuck = {vm.ref for vm in refused}
        for vm in refused:
            moment = self._other(vm, mates[vm] - stuck)
            if moment is not None:
                self._found[vm] = moment
        return self._found

    def refused(self) -> frozenset[Target]:
        moments = self.moments()
        return frozenset(vm for vm in self.asked if self._refused(vm, moments.get(vm, RuleMoment())))

    def _mates(self, vm: Target) -> frozenset[str]:
        """Return the running VMs with which a rule binds a VM."""
        final, home = self._final, self._final.home(vm.ref)
        cluster = final.cluster(home) if home else None
        if cluster is None:
            return frozenset()
        estate = final.view.estate
        bound = {r for rule in final.rules(cluster.ref).between(real_ref(estate, vm.ref)) for r in rule.vms}
        refs = frozenset(estate_ref(estate, real) for real in bound)
        return frozenset(ref for ref in refs if final.home(ref) is not None) - {vm.ref}

    def _left(self, vm: Target, mates: Collection[str]) -> frozenset[str]:
        """Return those that DRS moves off the host of the VM before it powers on; hosts that follow bring none back."""
        home = self._final.home(vm.ref)
        own = (ref for ref in mates if (at := self._homes.get(ref)) is not None and at.ref == home)
        return frozenset() if home in self._several else frozenset(own)

    def _refused(self, vm: Target, moment: RuleMoment) -> bool:
        home = self._final.home(vm.ref)
        host = self._final.view.estate.get(home)
        machine = self._final.machines.planned(vm.ref)
        then = moment.of(vm, self._final)
        return host is not None and bool(admit(machine, host, then, self.asked[vm], RULES).refusals)

    def _other(self, vm: Target, mates: frozenset[str]) -> RuleMoment | None:
        """Return the moment at which no rule refuses a VM, with as few differences as it takes; None without one."""
        off = frozenset(ref for ref in mates if ref in self._starting)
        left = self._found.get(vm, RuleMoment()).left
        come = frozenset(self._coming(vm, mates - off - left))
        if self._refused(vm, RuleMoment(off, left, come)):
            return None
        for ref in sorted(off):
            if not self._refused(vm, RuleMoment(off - {ref}, left, come)):
                off -= {ref}
        return RuleMoment(off, left, come)

    def _coming(self, vm: Target, mates: Iterable[str]) -> Iterator[str]:
        """Yield those that DRS has to move to the host of the VM, which has no window and runs the VM until then."""
        home = self._final.home(vm.ref)
        roll = self._roll_of.get(home or "")
        if roll is None or vm in roll.changed_first or home in self._window_refs:
            return
        if self._before.home(vm.ref) != home:
            return
        for ref in mates:
            at = self._homes.get(ref)
            if at is not None and at in roll.hosts and self._leads(ref, at, home, roll):
                yield ref

    def _leads(self, ref: str, at: Target, home: str | None, roll: Roll) -> bool:
        """Return whether rules between VMs keep a VM that leaves a host off all others but `home`."""
        here = self._before.only(h.ref for h in roll.members)
        machine = here.leave(ref)
        others = [h for h in roll.members if h != at and h.ref != home]
        estate = here.view.estate
        return machine is not None and all(
            admit(machine, estate[h.ref], here, "evacuate", RULES).answer == "no" for h in others
        )
