"""Admission of what a plan powers on or changes while it runs, in the estate as the plan leaves it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from vsphere_ai.admission.admit import Admission, admit, every_requirement
from vsphere_ai.admission.base import Occasion
from vsphere_ai.admission.machines import Machines, planned_steps
from vsphere_ai.admission.requirements.vm_rules import vm_rules
from vsphere_ai.admission.situation import Situation, powered_on
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.finding import Finding, Problem, Verdict
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import ClusterRules, Destroy, PowerOn, Reconfigure, Step
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import members_of
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.resources.mixins import stated

ELSEWHERE = frozenset({"admission.gpu"})
"""Asked for all VMs of a host together, with the order in which they power on: `planning.capacity`."""
Concerned = Mapping[Target, Occasion]


def concerned(steps: Iterable[Step], view: View) -> Concerned:
    """Return the VMs that a plan powers on, or changes while they run, and which of these it does."""
    found: dict[Target, Occasion] = {}
    for step in steps:
        if step.target.kind != "vm":
            continue
        if isinstance(step, PowerOn):
            cycled = step.target.ref in view.estate.objects and view.estate.is_on(step.target.ref)
            found[step.target] = "power_cycle" if cycled else "power_on"
        elif isinstance(step, Reconfigure) and view.estate.is_on(step.target.ref):
            found.setdefault(step.target, "reconfigure")
    return found


def final_situation(view: View, steps: Sequence[Step], running: Collection[str] | None = None) -> Situation:
    """Return where VMs run once a plan is carried out, as its steps leave them.

    `running` are references of VMs that are taken to be on then; None: those that are on, or that a step powers on.
    """
    machines = Machines(view, planned_steps(steps))
    situation = Situation.as_read(view, machines).copy()
    situation.added_rules = rules_made(steps)
    gone = {s.target.ref for s in steps if isinstance(s, Destroy)}
    for ref in machines.on:
        if ref in gone:
            situation.leave(ref)
    changed = {ref for ref in machines.on if ref in machines.steps}
    if running is None:
        changed |= {s.target.ref for s in steps if isinstance(s, PowerOn)}
    else:
        changed |= {ref for ref in running if ref in machines.steps or not view.estate.is_on(ref)}
    powered_on(situation, sorted(changed - gone))
    makers = (s for m in members_of(view.estate) if not m.exists for s in stated(view, m.ref, MakesVms))
    situation.disks_bytes = next((s.space_of_new(view) for s in makers), {})
    return situation


def rules_made(steps: Iterable[Step]) -> Mapping[str, tuple[ClusterRules, ...]]:
    """Return the steps that make rules, by cluster, as they are when VMs power on: later ones free VMs for DRS."""
    every = [s for s in steps if isinstance(s, ClusterRules)]
    early = {(s.cluster, s.wanted.set) for s in every if not s.ready}
    return grouped((s for s in every if not s.ready or (s.cluster, s.wanted.set) not in early), lambda s: s.cluster)


def answers(
    situation: Situation, asked: Concerned, at: Mapping[Target, Situation] | None = None
) -> Iterator[tuple[Target, Target, Admission]]:
    """Yield each VM with its host and the answer.

    `at` has VMs for which rules between VMs are asked about another situation, that of the moment when they power on:
    of all else they take no more then.
    """
    estate = situation.view.estate
    every = tuple(r for r in every_requirement() if r.id not in ELSEWHERE)
    others = tuple(r for r in every if r is not vm_rules)
    for vm, occasion in sorted(asked.items()):
        host = estate.get(situation.home(vm.ref))
        if host is None:
            continue
        machine, then = situation.machines.planned(vm.ref), (at or {}).get(vm)
        answer = admit(machine, host, situation, occasion, every if then is None else others)
        if then is not None:
            answer = Admission((*answer.reasons, *admit(machine, host, then, occasion, (vm_rules,)).reasons))
        yield vm, Target("host", host.name, host.ref), answer


WORDS: Mapping[Occasion, str] = {
    "power_on": "it could not power on",
    "power_cycle": "it has to be powered off, and could not power on again",
    "reconfigure": "it runs, and could not be changed",
}


def refusals(
    found: Iterable[tuple[Target, Target, Admission]], asked: Concerned, known: Collection[Target]
) -> Iterator[Problem]:
    """Yield what blocks them; of VMs that are `known` to be refused for another reason nothing more."""
    for vm, host, answer in found:
        if vm in known:
            continue
        for reason in answer.refusals:
            message = f"{WORDS[asked[vm]]} on {host.name}: {reason.message}"
            yield Finding.problem(vm, reason.rule, message, reason.help or "use another host")


def undecided(found: Iterable[tuple[Target, Target, Admission]], asked: Concerned) -> Iterator[Finding]:
    """Yield what could not be decided, and what is against a power-on without forbidding it."""
    sources = {r.id: r.source for r in every_requirement()}
    for vm, host, answer in found:
        for reason in answer.reasons:
            if reason.verdict == "unknown" or (reason.verdict == "preferred" and asked[vm] != "reconfigure"):
                verdict: Verdict = "unknown" if reason.verdict == "unknown" else "warn"
                evidence = (("runtime.host", host.name),)
                message = f"on {host.name}: {reason.message}"
                yield Finding(vm, reason.rule, verdict, message, reason.help, evidence, sources[reason.rule])


def of_adopted(situation: Situation, adopted: Iterable[Target]) -> Iterator[Finding]:
    """Yield what would keep VMs that become VMs of a set as they are from powering on again where they are.

    Adopting changes nothing of them, so that it is no refusal; what the set changes later is asked about then.
    """
    sources, estate = {r.id: r.source for r in every_requirement()}, situation.view.estate
    for vm in sorted(adopted):
        home = estate.host_of(vm.ref)
        if home is None:
            continue
        occasion: Occasion = "power_cycle" if estate.is_on(vm.ref) else "power_on"
        machine = situation.machines.present(vm.ref)
        for reason in admit(machine, estate[home.ref], situation, occasion).refusals:
            message = f"it could not power on again on {home.name} as it is: {reason.message}"
            evidence = (("runtime.host", home.name),)
            yield Finding(vm, reason.rule, "warn", message, reason.help, evidence, sources[reason.rule])
