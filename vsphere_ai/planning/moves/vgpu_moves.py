"""Moves of VMs with vGPUs to other hosts, window by window of a rollout, so that each finds free GPUs there.

The places are those of the capacity planner: what runs stays, hosts whose window is over have their GPUs as the plan
leaves them, and a VM that has moved once may have to move again. A VM moves to GPUs of the same device, under a host
driver of the same branch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from vsphere_ai.admission.admit import admit, requirements
from vsphere_ai.admission.gpus import observed_profiles, question_of
from vsphere_ai.admission.situation import Situation
from vsphere_ai.capacity.first_fit import AlikeHosts
from vsphere_ai.capacity.host import HostGpus
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Answer, Fit, GpuHosts, VmDemand, concluded, occupied
from vsphere_ai.compat.rules.driver import branch
from vsphere_ai.compat.vgpu_vmotion import Stun, stun, stun_times, why_not_carried
from vsphere_ai.gpu.devices import found_gpus, has_vgpus
from vsphere_ai.gpu.vgpus.slot import GpuSlot
from vsphere_ai.language.playbooks.play import TargetPlans
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import short_list
from vsphere_ai.planning.moves.evacuation import POWER_OFF
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.rolling import Roll, is_down, rolling_of
from vsphere_ai.resources.mixins import vgpus_of

NO_SLOT = "rolling.no-slot"
ON = ("poweredOn", "suspended")
TRIES, FEW_TRIES, FEW_HOSTS = 300, 20, 16
"""Sequences of moves of a cluster that are tried before the first is refused: fewer with more hosts than so many."""
_Move = tuple[Target, str, str]
Avoided = frozenset[_Move]
"""Moves that are not made: the host whose window it is, the reference of the VM, and the name of the other host."""
ALONE = requirements(shared=False, without=("admission.host-state",))
ON_GROUPS = tuple(r for r in ALONE if r.id == "admission.network")
"""Requirements that a host meets for all that are grouped with it."""
TOGETHER = (*ALONE, *requirements(shared=True, without=("admission.gpu",)))
"""What is asked of a host beside its GPUs, which are placed here, and whether it is in service then."""
_Away = tuple[Mapping[Target | None, tuple[Target, ...]], Mapping[Target | None, tuple[Target, ...]]]
_Times = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Migration:
    """A VM with vGPUs that moves while it runs; `stun` are vCenter's estimates, empty where it has none."""

    vm: Target
    source: Target
    target: Target
    stun: tuple[Stun, ...] = ()
    gpus: tuple[str, ...] = ()
    """PCI addresses of the GPUs it is expected on."""


@dataclass
class Moves:
    """The moves of one plan by the host whose window they begin, and what blocks them."""

    by_host: dict[Target, tuple[Migration, ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unread: set[Target] = field(default_factory=set)
    """Hosts on which no VM was placed, because it is not known what stands on their GPUs."""
    tries: int = 1
    refused: int = 0
    """Where there are problems: the position of a window to which none of the `tries` came past."""

    def add(self, others: Moves) -> None:
        """Add the moves of another cluster."""
        self.by_host |= others.by_host
        self.problems += others.problems
        self.unread |= others.unread

    @property
    def all(self) -> tuple[Migration, ...]:
        """Every move, in order."""
        return tuple(m for moves in self.by_host.values() for m in moves)


class MovePlanner:
    """Places the VMs that leave their hosts. `cycled` VMs are powered off and on where they are (VM -> host)."""

    def __init__(
        self, leaving: Iterable[Target], cycled: Mapping[Target, Target | None], desired: TargetPlans, outlook: Outlook
    ) -> None:
        estate = outlook.before.estate
        self._desired, self._outlook = desired, outlook
        self._away = grouped(set(leaving), lambda vm: estate.host_of(vm.ref)), grouped(cycled, cycled.get)
        if self._away[0]:
            self._times = stun_times(estate)
            self._running = outlook.running()

    def of(self, roll: Roll) -> Moves:
        """Return the moves of the roll-out over one cluster, in the order of its windows."""
        if not self._away[0]:
            return Moves()
        here = self._running.only(h.ref for h in roll.members)

        def tried(avoided: Avoided) -> Moves:
            found = Moves()
            _Sequence(roll, self._away, self._desired, self._outlook, (self._times, here.copy(), avoided)).run(found)
            return found

        return _searched(tried, len(roll.members))


def _searched(tried: Callable[[Avoided], Moves], hosts: int) -> Moves:
    """Return the moves of all windows of a cluster together: what one window takes may be what a later one needs.

    Windows are gone through in order, each VM to the first place that takes it. Where a window then has none for its
    VMs, earlier moves are tried elsewhere, one of them, then two, and so on; a move that is avoided is named by its
    window, VM and host. If nothing helps within so many tries, the refusal is that of the first try.
    """
    first = tried(frozenset())
    most, seen = TRIES if hosts <= FEW_HOSTS else FEW_TRIES, {frozenset[_Move]()}
    waiting = deque([(frozenset[_Move](), first)])
    while waiting and first.problems:
        avoided, failed = waiting.popleft()
        for move in ((host, m.vm.ref, m.target.name) for host, own in failed.by_host.items() for m in own):
            more = avoided | {move}
            if more in seen:
                continue
            seen.add(more)
            if first.tries > most:
                return first
            first.tries += 1
            found = tried(more)
            if not found.problems:
                return found
            first.refused = max(first.refused, found.refused)
            waiting.append((more, found))
    return first


class _Sequence:
    """The rollout over one cluster."""

    def __init__(
        self, roll: Roll, away: _Away, desired: TargetPlans, outlook: Outlook, known: tuple[_Times, Situation, Avoided]
    ) -> None:
        self._roll, self._desired, self._outlook = roll, desired, outlook
        self._times, self._situation, avoided = known
        self._avoided = grouped(avoided, lambda move: move[0])
        self._estate = outlook.before.estate
        self._members = {h.name: h for h in roll.members}
        self._places = {h: place for place, h in enumerate(roll.hosts)}
        self._on, self._cycled = ({h: by.get(h, ()) for h in roll.members} for by in away)
        self._cycles = {h: self._first_cycled(h) for h in roll.members}
        here = [v for h in roll.members for v in self._estate.vms_on(h.ref)]
        on = frozenset(v.ref for v in here if self._estate[v.ref].get("runtime.powerState") in ON)
        farm = question_of(outlook.before, on, roll.members).farm
        self._policies = farm.policies
        self._slots = {h.name: tuple(farm.hosts.get(h.name, ())) for h in roll.members}
        self._done: set[Target] = set()
        self._refused: dict[tuple[str, str], str] = {}
        self._branches = {h: branch(self._estate[h.ref]) for h in roll.members}
        found = ((h, found_gpus(self._estate[h.ref].get("hardware.pciDevice", ()))) for h in roll.members)
        self._devices = {h: {g.pci: g.device_id for g in gpus} for h, gpus in found}
        self._networks = frozenset(n for v in here for n in self._estate[v.ref].get("network", ()))
        self._open, self._groups = AlikeHosts(), dict[Hashable, str]()
        for host in roll.members:  # VMs that are off, and are to find their GPUs when they power on
            off = [v for v in self._estate.vms_on(host.ref) if v.ref not in on]
            self._reserve(host, [v for v in off if v.ref in outlook.will_run])
            self._offer(host)

    def run(self, moves: Moves) -> None:
        """Go through the windows in their order; what cannot be placed is a problem, and ends it."""
        hosts, beside = self._roll.hosts, self._roll.at_a_time - 1
        for other in hosts[:beside]:
            self._open.put(other.name)
        for at, host in enumerate(hosts):  # those beside it may be out of service at the same time
            for other in hosts[at + beside : at + beside + 1]:
                self._open.put(other.name)
            for other in hosts[max(at - beside - 1, 0) : max(at - beside, 0)]:
                self._offer(other)
            leaving = sorted(self._on[host])
            if leaving and not self._leave(host, leaving, moves):
                moves.refused = at
                return
            self._end(host)

    def _offer(self, host: Target) -> None:
        """Let VMs go to a host, in a group of hosts that `_why_not` and `_why_not_for` judge alike."""
        facts, slots, done = self._estate[host.ref], self._slots[host.name], host in self._done
        alike = (
            (is_down(self._estate, host), host in self._places and rolling_of(self._desired, host).evacuate, done),
            (_unread(slots), self._cycles[host] is None, self._branches[host]),
            self._networks.intersection(facts.get("network", ())),
            tuple((c["vgpu"], c.get("migrateSupported")) for c in facts.get("config.sharedGpuCapabilities") or ()),
            frozenset((self._devices[host].get(s.pci), s.kind) for s in slots),
        )
        group = self._groups.setdefault(alike, str(len(self._groups)))
        self._open.put(host.name, group, HostGpus(slots, self._policies.get(host.name, "performance")))

    def _leave(self, host: Target, leaving: list[Target], moves: Moves) -> bool:
        self._refused = {(vm, name): "its place is needed later" for _, vm, name in self._avoided.get(host, ())}
        answer: Answer | None = None if self._refused else self._first_fit(host, leaving)
        while answer is None or self._is_refused(answer):
            reasons = {d: self._why_not(host, d) for d in self._roll.members if d != host}
            demands = self._demands(host, leaving, {d.name: d for d, why in reasons.items() if not why})
            names = sorted({n for d in demands for n in d.hosts})
            answer = solve(GpuHosts(tuple(s for n in names for s in self._slots[n]), self._policies), demands)
            if not isinstance(answer, Fit) or answer.reordered:
                moves.problems += self._refusals(host, leaving, reasons, demands, answer)
                moves.unread |= {d for d in reasons if _unread(self._slots[d.name])}
                return False
        vms, made = {v.ref: v for v in leaving}, []
        for ref, (name, places) in answer.assignment.items():
            times = stun(self._times, self._profiles(vms[ref]))
            made.append(Migration(vms[ref], host, self._members[name], times, tuple(p.gpu for p in places)))
        moves.by_host[host] = tuple(made)
        self._on[host] = ()
        self._occupy(answer)
        for migration in made:
            self._on[migration.target] += (migration.vm,)
            if (machine := self._situation.leave(migration.vm.ref)) is not None:
                self._situation.arrive(machine, migration.target.ref)
        for target in {m.target for m in made}:
            self._offer(target)
        return True

    def _is_refused(self, answer: Answer) -> bool:
        """Return whether hosts refuse VMs for anything but GPUs, as they arrive one after another; that is noted."""
        assignment = answer.assignment if isinstance(answer, Fit) else {}
        left = {ref: (self._situation.home(ref), self._situation.leave(ref)) for ref in assignment}
        arrived, refused = [], False
        for ref, (name, _) in assignment.items():
            to, machine = self._members[name], left[ref][1]
            if machine is None:
                continue
            why = admit(machine, self._estate[to.ref], self._situation, "vmotion", TOGETHER).words_against
            if why:
                self._refused[ref, name], refused = why, True
            else:
                self._situation.arrive(machine, to.ref)
                arrived.append(ref)
        for ref in arrived:
            self._situation.leave(ref)
        for home, machine in left.values():
            if home is not None and machine is not None:
                self._situation.arrive(machine, home)
        return refused

    def _demands(self, host: Target, leaving: Iterable[Target], others: Mapping[str, Target]) -> list[VmDemand]:
        """Return what VMs need, with the names of those to which they may go."""
        fit = {vm: frozenset(n for n, d in others.items() if not self._why_not_for(vm, host, d)) for vm in leaving}
        return [VmDemand(vm.ref, self._profiles(vm), names) for vm, names in fit.items()]

    def _first_fit(self, host: Target, leaving: list[Target]) -> Fit | None:
        """Return what `solve` would, where it tries no more than one host after another; None where it tries more."""
        found = ((group, self._members[name]) for group, name in self._open.groups())
        demands = self._demands(host, leaving, {g: d for g, d in found if not self._why_not(host, d)})
        placed = self._open.place(demands)
        if placed is None:
            return None
        names = frozenset(name for name, _ in placed.values())
        gpus = GpuHosts(tuple(s for n in sorted(names) for s in self._slots[n]), self._policies)
        answer = concluded(gpus, [replace(d, hosts=names) for d in demands], placed)
        return answer if isinstance(answer, Fit) and not answer.reordered else None

    def _end(self, host: Target) -> None:
        """Give a host whose window is over its GPUs as the plan leaves them, with the VMs that came back on it."""
        self._slots[host.name] = question_of(self._outlook.after, frozenset(), (host,)).farm.slots
        self._reserve(host, self._cycled[host])
        self._done.add(host)

    def _reserve(self, host: Target, vms: Iterable[Target]) -> None:
        """Keep the GPUs that VMs get on their own host; whether they do is another question (`capacity.no-room`)."""
        own = ((v.ref, vgpus_of(v, self._outlook.after)) for v in sorted(vms))
        demands = [VmDemand(ref, profiles, frozenset({host.name})) for ref, profiles in own if profiles]
        if demands:
            self._occupy(solve(GpuHosts(self._slots[host.name], self._policies), demands))

    def _occupy(self, answer: Answer) -> None:
        for name in {name for name, _ in answer.assignment.values()}:
            self._slots[name] = occupied(GpuHosts(self._slots[name]), answer).slots

    # -- where a VM may go

    def _why_not(self, host: Target, other: Target) -> str:
        """Return why no VM goes from a host to another one in this window, "" when VMs may."""
        if is_down(self._estate, other):
            return "not in service"
        here, place = self._places[host], self._places.get(other)
        if place is not None and other not in self._done:
            if rolling_of(self._desired, other).evacuate != "vmotion":
                return "powers its own VMs off later"
            if abs(place - here) < self._roll.at_a_time:
                return "out of service at the same time"
        elif place is not None and here - place < self._roll.at_a_time:
            return "may still be out of service"
        if not self._slots[other.name]:
            return "has no GPU in Shared Direct mode"
        if _unread(self._slots[other.name]):
            return "what stands on its GPUs is not known"
        changing = self._cycles[other]
        if changing and place is None:
            return f"{changing.name} is powered off and on there at some time"
        mine, theirs = self._branches[host], self._branches[other]
        if mine is None or theirs is None or mine != theirs:
            return f"has another NVIDIA host driver branch ({_shown(theirs)}, here {_shown(mine)})"
        return ""

    def _first_cycled(self, host: Target) -> Target | None:
        """Return a VM with vGPUs that is powered off and on on a host."""
        cycled = set(self._cycled[host])
        own = (v for v in self._estate.vms_on(host.ref) if v in cycled) if cycled else ()
        return next((v for v in own if has_vgpus(self._estate[v.ref])), None)

    def _why_not_for(self, vm: Target, host: Target, other: Target) -> str:
        facts, machine = self._estate[vm.ref], self._situation.machines.present(vm.ref)
        # once a host was refused, those of its group are looked at one by one
        asked = ALONE if self._refused else ON_GROUPS
        why = admit(machine, self._estate[other.ref], self._situation, "vmotion", asked).words_against
        if why := self._refused.get((vm.ref, other.name), why):
            return f"does not take it: {why}"
        # what the GPUs will offer is known only later where this plan changes that
        if other not in self._done and any(
            why_not_carried(d, self._estate[other.ref]) for d in facts.get("config.hardware.device", ())
        ):
            return "its host driver does not support vMotion of it"
        mine = {self._devices[host].get(pci) for pci in self._gpus_of(vm, host)}
        able = {
            self._devices[other].get(s.pci)
            for s in self._slots[other.name]
            if any(s.kind.takes(p) for p in self._profiles(vm))
        }
        return "" if not mine or mine >= able else "has GPUs of another kind"

    def _gpus_of(self, vm: Target, host: Target) -> Iterator[str]:
        """Yield the GPUs a VM runs on: as vCenter shows it, or where it has been moved to before."""
        infos = self._estate[host.ref].get("config.graphicsInfo", ())
        shown = [g["pciId"] for g in infos if vm.ref in (g.get("vm") or ())]
        moved = [s.pci for s in self._slots[host.name] if any(r.vm == vm.ref for r in s.running)]
        yield from (*shown, *moved)

    def _profiles(self, vm: Target) -> tuple[str, ...]:
        return tuple(sorted(observed_profiles(self._estate[vm.ref])))

    # -- words

    def _refusals(
        self,
        host: Target,
        leaving: list[Target],
        reasons: Mapping[Target, str],
        demands: Iterable[VmDemand],
        answer: object,
    ) -> Iterator[Problem]:
        vms = {v.ref: v for v in leaving}
        homeless = [vms[d.name] for d in demands if not d.hosts]
        others = "; ".join(f"{d.name} {why}" if " " in why else f"{d.name}: {why}" for d, why in reasons.items() if why)
        for vm in homeless:
            own = [f"{d.name} {w}" for d in reasons if not reasons[d] and (w := self._why_not_for(vm, host, d))]
            why = "; ".join([*own, *([others] if others else [])]) or "it has no other host"
            yield Finding.problem(vm, NO_SLOT, f"{self._where(vm, host)}; no other host takes it: {why}", POWER_OFF)
        if homeless:
            return
        explanation = getattr(answer, "explanation", "the GPUs have room, but in no order in which the VMs arrive")
        left = getattr(answer, "vms", ()) or tuple(vms)
        names = short_list(sorted(vms[ref].name for ref in left if ref in vms))
        why = f"no free place for {names} elsewhere: {explanation}{f' ({others})' if others else ''}"
        for vm in (vms[ref] for ref in left if ref in vms):
            yield Finding.problem(
                vm, NO_SLOT, f"{self._where(vm, host)}; {why}", f"free GPUs on other hosts, or {POWER_OFF}"
            )

    def _where(self, vm: Target, host: Target) -> str:
        verb = "it runs on" if self._estate.host_of(vm.ref) == host else "it will have been moved to"
        return f"{verb} {host.name}, which has to enter maintenance mode"


def _unread(slots: Iterable[GpuSlot]) -> bool:
    return any(s.guessed for s in slots)


def _shown(driver: int | None) -> str:
    return "unknown" if driver is None else f"R{driver}"
