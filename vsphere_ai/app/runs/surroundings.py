"""Surroundings of a plan: which vCenter it is for, and how long it is expected to take there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.events.results import VCenterContext
from vsphere_ai.language.inventories.inventory import CONNECTION
from vsphere_ai.model.world import World
from vsphere_ai.planning.scheduling.expected_time import StepTimes, estimate, sort_of, step_times
from vsphere_ai.runs.past_durations import past_durations
from vsphere_ai.security.state_dir import lab_dir

if TYPE_CHECKING:
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.planning.planner import Plan


def world_of(scope: EstateScope) -> World:
    """Return which vCenter a session works on, and how it was chosen."""
    settings, inventory = scope.settings, scope.inventory
    port = "" if settings.port == 443 else f":{settings.port}"
    lab = inventory.lab or inventory.path.absolute() == lab_dir() / CONNECTION
    address = f"{settings.address}{port}"
    found = scope.options.inventory_from or inventory.found
    return World(settings.name, address, settings.username, _shown(inventory.path), found, lab)


def _shown(path: Path) -> str:
    """Return a path as an operator types it: one below the present folder without that folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def times_of(scope: EstateScope, plan: Plan) -> StepTimes:
    """Return how long each step of a plan usually takes on its vCenter, by the last runs there."""
    known, runs = past_durations(plan.about.instance, sort_of)
    return step_times(plan.steps, known, runs, scope.options.parallel)


def surroundings(scope: EstateScope, plan: Plan) -> VCenterContext:
    """Return which vCenter a plan is for, and how long it will take by the last runs on it."""
    return VCenterContext(world_of(scope), estimate(plan.steps, times_of(scope, plan)) if plan.steps else None)
