"""Order of the steps of VMs: power-ons that wait for each other, a first VM of an unknown image, rules of sets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, Clone, ClusterRules, Destroy, GuestReady, PowerOn, Step
from vsphere_ai.planning.moves.power_on_order import PowerOns

Chains = Mapping[Target, Sequence[Step]]
"""The steps of each target in their order."""


def behind_canaries(chains: Chains) -> Iterator[tuple[Step, Step]]:
    """Let the clones of an image that cannot be read wait until the guest of the first one is ready."""
    first = {vm.ref: chain[-1] for vm, chain in chains.items() if chain and isinstance(chain[0], Clone)}
    for chain in chains.values():
        clone = chain[0] if chain else None
        if isinstance(clone, Clone) and clone.canary in first:
            yield first[clone.canary], clone


def power_on_of(chain: Sequence[Step]) -> Step | None:
    """Return the step of a VM that powers it on, None without one."""
    return next((s for s in chain if isinstance(s, PowerOn)), None)


def power_on_edges(power_on: PowerOns, chains: Chains, cycled: Collection[Target]) -> Iterator[tuple[Step, Step]]:
    """Tie power-ons to what they wait for; the steps of a VM that is power-cycled begin and end with that."""
    for order in (*power_on.orders.values(), *power_on.pairs):
        ons = {vm: step for vm in order if (step := power_on_of(chains.get(vm, ()))) is not None}
        yield from pairwise(ons.values())
        # what one of them holds until it is off may be what the first one gets
        first = next(iter(ons.values()), None)
        off_by_then = (chains[vm][0] for vm in [*ons][1:] if vm in cycled)
        yield from ((off, first) for off in off_by_then if first is not None)
    for vm, other in power_on.after_off:
        later = power_on_of(chains.get(vm, ()))
        if later is not None and other in cycled:
            yield chains[other][0], later


def around_rules(
    rules: Sequence[ClusterRules], chains: Chains, leaving: Collection[str]
) -> Iterator[tuple[Step, Step]]:
    """Change a cluster for a set after its clones, before they are read back and power on; again once all are ready.

    The first VM of an image that cannot be read is on by then: the others wait for its guest. VMs are destroyed after.
    """
    canaries = {c[0].canary for c in chains.values() if c and isinstance(c[0], Clone)}
    for step in rules:
        yield from ((step, later) for later in rules if later.ready and not step.ready)
        for vm, chain in chains.items():
            if chain and not step.ready and vm.ref in leaving:
                yield from ((step, s) for s in chain if isinstance(s, Destroy))
            elif chain and vm.ref in step.wanted.vms:
                yield from _around(step, chain, waits=vm.ref not in canaries)


def _around(step: ClusterRules, chain: Sequence[Step], *, waits: bool) -> Iterator[tuple[Step, Step]]:
    if step.ready and isinstance(chain[-1], GuestReady):
        yield chain[-1], step
    if step.ready or not isinstance(chain[0], Clone):
        return
    at = next(i for i, s in enumerate(chain) if isinstance(s, AsPlanned))
    yield chain[at - 1], step
    if waits:
        yield step, chain[at]
