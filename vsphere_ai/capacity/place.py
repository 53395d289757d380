"""Places VMs on hosts so that they power on there in some order, and says what that does to the GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vsphere_ai.capacity.assign import EXACT_GPUS, assign
from vsphere_ai.capacity.gpu import GpuSlot, Running, most
from vsphere_ai.capacity.groups import Budget
from vsphere_ai.capacity.host import Given, Host, Policy, Spread
from vsphere_ai.capacity.items import Division, Misfit, VmClass
from vsphere_ai.capacity.power_on_order import Orders, find_order
from vsphere_ai.capacity.wording import sentence
from vsphere_ai.gpu.catalog import Profile
from vsphere_ai.gpu.connected import leaders
from vsphere_ai.gpu.vgpu import Share

FIRST_STEPS = 200
"""Situations looked at per host in search of a power-on order for the first assignment."""


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
    """Every VM has room. `assignment`: VM -> (host, its vGPUs), in an order in which they power on.

    `no_order` names the hosts on which none was found, `stuck` those of them on which there is none; when `exact` as
    well, no other assignment does without. `reordered` names VMs whose vGPUs have to come in another order than by
    name: as given in `assignment`. Not `exact` either when the place of a running VM was not known.
    """

    assignment: Mapping[str, tuple[str, tuple[Given, ...]]]
    exact: bool = True
    warnings: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    no_order: tuple[str, ...] = ()
    reordered: tuple[str, ...] = ()

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


def room(slots: Iterable[GpuSlot], profiles: Iterable[str]) -> dict[str, int]:
    """Return how many more vGPUs of each profile alone these GPUs can take."""
    gpus = tuple(slots)
    return {name: sum(most(s.kind, s.state, name) for s in gpus) for name in sorted(set(profiles))}


def place(farm: GpuHosts, demands: Sequence[VmDemand]) -> Fit | NoFit:
    """Place VMs; when no power-on order carries an assignment out on a host, others are tried that do without."""
    answer = _place_once(farm, demands)
    if isinstance(answer, NoFit) or not answer.no_order:
        return answer
    for several in (False, True) if len(farm.slots) > EXACT_GPUS else ():
        moved = (_relieved(d, answer, several=several) for d in demands)
        other = _place_once(farm, tuple(moved))
        if isinstance(other, Fit) and not other.no_order:
            return other
    other = _place_once(farm, demands, orders_of(farm))
    if isinstance(other, NoFit) and other.exact:  # every assignment was tried
        return replace(answer, stuck=answer.no_order, exact=not any(s.guessed for s in farm.slots))
    return other if isinstance(other, Fit) and not other.no_order else answer


def fits_with_layouts(farm: GpuHosts, demands: Sequence[VmDemand]) -> bool:
    """Tell whether VMs that do not fit would if the GPU instances were made beforehand, with explicit starts."""
    explicit = replace(farm, slots=tuple(replace(s, explicit=s.mode == "mig") for s in farm.slots))
    told = (assign(classes, slots) for classes, slots in components(explicit, demands))
    return not any(isinstance(t, Misfit) for t in told)


def _relieved(demand: VmDemand, fit: Fit, *, several: bool) -> VmDemand:
    """Send a VM away from a host without an order: those with several vGPUs, or those with one."""
    at = fit.assignment[demand.name][0]
    if at in fit.no_order and (len(demand.profiles) > 1) == several:
        return replace(demand, hosts=demand.hosts - {at})
    return demand


def orders_of(farm: GpuHosts) -> Orders:
    """Return what tells whether VMs power on on hosts of the estate."""
    return Orders({n: Host(slots, farm.policies.get(n, "performance")) for n, slots in farm.hosts.items()})


def _place_once(farm: GpuHosts, demands: Sequence[VmDemand], orders: Orders | None = None) -> Fit | NoFit:
    division: Division = {}
    misfits: list[tuple[Misfit, tuple[GpuSlot, ...]]] = []
    for classes, slots in components(farm, demands):
        told = assign(classes, slots, orders)
        if isinstance(told, Misfit):
            misfits.append((told, slots))
        else:
            division.update(told)
    if misfits:
        return _no_fit(misfits)
    return realised(farm, demands, division, orders)


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


def components(
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
    leader = leaders(kept.values())
    grouped: dict[str, list[VmClass]] = defaultdict(list)
    for one in classes:
        grouped[leader.get(min(one.hosts, default=""), "")].append(one)
    gpus: dict[str, list[GpuSlot]] = defaultdict(list)
    for slot in farm.slots:
        gpus[leader.get(slot.host, "")].append(slot)
    for head, members in grouped.items():
        reachable = frozenset[str]().union(*(m.hosts for m in members))
        yield tuple(members), tuple(s for s in gpus[head] if s.host in reachable)


def realised(farm: GpuHosts, demands: Sequence[VmDemand], division: Division, orders: Orders | None = None) -> Fit:
    """Let every host power its VMs on as vSphere would, which decides the GPUs and the order.

    With `orders`, what is known of hosts is used where the short search for an order fails.
    """
    profiles = {d.name: tuple(sorted(d.profiles)) for d in demands}
    assignment: dict[str, tuple[str, tuple[Given, ...]]] = {n: ("", ()) for n, p in profiles.items() if not p}
    warnings: list[str] = []
    stuck: list[str] = []
    no_order: list[str] = []
    for name, slots in farm.hosts.items():
        given = {s.pci: _largest_first(s, division.get((name, s.pci), ())) for s in slots}
        vms = {vm: profiles[vm] for gpu in given.values() for vm, _ in gpu}
        if not vms:
            continue
        host = Host(slots, farm.policies.get(name, "performance"))
        budget = Budget(FIRST_STEPS)
        spread = find_order(host, vms, {pci: [vm for vm, _ in own] for pci, own in given.items()}, budget)
        if spread is None and orders is not None:
            spread = orders.spread(name, vms)
        if spread is None:
            no_order.append(name)
            stuck += [name] if budget.steps >= 0 else []
            warnings.append(
                f"{name}: the GPUs have room for {', '.join(vms)}, but no order was found in which all of them power on"
            )
            spread = _as_divided(given)
        assignment.update((vm, (name, places)) for vm, places in spread.items())
    return replace(concluded(farm, demands, assignment, warnings), stuck=tuple(stuck), no_order=tuple(no_order))


def concluded(
    farm: GpuHosts,
    demands: Iterable[VmDemand],
    assignment: Mapping[str, tuple[str, tuple[Given, ...]]],
    without_order: Iterable[str] = (),
) -> Fit:
    """Return an assignment as a fit, with a warning for everything an operator has to know."""
    profiles = {d.name: tuple(sorted(d.profiles)) for d in demands}
    warnings = list(without_order)
    used = {host for host, _ in assignment.values()}
    if any(s.guessed for s in farm.slots if s.host in used):
        warnings.append("what some running VMs hold on their GPUs is not known: vSphere's usual places are assumed")
    exact = not warnings
    placed = {vm: tuple(p.profile for p in places) for vm, (_, places) in assignment.items()}
    reordered = tuple(vm for vm, names in placed.items() if names != profiles[vm])
    warnings += [f"{vm}: its vGPUs have to be attached in the order {', '.join(placed[vm])}" for vm in reordered]
    return Fit(assignment, exact=exact, warnings=tuple(warnings), reordered=reordered)


def _as_divided(given: Mapping[str, Iterable[tuple[str, str]]]) -> Spread:
    spread: dict[str, tuple[Given, ...]] = {}
    for pci, vgpus in given.items():
        for vm, profile in vgpus:
            spread[vm] = tuple(sorted((*spread.get(vm, ()), Given(pci, profile)), key=lambda g: (g.profile, g.gpu)))
    return spread


def _largest_first(slot: GpuSlot, vgpus: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    def size(profile: str) -> tuple[int, int]:
        takes = slot.kind.takes(profile)
        takes = takes.profile if isinstance(takes, Share) else takes
        return (-takes.memory_slices, -takes.compute_slices) if isinstance(takes, Profile) else (0, 0)

    return sorted(vgpus, key=lambda v: (size(v[1]), v[1]))


def occupied(farm: GpuHosts, fit: Fit) -> GpuHosts:
    """Return the estate as it is when the VMs of a fit run."""
    more: dict[tuple[str, str], list[Running]] = defaultdict(list)
    for vm, (host, places) in fit.assignment.items():
        for place in places:
            more[host, place.gpu].append(Running(vm, place.profile, place.start))
    slots = (replace(s, running=(*s.running, *more.get((s.host, s.pci), ()))) for s in farm.slots)
    return replace(farm, slots=tuple(slots))
