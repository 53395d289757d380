"""Do these VMs fit on these GPUs: which goes where and in which order, or what stands in the way. Pure.

A VM's vGPUs all come from one host. vGPUs that run stay where they are. A GPU is in MIG mode or time-sliced, never
both. Under MIG vSphere makes an instance at the driver's default start when a VM powers on, so what counts as
fitting is what some power-on order reaches, not what explicit starts would.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from vsphere_ai.gpu.capacity_assign import Division, Misfit, VmClass, assign
from vsphere_ai.gpu.capacity_gpu import GpuSlot, Running, most
from vsphere_ai.gpu.capacity_host import Given, Host, Policy, Spread, find_order
from vsphere_ai.gpu.capacity_pack import Budget
from vsphere_ai.gpu.capacity_words import sentence
from vsphere_ai.gpu.catalog import Profile

ORDER_STEPS = 20_000
"""Situations looked at per host in search of a power-on order when the promising ones fail."""


@dataclass(frozen=True)
class VmDemand:
    """A VM and the vGPU profiles it powers on with, on one of `hosts`.

    With `running_on` it runs there already: it is not placed, but has to find room elsewhere when that host fails.
    """

    name: str
    profiles: tuple[str, ...]
    hosts: frozenset[str]
    running_on: str | None = None


@dataclass(frozen=True)
class Fit:
    """Every VM has a place. `assignment`: VM -> (host, its vGPUs), in an order in which they power on.

    Not `exact` when the place of a running VM was not known, or no power-on order was found on a host; `warnings`
    say so. `stuck` names the hosts on which certainly no order lets all VMs of this assignment power on.
    """

    assignment: Mapping[str, tuple[str, tuple[Given, ...]]]
    exact: bool = True
    warnings: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """The VMs in the order to power them on."""
        return tuple(self.assignment)


@dataclass(frozen=True)
class NoFit:
    """Not every VM has a place: one sentence why, the VMs that are left over, and what would still fit now.

    `room`: profile -> how many more of it alone, on top of what runs. `lost`: the hosts whose failure this is about.
    When not `exact`, no place was found, but that there is none was not proved.
    """

    explanation: str
    vms: tuple[str, ...]
    room: Mapping[str, int]
    exact: bool = True
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class GpuHosts:
    """The GPUs VMs may run on, by host; `policies` holds the assignment policy of hosts, else ``performance``."""

    slots: tuple[GpuSlot, ...]
    policies: Mapping[str, Policy] = field(default_factory=dict)

    def without(self, hosts: Iterable[str]) -> GpuHosts:
        """Return the estate after these hosts have failed."""
        gone = set(hosts)
        return replace(self, slots=tuple(s for s in self.slots if s.host not in gone))

    @property
    def hosts(self) -> dict[str, list[GpuSlot]]:
        """The GPUs of each host, by name."""
        found: dict[str, list[GpuSlot]] = defaultdict(list)
        for slot in self.slots:
            found[slot.host].append(slot)
        return dict(sorted(found.items()))


def solve(farm: GpuHosts, demands: Iterable[VmDemand], *, spare_hosts: int = 0) -> Fit | NoFit:
    """Place all VMs that do not run yet; with `spare_hosts`, all still fit after the loss of any so many hosts.

    Exact for VMs that share up to 64 GPUs. VMs that run are only moved by a failure of their host.
    """
    wanted = tuple(demands)
    answer = _place(farm, [d for d in wanted if d.running_on is None])
    if isinstance(answer, NoFit) or not spare_hosts:
        return answer
    return _with_spare(farm, wanted, answer, spare_hosts)


def room(slots: Iterable[GpuSlot], profiles: Iterable[str]) -> dict[str, int]:
    """Return how many more vGPUs of each profile alone these GPUs can take."""
    gpus = tuple(slots)
    return {name: sum(most(s.kind, s.state, name) for s in gpus) for name in sorted(set(profiles))}


def _place(farm: GpuHosts, demands: Sequence[VmDemand]) -> Fit | NoFit:
    """Place VMs; when no power-on order carries an assignment out on a host, others are tried that relieve it."""
    answer = _place_once(farm, demands)
    if isinstance(answer, NoFit) or not answer.stuck:
        return answer
    for several in (False, True):
        moved = (_relieved(d, answer, several=several) for d in demands)
        other = _place_once(farm, tuple(moved))
        if isinstance(other, Fit) and not other.stuck:
            return other
    return answer


def _relieved(demand: VmDemand, fit: Fit, *, several: bool) -> VmDemand:
    """Send a VM away from a host without an order: those with several vGPUs, or those with one."""
    at = fit.assignment[demand.name][0]
    if at in fit.stuck and (len(demand.profiles) > 1) == several:
        return replace(demand, hosts=demand.hosts - {at})
    return demand


def _place_once(farm: GpuHosts, demands: Sequence[VmDemand]) -> Fit | NoFit:
    division: Division = {}
    misfits: list[tuple[Misfit, tuple[GpuSlot, ...]]] = []
    for classes, slots in _components(farm, demands):
        told = assign(classes, slots)
        if isinstance(told, Misfit):
            misfits.append((told, slots))
        else:
            division.update(told)
    if misfits:
        return _no_fit(misfits)
    return _realised(farm, demands, division)


def _no_fit(misfits: Sequence[tuple[Misfit, tuple[GpuSlot, ...]]]) -> NoFit:
    first = min(misfits, key=lambda m: not m[0].told.exact)
    left = (
        vm
        for misfit, _ in misfits
        for item, count in zip(misfit.items, misfit.told.left, strict=True)
        for vm in item.owners[len(item.owners) - count :]
    )
    free: dict[str, int] = {}
    for misfit, slots in misfits:
        for item in misfit.items:
            here = room((s for s in slots if s.host in item.hosts), (item.profile,))
            free[item.profile] = max(free.get(item.profile, 0), here[item.profile])
    guessed = any(s.guessed for _, slots in misfits for s in slots)
    exact = first[0].told.exact and not guessed
    return NoFit(sentence(*first), tuple(dict.fromkeys(left)), dict(sorted(free.items())), exact)


def _components(
    farm: GpuHosts, demands: Iterable[VmDemand]
) -> Iterator[tuple[tuple[VmClass, ...], tuple[GpuSlot, ...]]]:
    """Yield VMs that may compete for the same hosts, with those hosts' GPUs: they are judged on their own."""
    known: dict[int, frozenset[str]] = {}  # sets of hosts are large and shared by many VMs: compare them once
    same: dict[frozenset[str], frozenset[str]] = {}
    alike: dict[tuple[tuple[str, ...], int], list[str]] = defaultdict(list)
    kept: dict[int, frozenset[str]] = {}
    for each in demands:
        if each.profiles:
            if id(each.hosts) not in known:
                known[id(each.hosts)] = same.setdefault(each.hosts, each.hosts)
            hosts = known[id(each.hosts)]
            kept[id(hosts)] = hosts
            alike[tuple(sorted(each.profiles)), id(hosts)].append(each.name)
    classes = [VmClass(profiles, kept[key], tuple(vms)) for (profiles, key), vms in alike.items()]
    leader = _leaders(kept.values())
    grouped: dict[str, list[VmClass]] = defaultdict(list)
    for one in classes:
        grouped[leader.get(min(one.hosts, default=""), "")].append(one)
    gpus: dict[str, list[GpuSlot]] = defaultdict(list)
    for slot in farm.slots:
        gpus[leader.get(slot.host, "")].append(slot)
    for head, members in grouped.items():
        reachable = frozenset[str]().union(*(m.hosts for m in members))
        yield tuple(members), tuple(s for s in gpus[head] if s.host in reachable)


def _leaders(sets: Iterable[frozenset[str]]) -> dict[str, str]:
    """Return for every host the one that stands for all hosts connected with it."""
    leader: dict[str, str] = {}

    def head(host: str) -> str:
        while leader[host] != host:
            leader[host] = leader[leader[host]]
            host = leader[host]
        return host

    for hosts in sets:
        first = min(hosts, default=None)
        for host in hosts:
            leader.setdefault(host, host)
        for host in hosts:
            leader[head(host)] = head(str(first))
    return {host: head(host) for host in leader}


def _realised(farm: GpuHosts, demands: Sequence[VmDemand], division: Division) -> Fit:
    """Let every host power its VMs on as vSphere would, which decides the GPUs and the order."""
    profiles = {d.name: tuple(sorted(d.profiles)) for d in demands}
    assignment: dict[str, tuple[str, tuple[Given, ...]]] = {n: ("", ()) for n, p in profiles.items() if not p}
    warnings: list[str] = []
    stuck: list[str] = []
    guessed = False
    for name, slots in farm.hosts.items():
        given = {s.pci: _largest_first(s, division.get((name, s.pci), ())) for s in slots}
        vms = {vm: profiles[vm] for gpu in given.values() for vm, _ in gpu}
        if not vms:
            continue
        guessed |= any(s.guessed for s in slots)
        host = Host(slots, farm.policies.get(name, "performance"))
        budget = Budget(ORDER_STEPS)
        spread = find_order(host, vms, [[vm for vm, _ in given[s.pci]] for s in host.slots], budget)
        if spread is None:
            stuck += [name] if budget.steps >= 0 else []
            warnings.append(
                f"{name}: the GPUs have room for {', '.join(vms)}, but no order was found in which all of them power on"
            )
            spread = _as_divided(given)
        assignment.update((vm, (name, places)) for vm, places in spread.items())
    if guessed:
        warnings.append("what some running VMs hold on their GPUs is not known: vSphere's usual places are assumed")
    return Fit(assignment, exact=not warnings, warnings=tuple(warnings), stuck=tuple(stuck))


def _as_divided(given: Mapping[str, Iterable[tuple[str, str]]]) -> Spread:
    spread: dict[str, tuple[Given, ...]] = {}
    for pci, vgpus in given.items():
        for vm, profile in vgpus:
            spread[vm] = (*spread.get(vm, ()), Given(pci, profile))
    return spread


def _largest_first(slot: GpuSlot, vgpus: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    def size(profile: str) -> tuple[int, int]:
        takes = slot.kind.takes(profile)
        return (-takes.memory_slices, -takes.compute_slices) if isinstance(takes, Profile) else (0, 0)

    return sorted(vgpus, key=lambda v: (size(v[1]), v[1]))


def _with_spare(farm: GpuHosts, demands: Sequence[VmDemand], first: Fit, spare: int) -> Fit | NoFit:
    """Check the loss of every so many hosts; when a first assignment fails, keep hosts free one after another."""
    hosts = sorted({h for d in demands for h in (d.hosts if d.running_on is None else (d.running_on,))})
    losses = [frozenset(lost) for lost in combinations(hosts, min(spare, len(hosts)))]
    for lost in losses:  # if even a fresh start without these hosts fails, no assignment survives their loss
        fresh = _place(farm.without(lost), _homeless(demands, lost, first=None))
        if isinstance(fresh, NoFit):
            return _after_loss(fresh, lost, exact=fresh.exact)
    failed = first_failure(farm, demands, first, losses)
    if failed is None:
        return first
    for lost in losses:
        kept_free = [replace(d, hosts=d.hosts - lost) for d in demands if d.running_on is None]
        other = _place(farm, kept_free)
        if isinstance(other, Fit) and first_failure(farm, demands, other, losses) is None:
            return other
    return _after_loss(failed[1], failed[0], exact=False)


def first_failure(
    farm: GpuHosts, demands: Sequence[VmDemand], fit: Fit, losses: Iterable[frozenset[str]]
) -> tuple[frozenset[str], NoFit] | None:
    """Return the first loss after which the VMs of the lost hosts do not fit on the others as these then are.

    A VM may restart on any of its `hosts`, wherever `fit` or `running_on` says it was.
    """
    used = occupied(farm, fit)
    for lost in losses:
        answer = _place(used.without(lost), _homeless(demands, lost, first=fit))
        if isinstance(answer, NoFit):
            return lost, answer
    return None


def _homeless(demands: Iterable[VmDemand], lost: frozenset[str], first: Fit | None) -> list[VmDemand]:
    """Return the VMs that need a host after a loss; without an assignment, all that do not run elsewhere."""
    found = []
    for each in demands:
        at = each.running_on or (first.assignment.get(each.name, ("", ()))[0] if first else None)
        if at is None or at in lost:
            found.append(replace(each, hosts=each.hosts - lost, running_on=None))
    return found


def _after_loss(answer: NoFit, lost: Iterable[str], *, exact: bool) -> NoFit:
    names = tuple(sorted(lost))
    loss = f"the loss of {', '.join(names)}"
    found = f"no assignment was found that survives {loss}; with the first one"
    words = f"after {loss}: {answer.explanation}" if exact else f"{found} {answer.explanation}"
    return replace(answer, explanation=words, lost=names, exact=exact)


def occupied(farm: GpuHosts, fit: Fit) -> GpuHosts:
    """Return the estate as it is when the VMs of a fit run."""
    more: dict[tuple[str, str], list[Running]] = defaultdict(list)
    for vm, (host, places) in fit.assignment.items():
        for place in places:
            more[host, place.gpu].append(Running(vm, place.profile, place.start))
    slots = (replace(s, running=(*s.running, *more.get((s.host, s.pci), ()))) for s in farm.slots)
    return replace(farm, slots=tuple(slots))
