"""Moves of VMs to other hosts after which all VMs of a question find their GPUs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, GpuHosts, VmDemand

MOST_ALONE = 16
"""VMs of a host of which each is tried alone; with more, only all of them together."""
Move = tuple[str, str]
"""A VM and the host it would be on."""


def moves_that_help(
    farm: GpuHosts, demands: Sequence[VmDemand], homes: Mapping[str, str], host: str
) -> tuple[Move, ...]:
    """Return the fewest moves found that make room for the VMs of a host; empty when none help.

    `homes` maps each VM to the host it is on. One VM alone is tried first, then all VMs of the host. GPUs of other
    hosts on which something may stand that was not read are left out: who is moved there may find no room.
    """
    sure = replace(farm, slots=tuple(s for s in farm.slots if s.host == host or not s.unsure))
    mine = sorted(d.name for d in demands if homes[d.name] == host and d.running_on is None)
    for chosen in (*([name] for name in mine[:MOST_ALONE]), mine):
        found = _solved(sure, _bound(demands, homes, chosen))
        moved = tuple((name, at) for name, at in found if at != homes[name])
        if moved:
            return moved
    return ()


def _bound(demands: Sequence[VmDemand], homes: Mapping[str, str], free: Collection[str]) -> list[VmDemand]:
    return [d if d.name in free else replace(d, hosts=frozenset({homes[d.name]})) for d in demands]


def _solved(farm: GpuHosts, demands: Sequence[VmDemand]) -> Iterator[Move]:
    answer = solve(farm, demands)
    if isinstance(answer, Fit):
        yield from ((name, host) for name, (host, _) in answer.assignment.items())


def words(moves: Sequence[Move], name_of: Callable[[str], str]) -> str:
    """Return moves as a remedy: ``move train-03 to esx02``."""
    return " and ".join(f"move {name_of(vm)} to {host}" for vm, host in moves)
