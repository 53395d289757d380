"""Order of rules beside windows: those of sets come before moves of their VMs where they can, power-ons where they may.

A move has to keep to the rules that are there when it is made. Rules of a set are made after its clones, and a clone
may have to wait for a window: of its host, of the host of its source, or of the host of the VM that it replaces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone, ClusterRules, PowerOff, Step
from vsphere_ai.model.vm_sets import replaced_by
from vsphere_ai.planning.moves.admitted import rules_made
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.rule_order import RuleMoment
from vsphere_ai.planning.scheduling.set_order import Chains, power_on_of


@dataclass(frozen=True)
class RulesBesideWindows:
    """The steps of a plan that make rules: those that come before any move of VMs of their set, and all others."""

    first: tuple[ClusterRules, ...]
    later: tuple[ClusterRules, ...]

    def seen_by_moves(self, outlook: Outlook) -> Outlook:
        """Return the outlook with the rules that moves keep to."""
        return outlook._replace(rules=rules_made(self.first), later_rules=rules_made(self.later))

    def edges(
        self, by_drs: Mapping[str, Target], by_run: Mapping[str, Target], firsts: Chains, chains: Chains
    ) -> Iterator[tuple[Step, Step]]:
        """Yield steps with those that wait for them. `by_drs` and `by_run` are the hosts that VMs (references) leave.

        `firsts` are the steps that the window of a host begins with. What keeps DRS from moving a VM comes after that.
        """
        for step in self.first:
            hosts = {home for ref in step.wanted.vms if (home := by_drs.get(ref) or by_run.get(ref)) is not None}
            yield from ((step, begin) for host in sorted(hosts) for begin in firsts.get(host, ()))
        for step in self.later:
            held = {home for ref in step.wanted.overridden if (home := by_drs.get(ref)) is not None}
            yield from ((chains[host][-1], step) for host in sorted(held))


def beside_windows(
    steps: Iterable[Step], chains: Chains, windows: Collection[Target], by_drs: Collection[str], estate: Estate
) -> RulesBesideWindows:
    """Return when the rules of a plan can be made; `by_drs` are VMs (references) that DRS moves off `windows`.

    Rules that are to be made once guests are ready, and such that would keep DRS from a move, come later.
    """
    every = [step for step in steps if isinstance(step, ClusterRules)]
    clones = {vm.ref: chain[0] for vm, chain in chains.items() if chain and isinstance(chain[0], Clone)}

    def later(step: ClusterRules) -> bool:
        own = [clone for ref in step.wanted.vms if (clone := clones.get(ref)) is not None]
        held = not {*by_drs}.isdisjoint(step.wanted.overridden)
        return step.ready or held or any(_waits(clone, windows, estate) for clone in own)

    first = tuple(step for step in every if not later(step))
    return RulesBesideWindows(first, tuple(step for step in every if step not in first))


def _waits(clone: Clone, windows: Collection[Target], estate: Estate) -> bool:
    """Return whether a clone may have to wait for a window; one of an image that cannot be read waits for a guest."""
    old = replaced_by(estate, clone.target.ref)
    refs: Sequence[str] = (clone.target.ref, clone.source, *([old.ref] if old is not None else []))
    return bool(clone.canary) or any(estate.host_of(ref) in windows for ref in refs)


def moment_edges(
    vm: str, moment: RuleMoment, chains: Mapping[str, Sequence[Step]], moved: Mapping[str, Target]
) -> Iterator[tuple[Step, Step]]:
    """Yield what a VM waits for, and what waits for it, to power on at a moment which rules between VMs permit.

    `chains` are steps by reference; `moved` has the hosts that VMs leave by DRS.
    """
    own = chains[vm]
    on = power_on_of(own)
    for chain in (chains[ref] for ref in sorted(moment.off)):
        later = power_on_of(chain)
        if on is not None and later is not None:
            yield on, later
        if on is not None and isinstance(chain[0], PowerOff):
            yield chain[0], on
    for ref in sorted(moment.come):
        if ref in moved:
            yield chains[moved[ref].ref][-1], own[0]
