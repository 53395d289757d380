"""Orders the steps of all targets; every rule is an edge.

VMs go off before their host enters maintenance and come back after it left; `max_unavailable` hosts of a cluster are
worked on at a time, hosts that are down already counted; clusters and unrelated VMs go side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from math import floor

from vsphere_ai.facts import Estate
from vsphere_ai.playbook import Power, Rolling, TargetPlan
from vsphere_ai.state import Problem, Target
from vsphere_ai.steps import Step
from vsphere_ai.windows import host_now, host_window, needs_maintenance, vm_window

PINNING = ("VirtualPCIPassthrough", "VirtualSriovEthernetCard")


@dataclass(frozen=True)
class PlannedStep:
    """A step with its place: it starts when all steps named in `after` have ended well."""

    id: str
    step: Step
    after: tuple[str, ...]


@dataclass(frozen=True)
class Impact:
    """What people fear: who reboots, who is switched off and on, and who is hit without being in the playbook."""

    reboots: tuple[Target, ...] = ()
    maintenance: tuple[Target, ...] = ()
    power_cycles: tuple[Target, ...] = ()
    outside: tuple[Target, ...] = ()
    at_a_time: int = 1


@dataclass
class _Arrangement:
    estate: Estate
    desired: Mapping[Target, TargetPlan]
    steps: Mapping[Target, Sequence[Step]]
    probing: frozenset[Target]
    chains: dict[Target, list[Step]] = field(default_factory=dict)
    edges: list[tuple[Step, Step]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    cycled: list[Target] = field(default_factory=list)
    ends: dict[Target, list[Step]] = field(default_factory=dict)
    slots: int = 1


def arrange(
    estate: Estate,
    desired: Mapping[Target, TargetPlan],
    steps: Mapping[Target, Sequence[Step]],
    probing: frozenset[Target],
) -> tuple[tuple[PlannedStep, ...], tuple[Problem, ...], Impact]:
    """Order `steps` (per target). `probing` names hosts whose reading back needs SSH."""
    work = _Arrangement(estate, desired, {t: s for t, s in steps.items() if s}, probing)
    windows = [t for t, s in work.steps.items() if t.kind == "host" and needs_maintenance(s)]
    for host in sorted(t for t in work.steps if t.kind == "host"):
        now, rolling = host_now(estate, host), _rolling(desired, host)
        work.chains[host] = host_window(now, work.steps[host], rolling, probes=host in probing)
    for vm in _affected_vms(work, windows):
        _add_vm(work, vm, windows)
    _roll(work, windows)
    reboots = tuple(t for t in sorted(windows) if any(s.needs_reboot for s in work.steps[t]))
    cycled = tuple(sorted(work.cycled))
    impact = Impact(reboots, tuple(sorted(windows)), cycled, tuple(v for v in cycled if v not in desired), work.slots)
    return _number(work), tuple(work.problems), impact


def _rolling(desired: Mapping[Target, TargetPlan], host: Target) -> Rolling:
    return desired[host].rolling if host in desired else Rolling()


def _affected_vms(work: _Arrangement, windows: Sequence[Target]) -> list[Target]:
    on_windows = {v for h in windows for v in work.estate.vms_on(h.ref) if _powered_on(work.estate, v)}
    return sorted({t for t in work.steps if t.kind == "vm"} | {v for v in on_windows if not v.name.startswith("vCLS")})


def _add_vm(work: _Arrangement, vm: Target, windows: Sequence[Target]) -> None:
    """Give a VM its window, tied to its host's when that host is worked on."""
    host = work.estate.host_of(vm.ref)
    on = _powered_on(work.estate, vm)
    steps = work.steps.get(vm, ())
    evacuated = host in windows and on and host is not None and _goes_off(work, vm, host, bool(steps))
    power = _power(work, vm, host)
    cycle = on and (evacuated or any(s.needs_power_off for s in steps))
    if cycle:
        work.problems += _shutdown_problems(work.estate, vm, power)
        work.cycled.append(vm)
    stop, follow = vm_window(vm, steps, power, cycle=cycle)
    if not stop and not follow:
        return
    work.chains[vm] = stop + follow
    if host in work.chains and host is not None:
        if host in windows and stop:
            work.edges.append((stop[-1], work.chains[host][0]))
        work.edges.append((work.chains[host][-1], follow[0]))
        work.ends.setdefault(host, []).append(follow[-1])


def _goes_off(work: _Arrangement, vm: Target, host: Target, has_steps: bool) -> bool:
    """Decide what happens to a running VM of a host that enters maintenance; say so when it cannot be done."""
    evacuate = _rolling(work.desired, host).evacuate
    if evacuate == "power_off":
        return True
    where = f"{vm.name} runs on {host.name}, which has to enter maintenance mode"
    if evacuate == "refuse":
        work.problems.append(
            Problem(
                vm,
                "rolling.evacuate",
                where,
                "write rolling: {evacuate: power_off} (or vmotion), or power it off first",
            )
        )
    elif has_steps:
        return True  # it is switched off for its own changes anyway, so it need not move first
    elif _pinned(work.estate, vm):
        work.problems.append(
            Problem(
                vm,
                "rolling.pinned",
                f"{where}; it has a vGPU or passthrough device, which vSphere 7.0 U2 does not evacuate",
                "write rolling: {evacuate: power_off}",
            )
        )
    elif not any(_takes_vms(work.estate, h) for h in work.estate.hosts_for(vm.ref) if h != host):
        work.problems.append(
            Problem(
                vm,
                "rolling.nowhere",
                f"{where}; no other host of its cluster is connected and in service, so it has nowhere to move",
                "write rolling: {evacuate: power_off}",
            )
        )
    return False


def _takes_vms(estate: Estate, host: Target) -> bool:
    facts = estate[host.ref]
    return facts.get("runtime.connectionState") == "connected" and not facts.get("runtime.inMaintenanceMode")


def _power(work: _Arrangement, vm: Target, host: Target | None) -> Power:
    plan = work.desired.get(vm) or (work.desired.get(host) if host else None)
    return plan.power if plan else Power()


def _shutdown_problems(estate: Estate, vm: Target, power: Power) -> Iterator[Problem]:
    tools = estate[vm.ref].get("guest.toolsRunningStatus")
    if tools != "guestToolsRunning" and not power.force:
        yield Problem(
            vm,
            "power.tools",
            f"the guest cannot be shut down cleanly: VMware Tools are {tools or 'unknown'}",
            "write power: {force: true} to allow a hard power-off",
        )
    if estate[vm.ref].get("runtime.question"):
        yield Problem(
            vm, "power.question", "the VM waits for an answer to a question", "answer it in the vSphere Client"
        )


def _roll(work: _Arrangement, windows: Sequence[Target]) -> None:
    """Chain the windows of each cluster so that at most `max_unavailable` of its hosts are down at once."""
    clusters: dict[str, list[Target]] = defaultdict(list)
    for host in windows:
        clusters[str(work.estate[host.ref].get("parent"))].append(host)
    for members in clusters.values():
        # a host found in maintenance is down already and stays in it: its own window costs nothing
        order = sorted(h for h in members if not host_now(work.estate, h).in_maintenance)
        if not order:
            continue
        slots = _slots(work, order)
        work.slots = max(work.slots, slots)
        for host, earlier in zip(order[slots:], order, strict=False):
            for first in _firsts(work, host):
                work.edges += [(end, first) for end in [work.chains[earlier][-1], *work.ends.get(earlier, ())]]


def _firsts(work: _Arrangement, host: Target) -> list[Step]:
    entry = work.chains[host][0]
    return [entry] + [before for before, after in work.edges if after is entry and before.target.kind == "vm"]


def _slots(work: _Arrangement, order: Sequence[Target]) -> int:
    cluster = work.estate[order[0].ref].get("parent")
    hosts = [h for h in work.estate.hosts if work.estate[h.ref].get("parent") == cluster]
    wanted = min(_absolute(_rolling(work.desired, h).max_unavailable, len(hosts)) for h in order)
    down = [h for h in hosts if h not in order and _is_down(work.estate, h)]
    if wanted - len(down) < 1:
        work.problems.append(
            Problem(
                order[0],
                "rolling.budget",
                f"{len(down)} host(s) of the cluster are down already "
                f"({', '.join(h.name for h in down)}), max_unavailable is {wanted}",
                "bring them back, or raise rolling: {max_unavailable: N}",
            )
        )
    return max(1, min(wanted - len(down), len(order)))


def _absolute(value: int | str, hosts: int) -> int:
    return value if isinstance(value, int) else max(1, floor(hosts * int(value.rstrip("%")) / 100))


def _is_down(estate: Estate, host: Target) -> bool:
    facts = estate[host.ref]
    return bool(facts.get("runtime.inMaintenanceMode")) or facts.get("runtime.connectionState") != "connected"


def _powered_on(estate: Estate, vm: Target) -> bool:
    return bool(estate[vm.ref].get("runtime.powerState") == "poweredOn")


def _pinned(estate: Estate, vm: Target) -> bool:
    return any(d["_typeName"] in PINNING for d in estate[vm.ref].get("config.hardware.device", ()))


def _number(work: _Arrangement) -> tuple[PlannedStep, ...]:
    """Give every step an id in an order it may run in, and say what it waits for."""
    after: dict[int, list[Step]] = {}
    known: dict[int, Step] = {}
    for chain in work.chains.values():
        for earlier, later in zip([None, *chain], chain, strict=False):
            known[id(later)] = later
            after.setdefault(id(later), [])
            if earlier is not None:
                after[id(later)].append(earlier)
    for earlier, later in work.edges:
        after[id(later)].append(earlier)
    sorter = TopologicalSorter({key: [id(e) for e in earlier] for key, earlier in after.items()})
    order = [known[key] for key in _stable(sorter, known)]
    names = {id(step): f"s{i:03d}" for i, step in enumerate(order, 1)}
    return tuple(PlannedStep(names[id(s)], s, tuple(sorted({names[id(e)] for e in after[id(s)]}))) for s in order)


def _stable(sorter: TopologicalSorter[int], known: Mapping[int, Step]) -> Iterator[int]:
    """Yield keys wave by wave, each wave by target: the same inputs number the same steps, whatever their addresses."""
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=lambda k: (known[k].target, known[k].summary))
        yield from ready
        sorter.done(*ready)


def waves(steps: Sequence[PlannedStep]) -> tuple[tuple[PlannedStep, ...], ...]:
    """Group steps into waves: the steps of one wave wait only for earlier waves."""
    level: dict[str, int] = {}
    for planned in steps:
        level[planned.id] = 1 + max((level[a] for a in planned.after), default=-1)
    grouped: dict[int, list[PlannedStep]] = defaultdict(list)
    for planned in steps:
        grouped[level[planned.id]].append(planned)
    return tuple(tuple(grouped[i]) for i in sorted(grouped))
