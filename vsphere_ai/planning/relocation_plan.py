"""Plan of a benchmark with VMs on other hosts: they go there, it is measured, and they go back, one step at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.admission.gpus import observed_profiles
from vsphere_ai.compat.vgpu_vmotion import stun, stun_times
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.steps import Measured, MoveAway, MoveBack, PowerOff, PowerOn, Step
from vsphere_ai.planning.moves.relocation import Relocation
from vsphere_ai.planning.moves.vgpu_moves import Migration
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.scheduling.schedule import Impact
from vsphere_ai.planning.scheduling.step_order import PlannedStep

SHUTDOWN = 300
"""Seconds that a guest is given to shut down."""


def plan_of(estate: Estate, title: str, moved: Sequence[Relocation], problems: Sequence[Problem] = ()) -> Plan:
    """Return the plan that moves VMs in this order, measures, and moves them back in the other order."""
    steps = [] if problems else [*_steps(moved)]
    planned = tuple(
        PlannedStep(f"s{number}", step, (f"s{number - 1}",) if number > 1 else ())
        for number, step in enumerate(steps, 1)
    )
    times, live = stun_times(estate), [m for m in moved if m.live]
    profiles = {m.vm: observed_profiles(estate[m.vm.ref]) for m in live}
    lives = tuple(Migration(m.vm, m.source, m.to, stun(times, profiles[m.vm]), m.gpus) for m in live)
    cold = tuple(sorted(m.vm for m in moved if not m.live))
    impact = Impact() if problems else Impact(power_cycles=cold, migrations=lives)
    return Plan(estate.about, title, (), tuple(problems), (), planned, impact)


def _steps(moved: Sequence[Relocation]) -> Iterator[Step]:
    cold = [m for m in moved if not m.live]
    for m in cold:
        summary = f"power off, to be moved from {m.source.name} to {m.to.name}"
        yield PowerOff(target=m.vm, summary=summary, shutdown_timeout=SHUTDOWN)
    yield from (move_away(m) for m in moved)
    yield from (PowerOn(target=m.vm, summary=f"power on, on {m.to.name}") for m in cold)
    names = ", ".join(m.vm.name for m in moved)
    yield Measured(target=moved[0].vm, summary=f"measure with {names} there")
    for m in cold:
        summary = f"power off, to be moved back to {m.source.name}"
        yield PowerOff(target=m.vm, summary=summary, shutdown_timeout=SHUTDOWN, force=True)
    yield from (move_back(m) for m in reversed(moved))
    yield from (PowerOn(target=m.vm, summary=f"power on, on {m.source.name} again") for m in cold)


def _how(moved: Relocation) -> str:
    return "by vMotion" if moved.live else "powered off"


def move_away(moved: Relocation) -> MoveAway:
    """Return the step that brings a VM to its other host."""
    summary = f"move from {moved.source.name} to {moved.to.name}, {_how(moved)}{_parts(moved)}"
    back = move_back(moved)
    return MoveAway(
        target=moved.vm, summary=summary, to=moved.to.ref, live=moved.live, devices=moved.devices, back=back
    )


def _parts(moved: Relocation) -> str:
    named = [str(change["device"]["backing"]["id"]) for change in moved.devices]
    return f", with its {', '.join(named)}" if named else ""


def move_back(moved: Relocation) -> MoveBack:
    """Return the step that brings a VM back to its own host."""
    summary = f"move back to {moved.source.name}, {_how(moved)}"
    return MoveBack(target=moved.vm, summary=summary, to=moved.source.ref, live=moved.live, devices=moved.back)
