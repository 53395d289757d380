"""Spare hosts: assignments whose VMs find GPUs again after any loss of so many hosts. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice

from vsphere_ai.capacity.assign import EXACT_GPUS, programme_of, settled
from vsphere_ai.capacity.host import Places, likeness
from vsphere_ai.capacity.items import VmClass, components
from vsphere_ai.capacity.milp import Programme, Solved, vms_of
from vsphere_ai.capacity.place import place
from vsphere_ai.capacity.power_on_order import Orders
from vsphere_ai.capacity.restart import Loss, Restarts, moved_off
from vsphere_ai.capacity.verdict import Answer, Fit, GpuHosts, NoFit, Undecided, VmDemand, concluded, occupied

FIXES = 12
"""Times an assignment is changed where it does not survive, before the programme is asked."""
EARLY_FIXES = 2
"""Changed assignments that are tried before it is asked whether there is one at all, which takes every loss."""

Refusal = NoFit | Undecided


def with_spare(farm: GpuHosts, demands: Sequence[VmDemand], first: Fit, spare: int) -> Answer:
    """Return an assignment that survives the loss of any `spare` hosts, or the loss none survives."""
    hosts = sorted({h for d in demands for h in (d.hosts if d.running_on is None else (d.running_on,))})
    losses = [frozenset(lost) for lost in combinations(hosts, min(spare, len(hosts)))]
    failed = first_failure(farm, demands, first, losses)
    if failed is None:
        return first
    fixed = iter(_fixed(farm, demands, failed, losses))

    def answers() -> Iterator[Answer | None]:
        yield _nowhere(farm, demands, failed[:1], first)
        yield from islice(fixed, EARLY_FIXES)
        yield _nowhere(farm, demands, losses, first)
        yield from fixed

    answer = next((a for a in answers() if a is not None), None)
    if answer is not None:
        return answer
    found, certain = None, False
    if len(farm.slots) <= EXACT_GPUS:
        found, certain = _survivor(farm, demands, losses, [failed[0]])
    if found is None and certain:
        return _after_loss(
            *failed, f"no assignment survives every loss of {_hosts(len(failed[0]))}; the first one not that of {{}}:"
        )
    return found or _unknown(*failed)


def _nowhere(farm: GpuHosts, demands: Sequence[VmDemand], losses: Iterable[Loss], first: Fit) -> Refusal | None:
    """Return the first loss after which VMs do not fit even when all others start afresh: no assignment survives it."""
    restarts = Restarts(occupied(farm, first), demands, first)
    for lost in _different(farm, demands, losses, {}):
        if restarts.survives(lost):
            continue
        fresh = place(farm.without(lost), moved_off((d for d in demands if d.running_on in (None, *lost)), lost))
        if isinstance(fresh, Undecided):
            return _unknown(lost, fresh)
        if isinstance(fresh, NoFit):
            return _after_loss(lost, fresh, "after the loss of {}:")
    return None


def first_failure(
    farm: GpuHosts, demands: Sequence[VmDemand], fit: Answer, losses: Iterable[Loss]
) -> tuple[Loss, Refusal] | None:
    """Return the first loss after which the VMs of the lost hosts do not fit on the others as these then are.

    A VM may restart on any of its `hosts`, wherever `fit` or `running_on` says it was.
    """
    used = occupied(farm, fit)
    different = _different(used, demands, losses, {vm: host for vm, (host, _) in fit.assignment.items()})
    return next(_failures(used, demands, fit, different), None)


def every_failure(
    farm: GpuHosts, demands: Sequence[VmDemand], fit: Answer, losses: Iterable[Loss]
) -> Iterator[tuple[Loss, Refusal]]:
    """Yield each loss after which VMs do not fit, alike ones too; see `first_failure`."""
    return _failures(occupied(farm, fit), demands, fit, losses)


def every_outcome(
    farm: GpuHosts, demands: Sequence[VmDemand], fit: Answer, losses: Iterable[Loss]
) -> Iterator[tuple[Loss, Refusal | Mapping[str, str]]]:
    """Yield each loss, alike ones too, with the hosts on which VMs restart, or why not all do; see `first_failure`."""
    return _outcomes(occupied(farm, fit), demands, fit, losses)


def _failures(
    used: GpuHosts, demands: Sequence[VmDemand], fit: Answer, losses: Iterable[Loss]
) -> Iterator[tuple[Loss, Refusal]]:
    for lost, outcome in _outcomes(used, demands, fit, losses):
        if isinstance(outcome, NoFit | Undecided):
            yield lost, outcome


def _outcomes(
    used: GpuHosts, demands: Sequence[VmDemand], fit: Answer, losses: Iterable[Loss]
) -> Iterator[tuple[Loss, Refusal | Mapping[str, str]]]:
    restarts = Restarts(used, demands, fit)
    for lost in losses:
        hosts = restarts.hosts_after(lost)
        if hosts is None:
            answer = place(used.without(lost), restarts.homeless(lost))
            if not isinstance(answer, Fit):
                yield lost, answer
                continue
            hosts = {vm: host for vm, (host, _) in answer.assignment.items()}
        yield lost, hosts


def _different(
    farm: GpuHosts, demands: Sequence[VmDemand], losses: Iterable[Loss], at: Mapping[str, str]
) -> Iterator[Loss]:
    """Yield losses that differ: hosts with GPUs, VMs and neighbours that are alike can stand for each other."""
    features = _features(farm, demands, at)
    seen = set()
    for lost in losses:
        key = tuple(sorted(features[h] for h in lost))
        if key not in seen:
            seen.add(key)
            yield lost


def _features(farm: GpuHosts, demands: Sequence[VmDemand], at: Mapping[str, str]) -> dict[str, int]:
    """Return a number per host; the same one for hosts that do not differ."""
    sets = tuple(dict.fromkeys(d.hosts for d in demands))
    homes: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for each in demands:
        home = each.running_on or at.get(each.name)
        if home is not None:
            homes[home].append((tuple(sorted(each.profiles)), sets.index(each.hosts)))
    numbers: dict[object, int] = {}
    known = {}
    gpus = farm.hosts
    for host in dict.fromkeys((*gpus, *(h for hosts in sets for h in hosts), *homes)):
        member = tuple(host in hosts for hosts in sets)
        key = (likeness(gpus.get(host, ())), farm.policies.get(host), member, tuple(sorted(homes[host], key=repr)))
        known[host] = numbers.setdefault(key, len(numbers))
    return known


def _after_loss(lost: Loss, answer: Refusal, words: str) -> Refusal:
    """Return a refusal as what a loss does; `words` has a place for the names of the hosts."""
    names = tuple(sorted(lost))
    return replace(answer, explanation=f"{words.format(', '.join(names))} {answer.explanation}", lost=names)


def _unknown(lost: Loss, answer: Refusal) -> Undecided:
    words = "no assignment was found that survives the loss of {}; with the first one"
    loss = _after_loss(lost, answer, words)
    return Undecided(loss.explanation, loss.vms, loss.room, loss.lost, loss.no_order, loss.assignment)


def _hosts(count: int) -> str:
    return f"{count} host{'' if count == 1 else 's'}"


def _fixed(
    farm: GpuHosts, demands: Sequence[VmDemand], failed: tuple[Loss, Refusal], losses: Sequence[Loss]
) -> Iterator[Fit | None]:
    """Try assignments that may survive: hosts kept free one after another, then VMs moved off where they fail.

    Yields None for each that does not.
    """
    new = [d for d in demands if d.running_on is None]
    for lost in _different(farm, demands, losses, {}):
        other = place(farm, [replace(d, hosts=d.hosts - lost) for d in new])
        survives = isinstance(other, Fit) and first_failure(farm, demands, other, losses) is None
        yield other if isinstance(other, Fit) and survives else None
    barred: dict[str, frozenset[str]] = defaultdict(frozenset)
    for _ in range(FIXES):
        for vm in failed[1].vms:
            barred[vm] |= failed[0]
        other = place(farm, [replace(d, hosts=d.hosts - barred[d.name]) for d in new])
        if not isinstance(other, Fit):
            return
        again = first_failure(farm, demands, other, losses)
        yield other if again is None else None
        failed = again or failed


def _survivor(
    farm: GpuHosts, demands: Sequence[VmDemand], losses: Sequence[Loss], asked: list[Loss]
) -> tuple[Fit | None, bool]:
    """Return an assignment that survives every loss, or whether it is certain that there is none.

    The integer programme knows of the losses in `asked`, to which those are added that its solutions do not survive.
    """
    new = [d for d in demands if d.running_on is None]
    classes = [c for members, _ in components(farm, new) for c in members]
    orders = Orders(farm.machines)
    programme = programme_of(classes, farm.slots, orders)
    running = _running(demands)
    for lost in asked:
        programme.survive(lost, running)
    for _ in losses:
        solved = settled(programme, orders)
        if solved is None:
            return None, programme.certain
        fit = _as_solved(farm, new, programme, solved, orders)
        failed = first_failure(farm, demands, fit, losses)
        if failed is None and isinstance(fit, Fit):
            return fit, True
        if failed is None or failed[0] in asked:
            break
        asked.append(failed[0])
        programme.survive(failed[0], running)
    return None, False


def _as_solved(farm: GpuHosts, new: Sequence[VmDemand], programme: Programme, solved: Solved, orders: Orders) -> Answer:
    """Let every host power its VMs on so that those of lost hosts can follow."""
    places: dict[str, tuple[str, Places]] = {d.name: ("", ()) for d in new if not d.profiles}
    for host, vms in vms_of(programme.classes, solved).items():
        after = [tuple(load.elements()) for lost, load in solved.loads[host].items() if lost]
        spread = orders.spread(host, vms, after) or {}
        places.update((vm, (host, given)) for vm, given in spread.items())
    return concluded(farm, new, places)


def _running(demands: Iterable[VmDemand]) -> list[tuple[str, VmClass]]:
    """Return the VMs that run, those that are alike together, with their host."""
    alike: dict[tuple[str, tuple[str, ...], frozenset[str]], list[str]] = defaultdict(list)
    for each in demands:
        if each.running_on is not None and each.profiles:
            alike[each.running_on, tuple(sorted(each.profiles)), each.hosts].append(each.name)
    return [(home, VmClass(profiles, hosts, tuple(vms))) for (home, profiles, hosts), vms in alike.items()]
