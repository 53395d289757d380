"""Orders the steps of all targets; every rule is an edge.

What a datacenter's hosts and VMs share comes first. VMs go off before their host enters maintenance and come back after
it left; then its health gate ends the window. Hosts of a cluster follow each other (`rolling`), clusters do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vsphere_ai.gpu.devices import has_vgpus
from vsphere_ai.language.playbooks.play import Power, TargetPlans
from vsphere_ai.model.facts import Estate, grouped
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import (
    Clone,
    ClusterRules,
    Destroy,
    GuestReady,
    Healthy,
    Reconfigure,
    RunningVm,
    Step,
)
from vsphere_ai.model.vm_sets import member_of, members_of, replaced_by
from vsphere_ai.planning.moves.evacuation import obstacles, shutdown_problems, why_not_moved, why_pinned
from vsphere_ai.planning.moves.held_up import held_up
from vsphere_ai.planning.moves.managed_vms import Agent, on_windows, stuck
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.rolling import Roll, changed_first, make_rolls, powered_on_between, rolling_of
from vsphere_ai.planning.moves.rule_order import Moments, rule_moments
from vsphere_ai.planning.moves.vgpu_moves import Migration, MovePlanner, Moves
from vsphere_ai.planning.moves.window_search import Windows, roll_outs
from vsphere_ai.planning.scheduling.beside_moves import BesideMoves, beside_moves
from vsphere_ai.planning.scheduling.health import HostBefore, found
from vsphere_ai.planning.scheduling.rules_first import RulesBesideWindows, beside_windows, moment_edges
from vsphere_ai.planning.scheduling.set_order import around_rules, behind_canaries, power_on_edges, power_on_of
from vsphere_ai.planning.scheduling.step_order import PlannedStep, can_be_ordered, numbered, that_can_be_added
from vsphere_ai.planning.scheduling.windows import (
    Switch,
    WindowFlags,
    health_gate,
    host_now,
    host_window,
    migrate_step,
    needs_maintenance,
    shared_windows,
    vm_window,
)
from vsphere_ai.resources.host_settings import Loss


@dataclass(frozen=True)
class Impact:
    """What people fear: who reboots, who is power-cycled, and who is hit without being in the playbook.

    `moves` are VMs that DRS takes to other hosts, `migrations` those with vGPUs that the run itself moves; `found` is
    what the hosts' health is measured by afterwards.
    """

    reboots: tuple[Target, ...] = ()
    maintenance: tuple[Target, ...] = ()
    power_cycles: tuple[Target, ...] = ()
    outside: tuple[Target, ...] = ()
    at_a_time: int = 1
    moves: tuple[Target, ...] = ()
    rolls: tuple[Roll, ...] = ()
    found: tuple[HostBefore, ...] = ()
    lost: tuple[Loss, ...] = ()
    """Data lost on reboot and not recreated."""
    migrations: tuple[Migration, ...] = ()
    unplaced: tuple[Target, ...] = ()
    """Hosts on which no VM was placed, because it is not known what stands on their GPUs."""
    agents: tuple[Agent, ...] = ()
    """VMs that are left out of everything, because vCenter or an extension looks after them."""
    created: tuple[Target, ...] = ()
    """VMs that the plan makes."""
    destroyed: tuple[Target, ...] = ()
    """VMs that the plan destroys, with their disks."""
    adopted: tuple[Target, ...] = ()
    """VMs that become VMs of a set as they are."""

    @property
    def unread(self) -> tuple[Target, ...]:
        """Hosts whose GPU instances matter to this plan and were not read."""
        return tuple(sorted({*self.unplaced, *(loss.host for loss in self.lost if loss.unread)}))


@dataclass
class _Arrangement:
    estate: Estate
    desired: TargetPlans
    steps: Mapping[Target, Sequence[Step]]
    windows: frozenset[Target]
    gated: frozenset[Target]
    """Hosts whose window an earlier attempt has begun, and whose health was not checked since."""
    chains: dict[Target, list[Step]] = field(default_factory=dict)
    edges: list[tuple[Step, Step]] = field(default_factory=list)
    rolled: list[tuple[Step, Step]] = field(default_factory=list)
    """Edges from the end of one host's window to the beginning of another's."""
    problems: list[Problem] = field(default_factory=list)
    cycled: dict[Target, Target | None] = field(default_factory=dict)
    """VM -> its host."""
    destroyed: list[Target] = field(default_factory=list)
    rules: list[ClusterRules] = field(default_factory=list)
    moves: list[Target] = field(default_factory=list)
    leaving: list[Target] = field(default_factory=list)
    """VMs with vGPUs that the run itself moves to other hosts."""
    firsts: dict[Target, list[Step]] = field(default_factory=lambda: defaultdict(list))
    """Host -> the steps its window begins with."""
    ends: dict[Target, list[Step]] = field(default_factory=lambda: defaultdict(list))
    beside: BesideMoves = field(default_factory=BesideMoves)

    @cached_property
    def start_ssh(self) -> bool:
        """Whether the run starts SSH: the inventory says it of every host."""
        return all(p.start_ssh for p in self.desired.values())

    @property
    def sequences(self) -> tuple[Sequence[Step], ...]:
        """All steps that follow each other."""
        return (*self.chains.values(), *self.beside.chains)


def arrange(
    estate: Estate,
    desired: TargetPlans,
    steps: Mapping[Target, Sequence[Step]],
    probing: frozenset[Target],
    *,
    outlook: Outlook,
) -> tuple[tuple[PlannedStep, ...], tuple[Problem, ...], Impact, Moments]:
    """Order `steps` (per target). `probing` names hosts whose reading back needs SSH.

    VMs that are power-cycled keep to the `outlook`, by which VMs with vGPUs are placed as well. The last value has the
    moments at which VMs power on, where rules between VMs depend on them.
    """
    given = {t: [s for s in own if not isinstance(s, Healthy)] for t, own in steps.items()}
    windows = frozenset(t for t, s in given.items() if t.kind == "host" and needs_maintenance(s))
    gated = frozenset(t for t, own in steps.items() if any(isinstance(s, Healthy) for s in own))
    work = _Arrangement(estate, desired, {t: s for t, s in given.items() if s}, windows, gated)
    work.beside = beside_moves(work.steps, windows, desired, estate)
    for host in sorted({t for t in work.steps if t.kind == "host"} | gated):
        _add_host(work, host, probes=host in probing)
    for vm in _affected_vms(work):
        _add_vm(work, vm)
    work.edges += behind_canaries(work.chains)
    work.edges += _replacements(work)
    for host in sorted(windows):
        work.problems += stuck(estate, host, rolling_of(desired, host))
    work.edges += power_on_edges(outlook.power_on, work.chains, work.cycled)
    worked_on = sorted(windows | gated)
    rolls, moves, outlook = _roll_outs(work, outlook)
    cycled = tuple(sorted(work.cycled))
    cycled_on = grouped(cycled, lambda vm: work.cycled[vm])
    for host in worked_on:
        _add_gate(work, host, cycled_on.get(host, ()), moves.by_host.get(host, ()))
    _roll_out(work, rolls)
    work.edges += work.beside.edges(estate, work.firsts, work.chains)
    _hold_up(work, rolls, outlook)
    _share(work)
    moments = _time_power_ons(work, rolls, outlook)
    reboots = tuple(t for t in sorted(windows) if any(s.needs_reboot for s in work.steps[t]))
    impact = Impact(
        reboots=reboots,
        maintenance=tuple(sorted(windows)),
        power_cycles=cycled,
        outside=tuple(v for v in cycled if v not in desired),
        at_a_time=max((min(r.at_a_time, max(map(len, r.batches))) for r in rolls), default=1),
        moves=tuple(sorted(work.moves)),
        migrations=moves.all,
        unplaced=tuple(sorted(moves.unread)),
        rolls=rolls,
        found=tuple(found(estate, h) for h in worked_on),
        agents=on_windows(estate, windows),
        created=tuple(t for t in sorted(work.steps) if any(isinstance(s, Clone) for s in work.steps[t])),
        destroyed=tuple(sorted(work.destroyed)),
        adopted=tuple(t for t in sorted(work.steps) if (m := member_of(estate, t.ref)) and m.adopting),
    )
    ordered = numbered(work.sequences, work.rules, work.edges, work.rolled)
    return ordered, tuple(work.problems), impact, moments


def _add_host(work: _Arrangement, host: Target, *, probes: bool) -> None:
    own, late = work.beside.inside(host, work.steps.get(host, ())), host in work.beside.late
    now, rolling = host_now(work.estate, host, start_ssh=work.start_ssh), rolling_of(work.desired, host)
    flags = WindowFlags(probes=probes, begun=host in work.gated, but_last=late)
    work.chains[host] = host_window(now, own, rolling, flags) if own else []
    work.firsts[host] += work.chains[host][:1]


def _affected_vms(work: _Arrangement) -> list[Target]:
    on_window = {v for h in work.windows for v in work.estate.vms_on(h.ref) if work.estate.is_on(v.ref)}
    own = {t for t in work.steps if t.kind == "vm"}
    return sorted(own | {v for v in on_window if v not in work.estate.managed})


def _add_vm(work: _Arrangement, vm: Target) -> None:
    """Give a VM its window, tied to its host's when that host is worked on."""
    host = work.estate.host_of(vm.ref)
    on = work.estate.is_on(vm.ref)
    steps = work.steps.get(vm, ())
    evacuated = host in work.windows and on and host is not None and _goes_off(work, vm, host)
    power = _power(work, vm, host)
    cycle = on and (evacuated or any(s.needs_power_off for s in steps))
    gone = any(isinstance(s, Destroy) for s in steps)
    work.destroyed += [vm] if gone else []
    if cycle:
        work.problems += shutdown_problems(work.estate, vm, power)
        work.cycled |= {} if gone else {vm: host}
    switch: Switch = "cycle" if cycle else "stay" if on or not any(isinstance(s, GuestReady) for s in steps) else "on"
    stop, follow = vm_window(vm, steps, power, switch=switch, off=host if evacuated else None)
    if not stop and not follow:
        return
    work.chains[vm] = stop + follow
    if host in work.chains and host is not None:
        if host in work.windows and stop:
            work.edges.append((stop[-1], work.chains[host][0]))
            work.firsts[host].append(stop[-1])
        if work.chains[host]:
            work.edges.append((work.chains[host][-1], follow[0]))
        if not isinstance(follow[0], Clone):  # a new VM is no sign of how its host is
            work.ends[host].append(follow[-1])
    work.edges += [(chain[-1], follow[0]) for chain in _before_clone(work, follow) if chain]


def _before_clone(work: _Arrangement, steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Yield the steps of the host that the source of a clone is on: it has to be in service then."""
    for step in steps:
        home = work.estate.host_of(step.source) if isinstance(step, Clone) else None
        if home is not None:
            yield work.chains.get(home, ())


def _replacements(work: _Arrangement) -> Iterator[tuple[Step, Step]]:
    """Tie the clone of a VM to the end of the one whose name, addresses and place in a set it gets."""
    ends = {vm.ref: work.chains[vm][-1] for vm in work.destroyed}
    for vm, chain in work.chains.items():
        old = replaced_by(work.estate, vm.ref) if ends and chain and isinstance(chain[0], Clone) else None
        if old is not None and old.ref in ends:
            yield ends[old.ref], chain[0]


def _goes_off(work: _Arrangement, vm: Target, host: Target) -> bool:
    """Decide what happens to a running VM of a host that enters maintenance; say so when it cannot be done."""
    rolling = rolling_of(work.desired, host)
    # one that is switched off for its own changes anyway need not move first
    # and devices it gets were planned for this host: another one may not have the network of an adapter
    own = any(s.needs_power_off or (isinstance(s, Reconfigure) and s.device_changes) for s in work.steps.get(vm, ()))
    if rolling.evacuate == "power_off" or (rolling.evacuate == "vmotion" and own):
        return True
    found_ = tuple(obstacles(work.estate, vm, host, rolling))
    work.problems += found_
    if not found_:
        (work.leaving if has_vgpus(work.estate[vm.ref]) else work.moves).append(vm)
    return False


def _add_moves(work: _Arrangement, moves: Moves) -> None:
    """Begin the windows of hosts with the moves of their VMs with vGPUs, one after the other, as they were placed.

    Other VMs are not switched off before all have moved, and the next host's move after these, whose places they have.
    """
    work.problems += moves.problems
    last: dict[str, Step] = {}
    for host, own in moves.by_host.items():
        steps = [migrate_step(m, rolling_of(work.desired, host)) for m in own]
        off = work.firsts[host]
        work.edges += [(steps[-1], first) for first in off]
        cluster = str(work.estate[host.ref].get("parent"))
        work.rolled += [(last[cluster], steps[0])] if cluster in last else []
        last[cluster] = steps[-1]
        work.chains[host] = steps + work.chains[host]
        work.firsts[host] = [steps[0]]


def _add_gate(work: _Arrangement, host: Target, vms: Sequence[Target], moved: Sequence[Migration]) -> None:
    """End a host's window with its health gate: after all its steps, and after the VMs that had to wait for it."""
    estate = work.estate
    # where DRS moves VMs by itself, a VM on another host is no sign of trouble
    pinned = {v for v in vms if why_pinned(estate, v, host) or why_not_moved(estate, v, host)}
    running = [RunningVm(v.ref, v.name, v in pinned) for v in (*vms, *(m.vm for m in moved))]
    gate = health_gate(host_now(estate, host), rolling_of(work.desired, host), running)
    work.chains[host].append(gate)
    work.edges += [(end, gate) for end in work.ends[host]]


def _power(work: _Arrangement, vm: Target, host: Target | None) -> Power:
    plan = work.desired.get(vm) or (work.desired.get(host) if host else None)
    return plan.power if plan else Power()


def _rolls(work: _Arrangement) -> tuple[Roll, ...]:
    # a host found in maintenance is down already and stays in it: its own window costs nothing
    hosts = [h for h in work.windows if not host_now(work.estate, h).in_maintenance]
    rolls, problems = make_rolls(work.estate, work.desired, hosts, begun=work.gated)
    work.problems += problems
    return rolls


def _rules(work: _Arrangement) -> RulesBesideWindows:
    steps, moved = (s for own in work.steps.values() for s in own), _homes(work, work.moves)
    return beside_windows(steps, work.chains, work.windows | work.gated, moved, work.estate)


def _homes(work: _Arrangement, vms: Iterable[Target]) -> Mapping[str, Target]:
    """Return the hosts that VMs are on, by reference of the VM."""
    return {vm.ref: host for vm in vms if (host := work.estate.host_of(vm.ref)) is not None}


def _roll_outs(work: _Arrangement, outlook: Outlook) -> tuple[tuple[Roll, ...], Moves, Outlook]:
    rules = _rules(work)
    outlook = work.beside.seen_by_moves(rules.seen_by_moves(outlook))
    mover = MovePlanner(work.leaving, work.cycled, work.desired, outlook)
    chained = [step for chain in work.chains.values() for step in chain]
    windows = Windows(mover, work.moves, work.cycled, work.destroyed, outlook, work.steps, chained)
    rolls, moves, problems = roll_outs(_rolls(work), windows, work.gated)
    work.problems += problems
    _add_moves(work, moves)
    work.moves = [vm for vm in work.moves if vm not in {p.target for p in work.problems}]
    by_drs, by_run = _homes(work, work.moves), {m.vm.ref: m.source for m in moves.all}
    work.edges += rules.edges(by_drs, by_run, work.firsts, work.chains)
    return rolls, moves, outlook


def _hold_up(work: _Arrangement, rolls: Sequence[Roll], outlook: Outlook) -> None:
    """Let VMs that could not power on beside a window wait until all windows of their cluster are over."""
    for vm, roll in tuple(held_up(rolls, [s for chain in work.chains.values() for s in chain], work.cycled, outlook)):
        chain = work.chains[vm]
        first = power_on_of(chain) if isinstance(chain[0], Clone) else chain[0]
        work.edges += [(work.chains[host][-1], first) for host in roll.hosts if first is not None]


def _time_power_ons(work: _Arrangement, rolls: Sequence[Roll], outlook: Outlook) -> Moments:
    """Tie power-ons to windows and to each other; return the moments at which rules between VMs permit them."""
    _start_between(work, rolls)
    return _keep_rules(work, rolls, outlook)


def _start_between(work: _Arrangement, rolls: Sequence[Roll]) -> None:
    """Let new VMs power on between the windows of their cluster where the roll-outs were judged by that."""
    from vsphere_ai.planning.moves.starts import STARTS

    on = {
        vm: step for roll in rolls for vm in roll.starts if (step := power_on_of(work.chains.get(vm, ()))) is not None
    }
    edges = [*powered_on_between(rolls, on, work.chains, work.firsts)]
    if can_be_ordered(work.sequences, work.rules, (*work.edges, *work.rolled, *edges)):
        work.edges += edges
        return
    for vm in on:
        message = "it has to power on between windows of its cluster, and waits for another cluster that waits for it"
        work.problems.append(Finding.problem(vm, STARTS, message, "make the set in a run of its own"))


def _keep_rules(work: _Arrangement, rolls: Sequence[Roll], outlook: Outlook) -> Moments:
    """Let VMs power on when rules between VMs permit it; return the moments of those that can."""
    steps = [step for chain in work.chains.values() for step in chain]
    wanted = rule_moments(steps, work.moves, work.windows, rolls, outlook)
    chains, homes = {vm.ref: chain for vm, chain in work.chains.items()}, _homes(work, work.moves)
    vms = [vm for vm in wanted if power_on_of(work.chains[vm]) is not None]
    groups = [[*moment_edges(vm.ref, wanted[vm], chains, homes)] for vm in vms]
    kept = that_can_be_added(work.sequences, work.rules, (*work.edges, *work.rolled), groups)
    work.edges += [edge for at in kept for edge in groups[at]]
    return {vms[at]: wanted[vms[at]] for at in kept}


def _roll_out(work: _Arrangement, rolls: Sequence[Roll]) -> None:
    """Let the hosts of each cluster follow each other; pending gates, and VMs that are changed first, come before."""
    work.edges += changed_first(rolls, work.chains, work.firsts)
    pending = grouped(sorted(work.gated - work.windows), lambda h: work.estate[h.ref].get("parent"))
    for host, before in ((h, roll.before(h)) for roll in rolls for h in roll.hosts):
        ends = [work.chains[h][-1] for h in (*before, *pending.get(work.estate[host.ref].get("parent"), ()))]
        work.rolled += [(end, first) for end in ends for first in work.firsts[host]]


def _share(work: _Arrangement) -> None:
    """Let what is changed for a whole datacenter end before anything of its hosts and VMs begins, or begin after it."""
    shared = [t for t in sorted(work.steps) if t.kind == "datacenter"]
    inside = {t: work.estate.datacenter_of(t.ref) for t in work.chains} if shared else {}
    for datacenter in shared:
        plain = [s for s in work.steps[datacenter] if not isinstance(s, ClusterRules)]
        rules = [s for s in work.steps[datacenter] if isinstance(s, ClusterRules)]
        work.rules += rules
        first, last = shared_windows(datacenter, plain)
        work.chains[datacenter] = first + last
        work.edges += [(first[-1], rule) for rule in rules if first]
        work.edges += [(rule, last[0]) for rule in rules if last]
        every = (work.chains, work.beside.early, work.beside.late)
        within = [c for t, where in inside.items() if where == datacenter for own in every if (c := own.get(t))]
        work.edges += [(first[-1], chain[0]) for chain in within if first]
        work.edges += [(chain[-1], last[0]) for chain in within if last]
    if work.rules:
        replaced = {old.ref for vm in work.chains if (old := replaced_by(work.estate, vm.ref)) is not None}
        leaving = {m.ref for m in members_of(work.estate) if m.leaving} - replaced
        work.edges += around_rules(work.rules, work.chains, leaving)
