"""Hosts that take VMs of other hosts, by admission: after the loss of a host, and where VMs do not fit at home.

Places on GPUs are those of the capacity planner; here is what else a host has to be like. What a VM is refused for on
every host alike is no matter of the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from vsphere_ai.admission.admit import admit, requirements
from vsphere_ai.admission.base import Occasion
from vsphere_ai.admission.gpus import Question
from vsphere_ai.admission.machine import Machine
from vsphere_ai.admission.situation import Situation
from vsphere_ai.capacity.restart import Loss
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.spare_hosts import every_outcome
from vsphere_ai.capacity.verdict import Answer, Fit, Undecided
from vsphere_ai.model.facts import Facts
from vsphere_ai.planning.moves.placing import placed

ALONE = requirements(shared=False, of_host=True)
TOGETHER = requirements(shared=True, without=("admission.gpu",))
SHOWN = 3
"""Hosts that a refusal names with their reasons."""


@dataclass
class Elsewhere:
    """Where VMs may run on an occasion beside their own hosts. `situation` is as the plan leaves the estate.

    `new` are VMs, by reference, that nothing of the estate shows yet as they will be.
    """

    situation: Situation
    occasion: Occasion
    new: Mapping[str, Machine] = field(default_factory=dict)
    _known: dict[tuple[object, ...], str] = field(default_factory=dict)

    def beside(self, new: Mapping[str, Machine], homes: Mapping[str, str]) -> Elsewhere:
        """Return the same once new VMs run on hosts (references); what is known of single hosts is shared."""
        situation = self.situation.copy()
        for ref, vm in new.items():
            situation.arrive(vm, homes[ref])
        return replace(self, situation=situation, new=new)

    def narrowed(self, question: Question) -> Question:
        """Return the question with the hosts that take each VM by itself, its own host among them."""
        return replace(
            question, demands=tuple(replace(d, hosts=self._takers(d.name, d.hosts)) for d in question.demands)
        )

    def _takers(self, ref: str, hosts: frozenset[str]) -> frozenset[str]:
        home = self.situation.view.estate.host_of(ref)
        own = home.name if home else ""
        key = (*self._key(ref), hosts)
        if key not in self._takes:  # sets of hosts are large, and shared by many VMs
            self._takes[key] = frozenset(h for h in hosts if h == own or not self.why_not(ref, h))
        return self._takes[key]

    @cached_property
    def _takes(self) -> dict[tuple[object, ...], frozenset[str]]:
        return {}

    def why_not(self, ref: str, host: str) -> str:
        """Return why a host (name) does not take a VM for what it is by itself, "" where it does or may."""
        facts = self._hosts.get(host)
        if facts is None:
            return ""
        key = (*self._key(ref), host)
        if key not in self._known:
            self._known[key] = admit(self._machine(ref), facts, self.situation, self.occasion, ALONE).words_against
        return self._known[key]

    def _key(self, ref: str) -> tuple[object, ...]:
        """Return what is the same for VMs that the same hosts take: their figures, their host and their rules."""
        estate, vm = self.situation.view.estate, self._machine(ref)
        home = estate.host_of(ref)
        cluster = str(estate[home.ref].get("parent") or "") if home else ""
        rules = tuple(rule for rule in self.situation.rules(cluster).of_hosts if vm.ref in rule.vms)
        return vm.alike, home.ref if home else "", rules

    def _machine(self, ref: str) -> Machine:
        return self.new.get(ref) or self.situation.machines.planned(ref)

    @cached_property
    def _hosts(self) -> Mapping[str, Facts]:
        estate = self.situation.view.estate
        return {h.name: estate[h.ref] for h in estate.hosts}

    # -- all VMs of lost hosts together

    def why_not_together(self, lost: Loss, chosen: Mapping[str, str], question: Question) -> str:
        """Return why VMs find no places on other hosts together after a loss, "" where they do.

        `chosen` are hosts (names) by VM on whose GPUs all find places. Where these do not take them all, others are
        tried, with a limit.
        """
        refs = [h.ref for name in lost if (h := self._hosts.get(name)) is not None]
        situation = self._after
        gone = [(vm, host) for host in refs for vm in tuple(situation.on(host).values())]
        situation.down = frozenset(refs)
        for vm, _ in gone:
            situation.leave(vm.ref)
        why = self._beside(situation, chosen, question, lost)
        for vm, host in gone:
            situation.arrive(vm, host)
        situation.down = frozenset()
        return why

    def why_not_there(self, chosen: Mapping[str, str]) -> str:
        """Return why hosts (names) do not all take the VMs that would move there, "" where they do."""
        estate = self.situation.view.estate
        homes = {ref: home.name for ref in chosen if (home := estate.host_of(ref))}
        moved = {ref: host for ref, host in chosen.items() if homes.get(ref) != host}
        situation = self.situation.copy()
        for ref in moved:
            situation.leave(ref)
        return self._against(situation, [self._machine(ref) for ref in sorted(moved)], moved)

    def other_places(self, question: Question) -> Mapping[str, str] | None:
        """Return hosts (names) that take all VMs which power on, each beside the others; None where none were found."""
        near = {d.name: d.hosts for d in question.demands if d.running_on is None}
        situation, names = self.situation.copy(), {facts.ref: name for name, facts in self._hosts.items()}
        for ref in near:
            situation.leave(ref)
        vms = [self._machine(ref) for ref in near]
        vms.sort(key=lambda vm: (-(vm.reserved_mb or 0), vm.name))

        def hosts(vm: Machine) -> Iterator[Facts]:
            home = situation.view.estate.host_of(vm.ref)
            at = home.name if home else ""
            yield from (self._hosts[n] for n in sorted(near[vm.ref], key=lambda n: (n != at, n)) if n in self._hosts)

        found = placed(vms, situation, self.occasion, hosts)
        return None if found is None else {vm: names[host] for vm, host in found.items()}

    @cached_property
    def _after(self) -> Situation:
        """A copy that is changed for a loss, and changed back: what is reckoned once for all VMs is kept."""
        return self.situation.copy()

    def _beside(self, situation: Situation, chosen: Mapping[str, str], question: Question, lost: Loss) -> str:
        vms = sorted((self._machine(ref) for ref in chosen), key=lambda vm: (-(vm.reserved_mb or 0), vm.name))
        why = self._against(situation, vms, chosen)
        if not why:
            return ""
        near = {d.name: d.hosts - lost for d in question.demands if d.name in chosen}

        def hosts(vm: Machine) -> Iterator[Facts]:
            names = sorted(near[vm.ref], key=lambda name: (name != chosen[vm.ref], name))
            yield from (self._hosts[name] for name in names)

        found = placed(vms, situation, self.occasion, hosts)
        return why if found is None else ""

    def _against(self, situation: Situation, vms: Sequence[Machine], chosen: Mapping[str, str]) -> str:
        """Return why the hosts that are chosen do not take VMs beside each other; the situation is left as it was."""
        arrived, why = [], ""
        for vm in vms:
            host = self._hosts.get(chosen[vm.ref])
            if host is None:
                continue
            why = admit(vm, host, situation, self.occasion, TOGETHER).words_against
            if why:
                why = f"{host.name}: {why}"
                break
            situation.arrive(vm, host.ref)
            arrived.append(vm.ref)
        for ref in arrived:
            situation.leave(ref)
        return why

    def near(self, vms: Iterable[str]) -> frozenset[str]:
        """Return the names of the other hosts of the cluster of the first of some VMs."""
        ref = next(iter(vms), "")
        estate = self.situation.view.estate
        home = estate.host_of(ref)
        return frozenset(h.name for h in estate.hosts_for(ref) if h != home) if home else frozenset()

    def words(self, vms: Iterable[str], hosts: Iterable[str]) -> str:
        """Return why hosts (names) take none of some VMs by themselves, as words; "" where each takes one."""
        refs = [*vms]
        whys = ((h, self.why_not(refs[0], h)) for h in sorted(hosts)) if refs else iter(())
        return "; ".join([f"{host}: {why}" for host, why in whys if why][:SHOWN])


def with_admission(answer: Answer, narrowed: Question, elsewhere: Elsewhere, spare: int) -> Answer:
    """Return what holds of an answer about GPUs once hosts are asked to take VMs together.

    That one assignment does not hold proves nothing of others: these are searched with a limit, and where none is found
    it is not decided. A refusal has the reasons of hosts that take its VMs for no other reason, too.
    """
    if not isinstance(answer, Fit):
        reasons = elsewhere.words(answer.vms, elsewhere.near(answer.vms) - {*answer.lost})
        return replace(answer, explanation=f"{answer.explanation}; {reasons}") if reasons else answer
    chosen = {vm: host for vm, (host, _) in answer.assignment.items() if host}
    if why := elsewhere.why_not_there(chosen):
        other = _other(narrowed, elsewhere)
        if other is None:
            return Undecided(f"on GPUs they fit, but {why}", tuple(chosen), assignment=answer.assignment)
        answer, chosen = other, {vm: host for vm, (host, _) in other.assignment.items() if host}
    if spare:
        homes = sorted({d.running_on or chosen.get(d.name, "") for d in narrowed.demands} - {""})
        losses = map(frozenset, combinations(homes, min(spare, len(homes))))
        for lost, outcome in every_outcome(narrowed.farm, narrowed.demands, answer, losses):
            why = elsewhere.why_not_together(lost, outcome, narrowed) if isinstance(outcome, Mapping) else ""
            if why and isinstance(outcome, Mapping):
                names = ", ".join(sorted(lost))
                return Undecided(
                    f"after the loss of {names} they fit on GPUs, but {why}", tuple(outcome), lost=(*lost,)
                )
    return answer


def _other(question: Question, elsewhere: Elsewhere) -> Fit | None:
    """Return places on GPUs of hosts that take all VMs together; None where none were found."""
    hosts = elsewhere.other_places(question)
    if hosts is None:
        return None
    bound = (replace(d, hosts=frozenset({hosts[d.name]})) if d.name in hosts else d for d in question.demands)
    answer = solve(question.farm, tuple(bound))
    return answer if isinstance(answer, Fit) else None
