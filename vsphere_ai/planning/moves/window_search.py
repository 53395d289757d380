"""Search over the windows of a roll-out: changes of VMs first, fewer hosts at a time, or another order.

What is given is taken where it is possible.

Whether the VMs of a host find places may depend on which hosts come before it, and so may not depend on the names that
order them. What is possible as it is given stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from vsphere_ai.admission.admit import admit
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.finding import Problem, by_target
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.model.text import counted, short_list
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.rolling import Roll
from vsphere_ai.planning.moves.rule_order import refused_by_rules
from vsphere_ai.planning.moves.vgpu_moves import FEW_HOSTS, MovePlanner, Moves

if TYPE_CHECKING:
    from vsphere_ai.planning.moves.starts import Starts

ORDERS, FEW_ORDERS, TRIES = 120, 4, 600
"""Orders of a roll-out that are tried before the first is refused (all of five hosts; fewer in large clusters), and the
sequences of moves after which no further order is tried: one takes some 5 ms, and a refusal must not take minutes.
"""


class JudgedOrder(NamedTuple):
    """Problems of one order of windows; no order that begins alike, up to position `refused`, is possible."""

    moves: Moves
    problems: list[Problem]
    refused: int

    @property
    def reason(self) -> str:
        """The first thing that blocks it, "" where nothing does."""
        against = [*self.moves.problems, *self.problems]
        return min(against, key=by_target).message if against else ""


@dataclass
class Windows:
    """Judges roll-outs: the moves of the run itself, places for what DRS moves, and what powers on again.

    `by_drs` are VMs that DRS moves, `cycled` those that are power-cycled, `destroyed` those that stay off. `steps`
    are those of the plan that kinds have given, `chained` all of it with those that power VMs off and on.
    """

    mover: MovePlanner
    by_drs: Collection[Target]
    cycled: Collection[Target]
    destroyed: Collection[Target]
    outlook: Outlook
    steps: Mapping[Target, Sequence[Step]]
    chained: Sequence[Step] = ()

    @cached_property
    def _off(self) -> Mapping[Target, Sequence[Target]]:
        estate = self.outlook.before.estate
        homes = grouped({*self.cycled, *self.destroyed}, lambda vm: estate.host_of(vm.ref)).items()
        return {host: vms for host, vms in homes if host is not None}

    @cached_property
    def _planned(self) -> Machines:
        return Machines(self.outlook.after, {target.ref: own for target, own in self.steps.items()})

    @cached_property
    def _before(self) -> Situation:
        return self.outlook.running()

    @cached_property
    def starts(self) -> Starts:
        """The new VMs that power on beside windows."""
        from vsphere_ai.planning.moves.starts import Starts

        return Starts(self.outlook, self._planned, [*self.cycled], self.steps)

    def ways(self, roll: Roll) -> tuple[Roll, ...]:
        """Return the roll-out, with VMs changed first as in `secured`, and each time at which new VMs may power on."""
        return self.starts.ways(self.secured(roll), self._leaving(roll))

    def _leaving(self, roll: Roll) -> list[Target]:
        """Return the VMs that DRS moves off the hosts of a roll-out."""
        hosts, estate = {h.ref for h in roll.hosts}, self.outlook.before.estate
        return [vm for vm in self.by_drs if (home := estate.host_of(vm.ref)) is not None and home.ref in hosts]

    def judge(self, roll: Roll) -> JudgedOrder:
        """Return the problems of the windows of one cluster."""
        moves = self.mover.of(roll)
        together = roll.at_a_time > 1 and not self._off.keys().isdisjoint(roll.hosts)
        if not (self.by_drs or moves.by_host or together):
            return JudgedOrder(moves, [], moves.refused)
        from vsphere_ai.planning.moves.departures import Departures

        # one that the run could not move from a host to which it has moved it is refused there
        moved = () if moves.problems else (m.vm for m in moves.all)
        here = self._before.only(h.ref for h in roll.members)
        for vm in roll.changed_first:
            home = here.home(vm.ref)
            if home is not None and here.leave(vm.ref) is not None:
                here.arrive(self._planned.planned(vm.ref), home)
        windows = Departures(here, moves.by_host, self._off, frozenset((*self.by_drs, *moved)), self._planned)
        windows.destroyed = frozenset(vm.ref for vm in self.destroyed)
        windows.arrivals = self.starts.arrivals(roll)
        problems = [*windows.run(roll), *self.starts.problems(roll, self._leaving(roll))]
        # other windows later may bring about other moves before
        refused = windows.refused if not (moves.by_host or roll.starts) else len(roll.hosts)
        return JudgedOrder(moves, problems, moves.refused if moves.problems else refused)

    def for_rules(self, roll: Roll, judged: JudgedOrder) -> tuple[Roll, JudgedOrder]:
        """Return the roll-out, one host at a time where a rule between VMs lets a VM power on only so.

        With more of them DRS may bring a VM back to the host that it left before the other one is on there.
        """
        if roll.at_a_time == 1 or judged.reason:
            return roll, judged
        one = replace(roll, at_a_time=1)
        refused = self._refused_by_rules(roll)
        freed = refused - self._refused_by_rules(one) if refused else refused
        then = self.judge(one) if freed else judged
        if not freed or then.reason:
            return roll, judged
        names = short_list([vm.name for vm in sorted(freed)])
        why = (
            f"1 host at a time, not {roll.at_a_time}: a DRS rule lets {names} power on only before DRS moves other VMs"
        )
        return replace(one, why="; ".join(filter(None, (roll.why, why)))), then

    def _refused_by_rules(self, roll: Roll) -> frozenset[Target]:
        return refused_by_rules(self.chained, self.by_drs, roll, self.outlook)

    def may_come_first(self, roll: Roll) -> Iterator[tuple[Target, ...]]:
        """Yield VMs on hosts without a window whose changes may come before it: those that need no more then, and all.

        Those that come first already (see `secured`) stay among them.
        """
        every = self._changed_elsewhere(roll)
        less = tuple(vm for vm in every if vm in roll.changed_first or self._needs_no_more(vm.ref))
        yield from dict.fromkeys(vms for vms in (less, every) if vms)

    def secured(self, roll: Roll) -> Roll:
        """Return the roll-out with VMs changed first whose hosts may not have room for them once DRS has moved others.

        A VM that is off holds no memory: DRS may fill its host. A host without a window only gains VMs, so
        whatever is possible with such a VM changed later is possible with it changed first.
        """
        homes, leaving = self._before.only(h.ref for h in roll.members), self._leaving(roll)
        cycled = [vm for vm in self._changed_elsewhere(roll) if vm in self.cycled] if leaving else []
        by_home = grouped(cycled, lambda vm: homes.home(vm.ref)).items()
        at_risk = [vm for home, vms in by_home if home and self._may_lose_place(home, vms, leaving, roll) for vm in vms]
        if not at_risk:
            return roll
        names = short_list([vm.name for vm in at_risk])
        why = f"{names} changed before the first window: DRS may move VMs to the same host and take the memory"
        return replace(roll, changed_first=tuple(at_risk), why=why)

    def _may_lose_place(self, home: str, vms: Sequence[Target], leaving: Iterable[Target], roll: Roll) -> bool:
        """Return whether VMs could not all power on on their host if every VM that DRS moves were there."""
        here = self._before.only(h.ref for h in roll.members)
        for vm in vms:
            here.leave(vm.ref)
        for new in self.starts.on(home):
            here.leave(new.replaces)
            here.arrive(new.vm, home)
        for vm in leaving:
            machine = here.leave(vm.ref)
            if machine is not None:
                here.arrive(machine, home)
        for vm in vms:
            then = self._planned.planned(vm.ref)
            if admit(then, here.view.estate[home], here, "power_cycle").refusals:
                return True
            here.arrive(then, home)
        return False

    def _changed_elsewhere(self, roll: Roll) -> tuple[Target, ...]:
        """Return running VMs that are changed on hosts of the cluster without a window, by name."""
        estate = self.outlook.before.estate
        hosts = {h.ref for h in roll.members} - {h.ref for h in roll.hosts}
        vms = [t for t in self.steps if t.kind == "vm" and estate.is_on(t.ref) and t not in self.destroyed]
        homes = ((vm, estate.host_of(vm.ref)) for vm in sorted(vms))
        return tuple(vm for vm, home in homes if home is not None and home.ref in hosts)

    def _needs_no_more(self, ref: str) -> bool:
        now, then = self._before.machines.present(ref), self._planned.planned(ref)
        need, had = then.memory_need_mb, now.memory_need_mb
        if need is None or had is None or need.high > had.high or then.reserved_mhz > now.reserved_mhz:
            return False
        return (then.cpus or 0) <= (now.cpus or 0) and (then.swap_mb or 0) <= (now.swap_mb or 0)


def roll_outs(
    given: Iterable[Roll], windows: Windows, begun: Collection[Target]
) -> tuple[tuple[Roll, ...], Moves, list[Problem]]:
    """Return the roll-outs as they are possible, the moves of all windows, and what blocks them."""
    rolls: list[Roll] = []
    moves, problems = Moves(), list[Problem]()
    for asked in given:
        roll, judged = windows.for_rules(*first_possible(windows.ways(asked), windows, begun))
        rolls.append(roll)
        moves.add(judged.moves)
        problems += judged.problems
    return tuple(rolls), moves, problems


def first_possible(ways: Sequence[Roll], windows: Windows, begun: Collection[Target]) -> tuple[Roll, JudgedOrder]:
    """Return the first of several ways to roll out that nothing blocks; else what is found from the earliest and last.

    `ways` differ in when new VMs power on.
    """
    from vsphere_ai.planning.moves.starts import with_time

    if len(ways) == 1:
        return searched(ways[0], windows.judge, begun, windows.may_come_first)
    for way in ways:
        judged = windows.judge(way)
        if not judged.reason:
            return with_time(way), judged
    refused: list[tuple[Roll, JudgedOrder]] = []
    for way in dict.fromkeys((ways[1], ways[-1])):
        roll, judged = searched(way, windows.judge, begun, windows.may_come_first)
        if not judged.reason:
            return with_time(roll), judged
        refused.append((roll, judged))
    return refused[0]


def searched(
    roll: Roll,
    judge: Callable[[Roll], JudgedOrder],
    begun: Collection[Target],
    early: Callable[[Roll], Iterable[tuple[Target, ...]]] = lambda _roll: (),
) -> tuple[Roll, JudgedOrder]:
    """Return the first way to roll out that nothing blocks; where there is none, the given one.

    That some VMs are changed first (`early`) is tried at once, then fewer hosts at a time, then other orders, one host
    at a time. Hosts that an earlier attempt has `begun` stay the first ones.
    """
    first = judge(roll)
    if not first.reason:
        return roll, first
    ways = [roll]
    for vms in early(roll):
        names = short_list([vm.name for vm in vms])
        other = replace(roll, changed_first=vms, why=f"{names} changed before the first window: {first.reason}")
        ways.append(other)
        judged = judge(other)
        if not judged.reason:
            return other, judged
    left = [TRIES]
    for way in ways:
        found = _otherwise(way, judge, begun, first.reason, left)
        if found is not None:
            return found
    return roll, first


def _otherwise(
    roll: Roll, judge: Callable[[Roll], JudgedOrder], begun: Collection[Target], reason: str, left: list[int]
) -> tuple[Roll, JudgedOrder] | None:
    """Return a way to roll out with fewer hosts at a time, or in another order; None where all are blocked.

    `left` has one number, that of the sequences of moves that may be tried yet.
    """
    before = f"{short_list([vm.name for vm in roll.changed_first])} changed first, " if roll.changed_first else ""
    for number in range(roll.at_a_time - 1, 0, -1):
        fewer = replace(roll, at_a_time=number)
        judged = judge(fewer)
        if not judged.reason:
            why = f"{before}{counted(number, 'host')} at a time, not {roll.at_a_time}: {reason}"
            return replace(fewer, why=why), judged
    refused: set[tuple[Target, ...]] = set()
    for hosts in _orders(roll.hosts, begun, refused, ORDERS if len(roll.members) <= FEW_HOSTS else FEW_ORDERS):
        if left[0] <= 0:
            break
        other = replace(roll, at_a_time=1, batches=tuple(_cut(hosts, [len(b) for b in roll.batches])))
        judged = judge(other)
        if not judged.reason:
            why = f"{before}{', '.join(h.name for h in hosts)} one after the other, not by name: {reason}"
            return replace(other, why=why), judged
        refused.add(hosts[: judged.refused + 1])
        left[0] -= judged.moves.tries
    return None


def _orders(
    hosts: Sequence[Target], begun: Collection[Target], refused: Collection[tuple[Target, ...]], most: int
) -> Iterator[tuple[Target, ...]]:
    """Yield at most so many orders of hosts, without those that begin like one that is `refused` by then."""
    early = tuple(h for h in hosts if h in begun)
    return islice(_ends(early, tuple(h for h in hosts if h not in begun), refused), most)


def _ends(
    start: tuple[Target, ...], left: tuple[Target, ...], refused: Collection[tuple[Target, ...]]
) -> Iterator[tuple[Target, ...]]:
    """Yield the orders that begin so; one whose beginning is refused is left at once, with all of the same beginning.

    To pass over them one by one would take (hosts - 1)! steps where the first window is refused.
    """
    if not left:
        yield start
    for at, host in enumerate(left):
        if any(start[: len(other)] == other for other in refused):
            return
        yield from _ends((*start, host), (*left[:at], *left[at + 1 :]), refused)


def _cut(hosts: Sequence[Target], sizes: Sequence[int]) -> Iterator[tuple[Target, ...]]:
    start = 0
    for size in sizes:
        yield tuple(hosts[start : start + size])
        start += size
