"""VMs that vCenter or an extension looks after, on hosts that enter maintenance mode: never powered off by a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.planning.moves.evacuation import obstacles

RULE = "vm.managed"


@dataclass(frozen=True, order=True)
class Agent:
    """A VM that is not the user's to change, and who manages it.

    `matched`: a pattern of the playbook means it, had it been the user's. `on_window`: it runs on a host that enters
    maintenance mode, and its manager takes it off that host.
    """

    vm: Target
    by: str
    matched: bool = False
    on_window: bool = False


def on_windows(estate: Estate, windows: Iterable[Target]) -> tuple[Agent, ...]:
    """Return the running VMs of others on hosts that enter maintenance mode."""
    found = (v for host in windows for v in estate.managed_on(host.ref))
    return tuple(sorted(Agent(v, estate.managed[v], on_window=True) for v in found if estate.is_on(v.ref)))


def with_matched(agents: Iterable[Agent], matched: Collection[Target], estate: Estate) -> tuple[Agent, ...]:
    """Add those that the patterns of a playbook mean."""
    known = {a.vm: a for a in agents}
    more = {v: known.get(v, Agent(v, estate.managed[v])) for v in matched}
    return tuple(sorted({**known, **{v: replace(a, matched=True) for v, a in more.items()}}.values()))


def stuck(estate: Estate, host: Target, rolling: Rolling) -> Iterator[Problem]:
    """Yield why VMs of extensions cannot leave a host: this tool powers none of them off, and DRS may not move them.

    Agent VMs of vCenter itself always can: vCenter moves them, or powers them off for the time.
    """
    moving = rolling.model_copy(update={"evacuate": "vmotion"})
    for vm in estate.managed_on(host.ref):
        by = estate.managed[vm]
        if vm in estate.agents or not estate.is_on(vm.ref):
            continue
        for problem in obstacles(estate, vm, host, moving, by_drs=True):
            message = f"{problem.message}; it is managed by {by} and is never powered off by a plan"
            yield Finding.problem(vm, RULE, message, f"move it or power it off with {by} first")
