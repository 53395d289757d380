"""Places of running VMs that leave hosts for maintenance, window by window: DRS needs at least one for each of them.

DRS chooses among such places by itself; that there is one for all VMs of a window together, beside what runs, is what a
plan can promise. A VM that has left a host once may have to leave the next one as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vsphere_ai.admission.admit import admit, that_weigh_service
from vsphere_ai.admission.machine import Machine
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.requirements import memory
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import short_list
from vsphere_ai.planning.moves.evacuation import NOWHERE, POWER_OFF
from vsphere_ai.planning.moves.placing import placed
from vsphere_ai.planning.moves.rolling import Roll
from vsphere_ai.planning.moves.starts import Arrival
from vsphere_ai.planning.moves.vgpu_moves import Migration

ONE = "write rolling: {max_unavailable: 1}, or take fewer hosts at once"
SHOWN = 6
"""Hosts that a refusal names with their reasons."""


@dataclass
class Departures:
    """The windows of a plan. `going_off` are the VMs (by host) that are powered off for it, `movable` those that move.

    Any other one is refused for a reason of its own, and stays. `planned` are VMs as they power on again.
    """

    situation: Situation
    migrations: Mapping[Target, Sequence[Migration]]
    going_off: Mapping[Target, Collection[Target]]
    movable: frozenset[Target]
    planned: Machines
    destroyed: frozenset[str] = frozenset()
    """References of VMs that go off and do not come back."""
    arrivals: Mapping[int, Sequence[Arrival]] = field(default_factory=dict)
    """New VMs by the number of windows that are over when they power on."""
    problems: list[Problem] = field(default_factory=list)
    refused: int = 0
    """Where there are problems: the position of the first window that has one."""
    _done: set[Target] = field(default_factory=set)
    _next: int = 0

    def run(self, roll: Roll) -> list[Problem]:
        """Go through the windows of a cluster in their order, and return what blocks them."""
        for at, host in enumerate(roll.hosts):
            self._arrive(at)
            near = roll.at_a_time - 1
            out = roll.hosts[max(at - near, 0) : at + near + 1]
            self.situation.down = frozenset(h.ref for h in out)
            fine = not self.problems
            self._window(host, roll)
            self.refused = at if fine and self.problems else self.refused
            self._done.add(host)
        self.situation.down = frozenset()
        return self.problems

    def _arrive(self, windows: int) -> None:
        """Let new VMs run that power on after so many windows."""
        for new in self.arrivals.get(windows, ()):
            self.situation.leave(new.replaces)
            self.situation.arrive(new.vm, new.host)

    def _window(self, host: Target, roll: Roll) -> None:
        situation = self.situation
        for each in self.migrations.get(host, ()):
            self._migrate(each)
        off = [vm for t in self.going_off.get(host, ()) if (vm := self._taken(t.ref, host)) is not None]
        leaving = self._leaving(host)
        for vm in leaving:
            situation.leave(vm.ref)
        places = self._places(leaving, roll)
        if places is None:
            self.problems += self._refusals(leaving, host, roll)
            places = dict.fromkeys((vm.ref for vm in leaving), host.ref)
        for vm in leaving:
            situation.arrive(vm, places[vm.ref])
        self._power_on(off, host, roll)

    def _power_on(self, off: Sequence[Machine], host: Target, roll: Roll) -> None:
        """Let VMs power on again; say which could not while other hosts of the roll-out may be out of service."""
        situation = self.situation
        cluster = situation.cluster(host.ref) if off and roll.at_a_time > 1 else None
        asked = that_weigh_service(cluster) if cluster is not None else ()
        out = [max(lane, key=self._weight) for lane in roll.beside(host)] if asked else []
        situation.down = frozenset(h.ref for h in out)
        gone = [(vm, h) for h in out for t in self.going_off.get(h, ()) if (vm := self._taken(t.ref, h)) is not None]
        for vm in off:
            if vm.ref in self.destroyed:
                continue
            then = self.planned.planned(vm.ref)
            refusals = admit(then, situation.view.estate[host.ref], situation, "power_cycle", asked).refusals
            for reason in refusals if out else ():
                names = short_list(sorted(h.name for h in out))
                message = f"it could not power on again on {host.name} while {names} may be out of service"
                self.problems.append(
                    Finding.problem(self._target(vm), reason.rule, f"{message}: {reason.message}", ONE)
                )
            situation.arrive(then, host.ref)
        for vm, home in gone:
            situation.arrive(vm, home.ref)

    def _weight(self, host: Target) -> float:
        """Return what a cluster lacks while a host is out of service: its MB, less the need of VMs that are off."""
        has, situation = memory.capacity(self.situation.view.estate[host.ref]), self.situation
        off = (situation.on(host.ref).get(t.ref) for t in self.going_off.get(host, ()))
        needs = (vm.memory_need_mb.low for vm in off if vm is not None and vm.memory_need_mb is not None)
        return (has.high if has is not None else 0.0) - sum(needs)

    def _taken(self, ref: str, host: Target) -> Machine | None:
        return self.situation.leave(ref) if self.situation.home(ref) == host.ref else None

    def _leaving(self, host: Target) -> list[Machine]:
        """Return the VMs that DRS has to move, the largest first."""
        may = self._may_move
        own = (vm for ref, vm in self.situation.on(host.ref).items() if ref in may)
        return sorted(own, key=lambda vm: (-(vm.reserved_mb or 0), -(vm.cpus or 0), vm.name))

    @cached_property
    def _may_move(self) -> frozenset[str]:
        return frozenset(v.ref for v in self.movable)

    def _migrate(self, each: Migration) -> None:
        """Move a VM as the run does, and say why its host does not take it."""
        situation = self.situation
        vm = situation.leave(each.vm.ref)
        if vm is None:
            return
        answer = admit(vm, situation.view.estate[each.target.ref], situation, "vmotion")
        for reason in answer.refusals:
            if reason.rule != "admission.gpu":  # on which GPUs it is then was planned window by window
                message = f"it has to move from {each.source.name} to {each.target.name}: {reason.message}"
                self.problems.append(Finding.problem(each.vm, reason.rule, message, reason.help or POWER_OFF))
        situation.arrive(vm, each.target.ref)

    # -- places

    def _hosts(self, roll: Roll) -> list[Facts]:
        return [self.situation.view.estate[h.ref] for h in roll.members if h.ref not in self.situation.down]

    def _in_turn(self, roll: Roll) -> Iterator[Facts]:
        """Yield the hosts that may take VMs: those whose window is over first, and in turn, so that VMs are spread."""
        later: list[Facts] = []
        for at in range(len(roll.members)):
            host = roll.members[(self._next + at) % len(roll.members)]
            if host.ref in self.situation.down:
                continue
            if host in self._done:
                yield self.situation.view.estate[host.ref]
            else:
                later.append(self.situation.view.estate[host.ref])
        yield from later

    def _places(self, leaving: Sequence[Machine], roll: Roll) -> dict[str, str] | None:
        """Return a host for each VM, beside all others; None where none was found."""

        def tried() -> None:
            self._next += 1

        return placed(leaving, self.situation, "evacuate", lambda _: self._in_turn(roll), tried)

    # -- words

    def _refusals(self, leaving: Sequence[Machine], host: Target, roll: Roll) -> Iterator[Problem]:
        """Say of each VM that no host takes why, else that they find no places together."""
        homeless = [vm for vm in leaving if all(not self._takes(vm, other) for other in self._hosts(roll))]
        where = f"it runs on {host.name}, which has to enter maintenance mode"
        for vm in homeless:
            yield Finding.problem(
                self._target(vm), NOWHERE, f"{where}; no other host takes it: {self._why(vm, roll)}", POWER_OFF
            )
        if not homeless:
            names = short_list(sorted(vm.name for vm in leaving))
            for vm in leaving:
                message = f"{where}; {names} find no places on other hosts together: {self._beside(vm, leaving, roll)}"
                yield Finding.problem(self._target(vm), NOWHERE, message, f"make room there, or {POWER_OFF}")

    def _takes(self, vm: Machine, host: Facts) -> bool:
        return admit(vm, host, self.situation, "evacuate").answer != "no"

    def _why(self, vm: Machine, roll: Roll) -> str:
        hosts = self._hosts(roll)
        reasons = [f"{h.name}: {admit(vm, h, self.situation, 'evacuate').words}" for h in hosts[:SHOWN]]
        more = [f"and {len(hosts) - SHOWN} more"] if len(hosts) > SHOWN else []
        return "; ".join([*reasons, *more]) or "no other host of its cluster is connected and in service"

    def _beside(self, vm: Machine, leaving: Sequence[Machine], roll: Roll) -> str:
        """Return why the hosts do not take a VM where they take as many of the others as they can."""
        situation, put = self.situation, []
        for other in leaving:
            if other.ref != vm.ref and (ref := next((h.ref for h in self._hosts(roll) if self._takes(other, h)), None)):
                situation.arrive(other, ref)
                put.append(other.ref)
        why = self._why(vm, roll)
        for ref in put:
            situation.leave(ref)
        return why

    def _target(self, vm: Machine) -> Target:
        return Target("vm", vm.name, vm.ref)
