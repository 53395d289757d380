"""Whether a further host may be taken out of service: how many are, how many have failed, and whether one is ill."""

from __future__ import annotations

from collections.abc import Mapping, Set

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Lifecycle, Migrate, Wait
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.rolling import Roll
from vsphere_ai.planning.schedule import PlannedStep


class Rollout:
    """Follows the turns of the hosts of one plan. Not for several threads."""

    def __init__(self, plan: Plan) -> None:
        self._entries = _entries(plan)
        self._rolls = {h: roll for roll in plan.impact.rolls for h in roll.hosts}
        self._gates = {p.step.target: p for p in plan.steps if _is_gate(p)}
        self._part_of = _parts(plan)
        self._began: set[Target] = set()
        self._failed: set[Target] = set()
        self._over: set[Target] = set()
        self._unhealthy = ""
        self._closed: dict[Roll, str] = {}
        """Cluster -> why no further turn begins there."""

    def begins(self, step: str) -> None:
        """Note that a step was started."""
        if step in self._entries:
            self._began.add(self._entries[step])

    def ended(self, planned: PlannedStep, *, well: bool, started: bool, unhealthy: bool = False) -> None:
        """Note how a step ended. `started`: it was not skipped; `unhealthy`: its host is unhealthy."""
        host = self._part_of.get(planned.id)
        if host is not None and started and not well:
            self._failed.add(host)
        if _is_gate(planned):
            self._over.add(planned.step.target)
        if unhealthy:
            self._unhealthy = planned.step.target.name

    def refusal(self, step: str) -> str:
        """Return why a step with which a host goes out of service must not be started, "" when it may."""
        host = self._entries.get(step)
        if host is None:
            return ""
        if self._unhealthy:
            return f"{self._unhealthy} is not healthy, so no further host is started"
        if host in self._failed:  # one of its VMs could not be switched off: the others stay on
            return f"something failed on {host.name} already"
        roll = self._rolls.get(host)
        if roll is not None and host not in self._began and roll in self._closed:
            return self._closed[roll]
        failed = [h.name for h in roll.hosts if h in self._failed] if roll else []
        if roll is None or len(failed) <= roll.max_fail:
            return ""
        return f"{', '.join(failed)} failed, and max_fail is {roll.max_fail}, so no further host is started"

    def full(self, step: str, down: Set[Target]) -> str:
        """Return why a host has to wait for its turn, "" when there is room. `down` are the hosts still out of service.

        A host that failed and stays out of service keeps its place.
        """
        host = self._entries.get(step)
        roll: Roll | None = self._rolls.get(host) if host is not None else None
        if roll is None or host in self._began:
            return ""
        busy = [h for h in roll.hosts if h in self._began and (h not in self._over or h in down)]
        if len(busy) < roll.at_a_time:
            return ""
        return f"{', '.join(h.name for h in busy)} is out of service, and no more hosts may be at once"

    def host(self, step: str) -> Target | None:
        """Return the host that this step takes out of service, if it is one of those."""
        return self._entries.get(step)

    def cluster(self, host: Target | None) -> tuple[Target, ...]:
        """Return the hosts to look at before a host's turn begins; none when it has begun."""
        roll = self._rolls.get(host) if host is not None and host not in self._began else None
        return roll.members if roll else ()

    def over_budget(self, host: Target, seen: Mapping[str, str], down: Set[Target]) -> str:
        """Return why a host's turn may not begin as its cluster is now, "" when it may.

        `seen` are the hosts out of service as read just now (reference -> why), `down` those of this run that are.
        """
        roll = self._rolls[host]
        ours = {h for h in roll.hosts if h in self._began and (h not in self._over or h in down)}
        others = [h for h in roll.members if h.ref in seen and h not in ours and h != host]
        # one that is down already costs nothing more; whether it is ours to go on with is asked when it enters
        if host.ref in seen or len(ours) + len(others) < roll.max_unavailable:
            return ""
        said = ", ".join(f"{h.name} is {seen[h.ref]}" for h in others)
        busy = f", {', '.join(sorted(h.name for h in ours))} is out of service for this run" if ours else ""
        return f"{said}{busy}, and max_unavailable of {roll.cluster} is {roll.max_unavailable}"

    def halt(self, step: str, reason: str) -> None:
        """Begin no further turn in the cluster of this step's host."""
        self._closed[self._rolls[self._entries[step]]] = reason


def _entries(plan: Plan) -> dict[str, Target]:
    """Return the steps with which hosts are taken out of service: their first ones, and what takes VMs off before."""
    taken = {p.step.target for p in plan.steps if _is(p, "enter-maintenance") or _is(p, "reboot")}
    firsts: dict[Target, PlannedStep] = {}
    for planned in plan.steps:
        if planned.step.target in taken:
            firsts.setdefault(planned.step.target, planned)
    off = {p.id for p in plan.steps if _is(p, "power-off")}
    found = {first.id: host for host, first in firsts.items()}
    moves = {p.id: p.step.source for p in plan.steps if isinstance(p.step, Migrate)}
    found |= {id_: host for host in firsts for id_, source in moves.items() if source == host.ref}
    return found | {a: host for host, first in firsts.items() for a in first.after if a in off}


def _parts(plan: Plan) -> dict[str, Target]:
    """Return of each step that a health gate waits for, of which host's turn it is a part."""
    steps = {p.id: p for p in plan.steps}
    parts: dict[str, Target] = {}
    for gate in (p for p in plan.steps if _is_gate(p)):
        todo = [gate.id]
        while todo:
            name = todo.pop()
            if name not in parts:
                parts[name] = gate.step.target
                todo += [a for a in steps[name].after if a not in steps[name].behind]
    return parts


def _is(planned: PlannedStep, action: str) -> bool:
    return isinstance(planned.step, Lifecycle) and planned.step.action == action


def _is_gate(planned: PlannedStep) -> bool:
    return isinstance(planned.step, Wait) and planned.step.until == "healthy"
