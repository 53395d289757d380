"""Rollout of a plan: which steps take which hosts out of service, and which steps belong to a host's maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import EnterMaintenance, Healthy, Migrate, PowerOff, Reboot
from vsphere_ai.planning.moves.rolling import Roll
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.scheduling.step_order import PlannedStep


@dataclass(frozen=True)
class Rollout:
    """Hosts of a plan that go out of service."""

    entries: Mapping[str, Target]
    """Step id -> host: the host's first step, and what powers off or moves its VMs before."""
    parts: Mapping[str, Target]
    """Step id -> host, of every step that the host's health gate waits for."""
    rolls: Mapping[Target, Roll]

    @property
    def gated(self) -> frozenset[Target]:
        """Hosts whose maintenance ends with a health gate."""
        return frozenset(self.parts.values())


def rollout_of(plan: Plan) -> Rollout:
    """Return which hosts a plan takes out of service, and by which steps."""
    return Rollout(_entries(plan), _parts(plan), {h: roll for roll in plan.impact.rolls for h in roll.hosts})


def _entries(plan: Plan) -> dict[str, Target]:
    taken = {p.step.target for p in plan.steps if isinstance(p.step, EnterMaintenance | Reboot)}
    firsts: dict[Target, PlannedStep] = {}
    for planned in plan.steps:
        if planned.step.target in taken:
            firsts.setdefault(planned.step.target, planned)
    hosts = {host.ref: host for host in firsts}
    off = {p.id for p in plan.steps if isinstance(p.step, PowerOff)}
    found = {first.id: host for host, first in firsts.items()}
    moves = {p.id: p.step.source for p in plan.steps if isinstance(p.step, Migrate)}
    found |= {id_: hosts[source] for id_, source in moves.items() if source in hosts}
    return found | {a: host for host, first in firsts.items() for a in first.after if a in off}


def _parts(plan: Plan) -> dict[str, Target]:
    steps = {p.id: p for p in plan.steps}
    parts: dict[str, Target] = {}
    for gate in (p for p in plan.steps if isinstance(p.step, Healthy)):
        todo = [gate.id]
        while todo:
            name = todo.pop()
            if name not in parts:
                parts[name] = gate.step.target
                todo += [a for a in steps[name].after if a not in steps[name].behind]
    return parts
