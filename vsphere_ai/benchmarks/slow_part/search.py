"""Search for the slow part of a set of VMs: screens, confirmation of every suspect, links, rails, layers of slow VMs.

Screens are partitions into about √N groups: one within hosts and switches, one across them, so that a VM is suspect
where both of its groups are slow; one by rail. Every suspect is confirmed with a healthy VM that no other suspect has.
A slow group without a slow VM is bisected: a link is between two parts that are fast each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median

from vsphere_ai.benchmarks.slow_part.bisect import MOST_OF_A_CELL, Cell, SlowCell, SlowLink, narrow
from vsphere_ai.benchmarks.slow_part.layers import RUNS, SlowLayer, examine
from vsphere_ai.benchmarks.slow_part.pairs import measure_pairs, rounds_of_pairs, slow_ends
from vsphere_ai.benchmarks.slow_part.partitions import FabricPlace, Group, across, by_host, by_rail, places
from vsphere_ai.benchmarks.slow_part.trials import Judge, Search, Trial, can_share, together
from vsphere_ai.model.nodes import Node

FEW = 8
"""Up to this many VMs every pair is measured."""
MOST_LINKS = 4
"""Slow links that are searched for."""
ALMOST_ALL = 0.75
"""Share of slow groups from which all VMs are slow, and rails are compared with each other."""


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found: slow VMs with their slow layer, slow links, rails that are slow for every VM.

    `all_slow`: every group is below the reference, and no part could be named. `unresolved` are VMs that could not be
    confirmed, because no healthy VM was left for them or pairs of two VMs only were measured. `reference` is in GB/s.
    """

    vms: tuple[SlowLayer, ...] = ()
    links: tuple[SlowLink, ...] = ()
    rails: tuple[int, ...] = ()
    all_slow: bool = False
    unresolved: tuple[str, ...] = ()
    transient: int = 0
    reference: float | None = None

    @property
    def is_clean(self) -> bool:
        """Whether nothing slow was found."""
        return not (self.vms or self.links or self.rails or self.all_slow or self.unresolved)


@dataclass
class _State:
    """What is known so far: the groups that were slow, VMs that a fast group cleared, bad ones, what was found."""

    nodes: Mapping[str, Node]
    where: Mapping[str, FabricPlace]
    judge: Judge
    slow: list[Group] = field(default_factory=list)
    cleared: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    layers: dict[str, SlowLayer] = field(default_factory=dict)
    links: list[SlowLink] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)
    transient: int = 0

    @property
    def outcome(self) -> SearchOutcome:
        """What was found."""
        unresolved = tuple(dict.fromkeys(vm for vm in self.unresolved if vm not in self.layers))
        found = tuple(self.layers.values()), tuple(self.links)
        return SearchOutcome(*found, unresolved=unresolved, transient=self.transient, reference=self.judge.reference)


def search(nodes: Sequence[Node], judge: Judge) -> Search[SearchOutcome]:
    """Search the slow parts of a set of VMs; `judge` learns the reference where it has none."""
    state = _State({node.vm: node for node in nodes}, places(nodes), judge)
    if len(nodes) < 2:
        return SearchOutcome(unresolved=tuple(state.nodes))
    if len(nodes) <= FEW:
        return (yield from _few(state))
    inside = by_host(state.where)
    screens = (inside, across(inside))
    yield from _screen(screens, state)
    most = len(state.slow) > ALMOST_ALL * sum(map(len, screens))
    if most or not state.slow:
        rails = sorted({r.number for node in nodes for r in node.rails if r.number is not None})
        slow_rails = yield from _rails(list(state.where), rails, judge)
        if slow_rails or most:
            return SearchOutcome(rails=slow_rails, all_slow=not slow_rails, reference=judge.reference)
    suspects = _suspects(screens, state)
    plain = [group for group in state.slow if not set(group) & set(suspects)]
    # a slow link is in many groups across switches; one slow group alone has a VM that the other screen did not show
    linked = [group for group in plain if group in screens[1]]
    linked = linked if len(linked) > 1 else []
    groups = [group for group in state.slow if group not in linked]
    suspects = list(dict.fromkeys([*suspects, *chain(*(group for group in plain if group not in linked))]))
    yield from together([_accuse(suspects, groups, linked, state), _explain(linked, state)])
    return state.outcome


def _few(state: _State) -> Search[SearchOutcome]:
    judge, names, given = state.judge, list(state.nodes), state.judge.reference
    found = yield from measure_pairs(rounds_of_pairs(names), judge)
    bad, pairs = slow_ends(found, judge)
    # without a reference a pair would be compared with itself
    if len(names) == 2 and (pairs or given is None):
        return SearchOutcome(unresolved=tuple(names), reference=judge.reference)
    if len(bad) >= len(names) - 1:
        return SearchOutcome(all_slow=True, reference=judge.reference)
    healthy = [vm for vm in names if vm not in bad]
    state.cleared.update(healthy)
    yield from _examine({vm: healthy[at % len(healthy)] for at, vm in enumerate(bad)}, (), state)
    for one, other in pairs:
        value = found[one, other]
        share = value / judge.reference if value is not None and judge.reference else None
        state.links.append(SlowLink(Cell(one, (one,)), Cell(other, (other,)), share))
    return state.outcome


def _screen(screens: Sequence[Sequence[Group]], state: _State) -> Search[None]:
    values: list[dict[Group, float | None]] = []
    for at, groups in enumerate(screens):
        trials = {Trial(g, runs=state.judge.runs, why=("hosts", "across")[at]): g for g in groups if len(g) > 1}
        results = yield tuple(trials)
        values.append({g: results.get(t) for t, g in trials.items()})
    state.judge.learn(value for each in values for value in each.values())
    for each in values:
        state.slow += [g for g, value in each.items() if state.judge.is_slow(value)]
        state.cleared.update(chain(*(g for g, value in each.items() if not state.judge.is_slow(value))))


def _suspects(screens: Sequence[Sequence[Group]], state: _State) -> list[str]:
    """Return the VMs whose every group is slow."""
    slow = set(state.slow)
    of: dict[str, list[bool]] = {}
    for group in chain(*screens):
        for vm in group:
            of.setdefault(vm, []).append(group in slow)
    return [vm for vm, each in of.items() if all(each)]


def _accuse(vms: Sequence[str], groups: Sequence[Group], busy: Sequence[Group], state: _State) -> Search[None]:
    """Confirm suspects, each with a different healthy VM, and examine the slow ones; `busy` VMs are taken last.

    `groups` were slow, with suspects in them; their other VMs are measured again at the same time, since a group may
    have been slow by chance.
    """
    partners = _partners(vms, (*busy, *groups), state)
    rest = [vm for vm in vms if vm not in partners]
    if not partners:
        state.unresolved += rest
    runs = RUNS * state.judge.runs
    trials = {vm: Trial((vm, other), runs=runs, why="confirm") for vm, other in partners.items()}
    others = {g: tuple(vm for vm in g if vm not in vms) for g in groups}
    again = {g: Trial(own, runs=state.judge.runs, why="again") for g, own in others.items() if len(own) > 1}
    again = {g: trial for g, trial in again.items() if can_share([*trials.values(), trial])}
    asked = (*trials.values(), *again.values())
    results = (yield asked) if asked else {}
    slow = {vm: partners[vm] for vm, trial in trials.items() if state.judge.is_slow(results.get(trial))}
    state.cleared.update(partners.keys() - slow.keys())
    state.cleared.difference_update(slow)
    state.bad.update(slow)
    fast = {g for g, trial in again.items() if not state.judge.is_slow(results.get(trial))}
    if rest and partners:
        yield from _accuse(rest, (), busy, state)  # partners are free again
    left = [group for group in groups if not set(group) & state.bad]
    state.transient += len(fast.intersection(left))
    left = [group for group in left if group not in fast]
    yield from together([_examine(slow, (*busy, *left), state), _explain(left, state)])


def _partners(vms: Iterable[str], busy: Sequence[Group], state: _State) -> dict[str, str]:
    """Return a healthy VM for each, as long as there are any: of the same switch, on another host."""
    free, found, where = _healthy(busy, state, set(vms)), dict[str, str](), state.where
    for vm in vms:
        near = [o for o in free if where[o].switch == where[vm].switch and where[o].host != where[vm].host]
        other = next(iter(near or [o for o in free if where[o].host != where[vm].host] or free), None)
        if other is not None:
            free.remove(other)
            found[vm] = other
    return found


def _healthy(busy: Sequence[Group], state: _State, but: set[str]) -> list[str]:
    """Return the VMs that are known to be fast, those of busy groups last."""
    taken = set(chain(*busy))
    return sorted(state.cleared - state.bad - but, key=lambda vm: (vm in taken, vm))


def _examine(slow: Mapping[str, str], busy: Sequence[Group], state: _State) -> Search[None]:
    """Examine slow VMs, given with their partners, side by side, each with its own healthy VMs if there are enough."""
    spare = _healthy(busy, state, {*slow, *slow.values()})
    searches = []
    for at, (vm, other) in enumerate(slow.items()):
        own = tuple(spare[2 * at : 2 * at + 2])
        searches.append(examine(state.nodes[vm], (vm, other), own if len(own) == 2 else (), state.judge))
    if searches:
        found = yield from together(searches)
        state.layers.update((each.vm, each) for each in found)


def _explain(groups: Sequence[Group], state: _State) -> Search[None]:
    """Find why groups are slow in which no VM is suspect: a link, or a VM that one of the screens did not show."""
    left = list(groups)
    while left and len(state.links) < MOST_LINKS:
        group = max(left, key=len)
        healthy = _healthy((), state, set(group))
        slow = yield from narrow(_cells(group, left, state.where), state.judge, healthy)
        links = [each for each in slow if isinstance(each, SlowLink)]
        vms = [vm for each in slow if isinstance(each, SlowCell) for vm in each.cell.vms]
        yield from _accuse(vms, (), (), state)
        if vms and not set(vms) & state.bad:
            state.unresolved += vms  # slow together, and not one by one
        state.links += links
        state.transient += not slow
        left = [g for g in left if g != group and not set(g) & state.bad]
        left = [g for g in left if not any(_holds(each, g, state.where) for each in links)]


def _cells(group: Group, groups: Sequence[Group], where: Mapping[str, FabricPlace]) -> list[Cell]:
    """Return the parts of a slow group: its switches, else its hosts, else its VMs.

    A switch or host has VMs of other slow groups as well, so that its trials have different VMs.
    """
    names = {vm: where[vm].switch for vm in group}
    if len(set(names.values())) > 1 and all(names.values()):
        mates = [vm for vm in dict.fromkeys(chain(group, *groups)) if where[vm].switch in names.values()]
        parts = {name: [vm for vm in mates if where[vm].switch == name] for name in dict.fromkeys(names.values())}
        return [Cell(name, tuple(vms[: 2 * MOST_OF_A_CELL])) for name, vms in parts.items()]
    hosts = dict.fromkeys(where[vm].host for vm in group)
    if len(hosts) > 1 and all(hosts):
        return [Cell(host, tuple(vm for vm in group if where[vm].host == host)) for host in hosts]
    return [Cell(vm, (vm,)) for vm in group]


def _holds(link: SlowLink, group: Group, where: Mapping[str, FabricPlace]) -> bool:
    names = {name for vm in group for name in (where[vm].switch, where[vm].host, vm)}
    return link.one.name in names and link.other.name in names


def _rails(vms: Sequence[str], rails: Sequence[int], judge: Judge) -> Search[tuple[int, ...]]:
    """Return the rails that are slow against the others, on two different groups of VMs each."""
    groups = by_rail(vms, rails) if len(rails) > 1 else {}
    if len(groups) < 2:
        return ()
    slow: set[int] = set()
    for shift in range(2):
        moved = dict(zip(groups, [*list(groups.values())[shift:], *list(groups.values())[:shift]], strict=True))
        if shift and not slow:
            break
        trials = {Trial(g, rails=(rail,), runs=judge.runs, why="rail"): rail for rail, g in moved.items()}
        results = yield tuple(trials)
        known = sorted(v for v in (results.get(t) for t in trials) if v is not None)
        middle = median(known[len(known) // 2 :]) if known else None
        found = {rail for trial, rail in trials.items() if judge.is_slow(results.get(trial), middle)}
        slow = slow & found if shift else found
    return tuple(sorted(slow))
