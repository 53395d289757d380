"""New VMs of sets beside windows of their cluster: what DRS moves may take their memory, and they the memory of that.

They power on before the windows, between two of them, after all, or at any time where that changes nothing. A roll-out
has that time, and is judged by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from vsphere_ai.admission.admit import admit
from vsphere_ai.admission.machine import Machine
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone, GuestReady, Step
from vsphere_ai.model.text import short_list
from vsphere_ai.model.vm_sets import replaced_by
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.rolling import Roll
from vsphere_ai.planning.moves.vgpu_moves import FEW_HOSTS

STARTS = "rolling.starts"
PLACE = "let the set use hosts to which DRS moves no VM (placement: {hosts}), or take fewer hosts in one run"


class Arrival(NamedTuple):
    """A new VM that powers on on a host (reference); `replaces` is the VM that is destroyed for it, "" without one."""

    vm: Machine
    host: str
    replaces: str = ""


@dataclass
class Starts:
    """The new VMs of a plan. `planned` are VMs as the plan leaves them, `changed` those that it changes.

    `steps` are those of the plan that kinds have given.
    """

    outlook: Outlook
    planned: Machines
    changed: Collection[Target]
    steps: Mapping[Target, Sequence[Step]]

    @cached_property
    def _after(self) -> Situation:
        """Where VMs ran when they were read, on hosts as the plan leaves them."""
        return Situation.as_read(self.outlook.after, self.planned)

    @cached_property
    def _new(self) -> Mapping[Target, str]:
        """VM that is off, or not there yet, and that the plan powers on -> its host (reference)."""
        before, after = self.outlook.before.estate, self.outlook.after.estate
        ready = (vm for vm, own in self.steps.items() if any(isinstance(s, GuestReady) for s in own))
        homes = ((vm, after.host_of(vm.ref)) for vm in sorted(ready) if not _is_on(before.get(vm.ref)))
        return {vm: home.ref for vm, home in homes if home is not None}

    def of(self, roll: Roll) -> tuple[Target, ...]:
        """Return the VMs that power on on hosts of the cluster of a roll-out."""
        members = {h.ref for h in roll.members}
        return tuple(vm for vm, home in self._new.items() if home in members)

    def ways(self, roll: Roll, leaving: Collection[Target]) -> tuple[Roll, ...]:
        """Return the roll-out with each time at which the VMs may power on: any, then the earliest, and later ones.

        `leaving` are VMs that DRS moves off its hosts.
        """
        new = self.of(roll) if leaving else ()
        if not new:
            return (roll,)
        first, last = self._earliest(roll), len(roll.hosts)
        times = range(first, last + 1) if last <= FEW_HOSTS else (first, last)
        return (replace(roll, starts=new), *(replace(roll, starts=new, starts_at=n) for n in dict.fromkeys(times)))

    def _earliest(self, roll: Roll) -> int:
        """Return after how many windows all can power on: those of their own hosts, and of the hosts of their images.

        VMs of a set wait for each other: for rules that name all of them, or for the first one of an image.
        """
        places = {h.ref: at for at, h in enumerate(roll.hosts, 1)}
        estate = self.outlook.before.estate
        homes = [self._new[vm] for vm in self.of(roll)]
        sources = (s.source for vm in self.of(roll) for s in self.steps[vm] if isinstance(s, Clone))
        homes += [home.ref for source in sources if (home := estate.host_of(source)) is not None]
        return max((places.get(ref, 0) for ref in homes), default=0)

    def arrivals(self, roll: Roll) -> Mapping[int, Sequence[Arrival]]:
        """Return the VMs by the number of windows that are over when they power on at the earliest."""
        places = {h.ref: at for at, h in enumerate(roll.hosts, 1)}
        found: dict[int, list[Arrival]] = {}
        for vm in roll.starts:
            at = max(places.get(self._new[vm], 0), roll.starts_at or 0)
            found.setdefault(at, []).append(self._arrival(vm))
        return found

    def on(self, host: str) -> Iterator[Arrival]:
        """Yield the VMs that power on on a host (reference)."""
        return (self._arrival(vm) for vm, home in self._new.items() if home == host)

    def _arrival(self, vm: Target) -> Arrival:
        old = replaced_by(self.outlook.before.estate, vm.ref)
        return Arrival(self.planned.planned(vm.ref), self._new[vm], old.ref if old is not None else "")

    def problems(self, roll: Roll, leaving: Collection[Target]) -> Iterator[Problem]:
        """Yield VMs that would find no place on their host if all that DRS may have moved by then were there."""
        if not roll.starts:
            return
        at = roll.starts_at
        before = roll.hosts if at is None else roll.hosts[:at]
        if at is not None and (at < self._earliest(roll) or (roll.at_a_time > 1 and 0 < at < len(roll.hosts))):
            yield self._too_early(roll)
            return
        for home in dict.fromkeys(self._new[vm] for vm in roll.starts):
            # what came before the last window that is over has left that host with it
            if not (at and roll.at_a_time == 1 and roll.hosts[at - 1].ref == home):
                yield from self._without_place(home, roll, [vm for vm in leaving if self._home(vm) in before])

    def _home(self, vm: Target) -> Target | None:
        return self.outlook.before.estate.host_of(vm.ref)

    def _too_early(self, roll: Roll) -> Problem:
        message = "it powers on between windows, which are not one after the other, or before that of its own host"
        return Finding.problem(roll.starts[0], STARTS, message, "write rolling: {max_unavailable: 1}")

    def _without_place(self, home: str, roll: Roll, moved: Sequence[Target]) -> Iterator[Problem]:
        here = self._after.only(h.ref for h in roll.members)
        arrivals = [(vm, self._arrival(vm)) for vm in roll.starts if self._new[vm] == home]
        for ref in (each.replaces for _, each in arrivals):
            here.leave(ref)
        for vm in self.changed:
            if here.home(vm.ref) == home and here.leave(vm.ref) is not None:
                here.arrive(self.planned.planned(vm.ref), home)
        came = [machine for vm in moved if here.home(vm.ref) != home and (machine := here.leave(vm.ref)) is not None]
        host, alone = here.view.estate[home], here.copy()
        for machine in came:
            here.arrive(machine, home)
        for vm, each in arrivals if came else ():
            in_any_case = {reason.rule for reason in admit(each.vm, host, alone, "power_on").refusals}
            for reason in admit(each.vm, host, here, "power_on").refusals:
                if reason.rule not in in_any_case:
                    names = short_list(sorted(machine.name for machine in came))
                    message = f"it powers on on {host.name}, to which DRS may move {names} before: {reason.message}"
                    yield Finding.problem(vm, reason.rule, message, PLACE)
            here.arrive(each.vm, home)
            alone.arrive(each.vm, home)


def _is_on(facts: Facts | None) -> bool:
    return facts is not None and facts.get("runtime.powerState") == "poweredOn"


def with_time(roll: Roll) -> Roll:
    """Return a roll-out that says when its new VMs power on, where that is not at any time."""
    at = roll.starts_at
    if at is None:
        return roll
    when = "before the first window" if not at else "after the last window"
    if 0 < at < len(roll.hosts):
        when = f"after the window of {roll.hosts[at - 1].name}"
    names = short_list([vm.name for vm in roll.starts])
    why = f"{names} powered on {when}: DRS may move VMs to the same host and take the memory, or find none"
    return replace(roll, why=f"{roll.why}; {why}" if roll.why else why)
