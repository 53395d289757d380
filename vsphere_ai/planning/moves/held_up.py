"""VMs that can power on, or be changed, but not while hosts of their cluster are out of service for the same plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.admission.admit import admit, that_weigh_service
from vsphere_ai.admission.requirements import memory
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.admitted import Concerned, concerned, final_situation
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.rolling import Roll


def held_up(
    rolls: Sequence[Roll], steps: Sequence[Step], cycled: Mapping[Target, Target | None], outlook: Outlook
) -> Iterator[tuple[Target, Roll]]:
    """Yield VMs on hosts without a window that vCenter would refuse to power on, or to change, beside a window.

    `cycled` VMs (VM -> host) are off while their host is out of service.
    VMs on hosts with one are looked at with their windows. What is refused in any case is not held up by these.
    """
    asked = _by_home(concerned(steps, outlook.before), outlook.after) if rolls else {}
    away = grouped(cycled, lambda vm: cycled[vm])
    final: Situation | None = None
    for roll in rolls:
        cluster = outlook.after.estate.cluster_of(roll.hosts[0].ref)
        own = _beside(roll, asked) if cluster is not None else {}
        weighing = that_weigh_service(cluster) if own and cluster is not None else ()
        if not weighing:
            continue
        final = final or final_situation(outlook.after, steps)
        situation = final.only(h.ref for h in roll.members)
        out = sorted(roll.hosts, key=lambda h: -_memory(h, situation))[: roll.at_a_time]
        for vm, occasion in sorted(own.items()):
            machine, host = final.machines.planned(vm.ref), situation.view.estate.get(situation.home(vm.ref))
            if host is None or admit(machine, host, situation, occasion, weighing).answer == "no":
                continue
            gone = [(h.ref, situation.leave(v.ref)) for h in out for v in away.get(h, ())]
            situation.down = frozenset(h.ref for h in out)
            if admit(machine, host, situation, occasion, weighing).answer == "no":
                yield vm, roll
            situation.down = frozenset()
            for home, other in gone:
                if other is not None:
                    situation.arrive(other, home)


def _by_home(asked: Concerned, view: View) -> Mapping[str, Concerned]:
    """Return VMs by the reference of their host."""
    homes = grouped(asked, lambda vm: home.ref if (home := view.estate.host_of(vm.ref)) else "")
    return {home: {vm: asked[vm] for vm in own} for home, own in homes.items()}


def _beside(roll: Roll, asked: Mapping[str, Concerned]) -> Concerned:
    """Return the VMs of a cluster whose host has no window, and whose time is not that before a certain one."""
    with_window = {h.ref for h in roll.hosts}
    apart = {*roll.changed_first, *(roll.starts if roll.starts_at is not None else ())}
    beside = (asked.get(h.ref, {}) for h in roll.members if h.ref not in with_window)
    return {vm: occasion for own in beside for vm, occasion in own.items() if vm not in apart}


def _memory(host: Target, situation: Situation) -> float:
    has = memory.capacity(situation.view.estate[host.ref])
    return has.high if has is not None else 0.0
