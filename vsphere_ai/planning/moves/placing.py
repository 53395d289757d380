"""Places of several VMs on hosts, beside each other and what runs there: a search with a limit, by admission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from vsphere_ai.admission.admit import admit, requirements
from vsphere_ai.admission.base import Occasion
from vsphere_ai.admission.machine import Machine
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.facts import Facts

OF_HOSTS = (*requirements(shared=False, of_host=True), *requirements(shared=True))
"""What a VM is refused for on every host alike is no matter of its place."""
STEPS = 2_000
"""Hosts that are tried for several VMs, before they are said to have no places together."""
FEW = 4
"""Hosts of which it is not known whether they take a VM, before the first of them is tried."""


def placed(
    vms: Sequence[Machine],
    situation: Situation,
    occasion: Occasion,
    hosts: Callable[[Machine], Iterable[Facts]],
    tried: Callable[[], None] = lambda: None,
) -> dict[str, str] | None:
    """Return a host (reference) for each VM, beside all others; None where none was found.

    `hosts` returns those that may take a VM, the best first; `tried` is called for each place that is tried.
    """
    left, chosen = [STEPS], dict[str, str]()

    def candidates(vm: Machine) -> Iterator[str]:
        unsure = []
        for host in hosts(vm):
            left[0] -= 1
            answer = admit(vm, host, situation, occasion, OF_HOSTS).answer if left[0] >= 0 else "no"
            if answer == "yes":
                yield host.ref
            elif answer == "unknown":
                unsure.append(host.ref)
            if len(unsure) == FEW:
                yield from unsure
                unsure.clear()
        yield from unsure

    def place(at: int) -> bool:
        if at == len(vms):
            return True
        vm = vms[at]
        for ref in candidates(vm):
            tried()
            situation.arrive(vm, ref)
            chosen[vm.ref] = ref
            done = place(at + 1)
            situation.leave(vm.ref)
            if done:
                return True
        return False

    return chosen if place(0) else None
