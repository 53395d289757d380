"""vCenter's answers beside those of the requirements: which evacuations it is asked about, and what differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vsphere_ai.admission.admit import admit, every_requirement
from vsphere_ai.admission.base import Reason
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.oracles import ADMITS, CHECK, CONFIG, EVACUATE, HELP, UNANSWERED, Oracle
from vsphere_ai.admission.situation import Situation
from vsphere_ai.gpu.devices import has_vgpus
from vsphere_ai.model.facts import Estate, grouped
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import ClusterRules, Destroy, EnterMaintenance, Migrate, Reconfigure
from vsphere_ai.model.text import counted
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.evacuation import NOWHERE
from vsphere_ai.planning.observing import observe
from vsphere_ai.planning.planner import CheckAnswer, Plan
from vsphere_ai.resources import kinds

FEW = 3
"""VMs or hosts that a remark names; more are counted."""
REQUIRED = {r.id: frozenset(r.faults) for r in every_requirement()}
"""Faults that a requirement foresees, by its rule."""


@dataclass(frozen=True)
class VcFault:
    """A fault of vCenter: its type, "" where it has none, and its text."""

    type: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({self.type})" if self.type and self.type != self.text else self.text


@dataclass(frozen=True)
class Reply:
    """What vCenter answered about a VM on a host (reference), or about a host to be emptied.

    `unanswered` is why there is no answer; `skipped` why the question was not put to it.
    """

    target: Target
    oracle: Oracle
    host: str = ""
    faults: tuple[VcFault, ...] = ()
    warnings: tuple[str, ...] = ()
    unanswered: str = ""
    skipped: str = ""
    is_now: bool = True
    """Whether things are then as they are now, but for what the plan does to the VM itself."""

    @property
    def shown(self) -> CheckAnswer:
        """The answer as a plan shows it."""
        note = f"could not be asked: {self.unanswered}" if self.unanswered else self.skipped
        return CheckAnswer(self.target, self.oracle.name, tuple(f.text for f in self.faults), self.warnings, note)


# -- evacuations


@dataclass(frozen=True)
class Evacuation:
    """Hosts of a cluster that are out of service together, and the VMs that DRS moves off them.

    `before` are running VMs that go off, move, change, get other rules or are destroyed before, and hosts that are
    changed before: vCenter counts them as they are now.
    `is_next`: no host of the cluster is emptied before these.
    """

    cluster: str
    hosts: tuple[Target, ...]
    leaving: tuple[Target, ...]
    before: tuple[Target, ...] = ()
    is_next: bool = True


def evacuations(plan: Plan, estate: Estate) -> Iterator[Evacuation]:
    """Yield the evacuations by DRS of a plan, those that it refuses for want of a place included."""
    entering = {p.step.target: p.step for p in plan.steps if isinstance(p.step, EnterMaintenance)}
    nowhere = {p.target for p in plan.problems if p.rule == NOWHERE}
    moving = {vm for vm in {*plan.impact.moves, *nowhere} if vm.ref in estate.objects and not has_vgpus(estate[vm.ref])}
    changing = _changing(plan, estate)
    cycled = {*plan.impact.power_cycles}
    for roll in plan.impact.rolls:
        earlier = False
        for hosts in _together(roll.batches, roll.at_a_time):
            out = tuple(h for h in hosts if h in entering)
            own = [vm for h in out for vm in estate.vms_on(h.ref)]
            by_drs = [h for h in out if entering[h].evacuate == "vmotion"]
            leaving = tuple(sorted(vm for h in by_drs for vm in estate.vms_on(h.ref) if vm in moving))
            cluster = str(estate[out[0].ref].get("parent")) if out else ""
            before = {*(vm for vm in own if vm in cycled), *changing.get(cluster, ())}
            if leaving:
                yield Evacuation(cluster, out, leaving, tuple(sorted(before)), not earlier)
            earlier = earlier or bool(out)


def _together(batches: Iterable[Sequence[Target]], at_a_time: int) -> Iterator[Sequence[Target]]:
    for batch in batches:
        yield from (batch[at : at + at_a_time] for at in range(0, len(batch), at_a_time))


def _changing(plan: Plan, estate: Estate) -> Mapping[str, Sequence[Target]]:
    """Return what is changed before an evacuation, by cluster.

    These are running VMs that are moved by the run, changed, given other rules, or destroyed, and hosts that moves
    depend on.
    """
    steps = [p.step for p in plan.steps]
    refs = {s.target.ref for s in steps if isinstance(s, Migrate | Reconfigure | Destroy)}
    refs |= {ref for s in steps if isinstance(s, ClusterRules) for ref in s.wanted.vms}
    vms = {vm for vm in estate.vms if vm.ref in refs and estate.is_on(vm.ref)}

    def cluster(target: Target) -> str:
        host = target if target.kind == "host" else estate.host_of(target.ref)
        return str(estate[host.ref].get("parent")) if host else ""

    hosts = {s.target for s in steps if s.comes_first and s.target.kind == "host"}
    return grouped(sorted(vms | hosts), cluster)


# -- differences


def compared(plan: Plan, estate: Estate, replies: Sequence[Reply]) -> tuple[list[Problem], list[Finding]]:
    """Return what vCenter refuses and the requirements did not foresee, and remarks on other differences."""
    ours = _Ours(plan, estate)
    problems = [problem for reply in replies for problem in _refusals(reply, ours)]
    remarks = [remark for reply in replies if (remark := _admitted(reply, ours)) is not None]
    return problems, [*remarks, *_unanswered(replies)]


def _refusals(reply: Reply, ours: _Ours) -> Iterator[Problem]:
    for fault in reply.faults:
        words = f"vCenter refuses {reply.oracle.words}"
        if reply.oracle is CONFIG:
            yield Finding.problem(reply.target, CHECK, f"{words}: {fault.text}", HELP[CHECK])
        elif not ours.foresees(reply, fault):
            on = ours.name(reply.host)
            message = f"{words}{on}: {fault}; what was read does not show why"
            yield Finding.problem(reply.target, CHECK, message, HELP[CHECK])


def _admitted(reply: Reply, ours: _Ours) -> Finding | None:
    """Return the remark that vCenter's check passed for what is refused, None where it failed or was not made."""
    if reply.faults or reply.unanswered or reply.skipped:
        return None
    why = ours.why_not(reply)
    if not why:
        return None
    verb = reply.oracle.words.removeprefix("to ")
    message = f"vCenter would {verb}{ours.name(reply.host)}, and what was read refuses it: {why}"
    evidence = ((reply.oracle.name, "passed"),)
    return Finding(reply.target, ADMITS, "warn", message, HELP[ADMITS], evidence, reply.oracle.source)


def _unanswered(replies: Iterable[Reply]) -> Iterator[Finding]:
    """Say once for each check and reason that there is no answer."""
    silent = (r for r in replies if r.unanswered)
    for (oracle, why), own in grouped(silent, lambda r: (r.oracle, r.unanswered)).items():
        names = {r.target.name for r in own}
        few = listed(sorted(names)) if len(names) <= FEW else counted(len(names), "target")
        message = f"{oracle.name} gave no answer about {few}: {why}"
        yield Finding(None, UNANSWERED, "unknown", message, HELP[UNANSWERED], (), oracle.source)


@dataclass
class _Ours:
    """What the requirements say: of the plan, and as things stand, which is what vCenter judges."""

    plan: Plan
    estate: Estate
    _now: dict[tuple[str, str, str], Collection[Reason]] = field(default_factory=dict)

    @cached_property
    def _problems(self) -> Mapping[Target, Sequence[Problem]]:
        found: dict[Target, list[Problem]] = defaultdict(list)
        for problem in self.plan.problems:
            found[problem.target].append(problem)
        return found

    @cached_property
    def _situation(self) -> Situation:
        view = View(self.estate, observe(self.estate, kinds()))
        return Situation.as_read(view, Machines(view))

    def name(self, host: str) -> str:
        """Return a host as words."""
        facts = self.estate.get(host)
        return f" on {facts.name}" if facts else ""

    def foresees(self, reply: Reply, fault: VcFault) -> bool:
        """Return whether a fault is one of a requirement that refuses the VM, in the plan or as things stand."""
        rules = {p.rule for p in self._problems.get(reply.target, ())}
        if reply.oracle is EVACUATE and rules:  # its window is refused for a reason of its own
            return True
        rules |= {r.rule for r in self._refused_now(reply)}
        return any(fault.type in REQUIRED.get(rule, ()) for rule in rules)

    def why_not(self, reply: Reply) -> str:
        """Return why a VM is refused for what vCenter looks at as well, "" where it is not."""
        own = self._problems.get(reply.target, ())
        if reply.oracle is EVACUATE:
            return next((p.message for p in own if p.rule == NOWHERE and reply.is_now), "")
        rules = {p.rule for p in own if p.rule not in reply.oracle.misses}
        same = (r.message for r in self._refused_now(reply) if r.rule in rules) if rules else iter(())
        return "; ".join(dict.fromkeys(same))

    def _refused_now(self, reply: Reply) -> Collection[Reason]:
        facts, vm = self.estate.get(reply.host), reply.target.ref
        if facts is None or vm not in self.estate.objects or reply.oracle.occasion == "clone":
            return ()
        key = vm, reply.host, reply.oracle.occasion
        if key not in self._now:
            machine = self._situation.machines.present(vm)
            self._now[key] = admit(machine, facts, self._situation, reply.oracle.occasion).refusals
        return self._now[key]
