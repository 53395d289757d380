"""The host has the networks of the VM."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import ARRIVES, AdmissionCase, Reason, requirement
from vsphere_ai.model.deferred import is_deferred


@requirement(
    "admission.network",
    "Networks that the host has",
    occasions=ARRIVES,
    source="vSphere Web Services API, CannotAccessNetwork",
    reads={"HostSystem": ("network",)},
    faults=("CannotAccessNetwork",),
)
def networks(case: AdmissionCase) -> Iterator[Reason]:
    """The host has the standard networks of the VM, and is a member of its distributed switches.

    What the plan makes for all hosts of a switch is there.
    """
    estate, there = case.situation.view.estate, case.host.get("network")
    if there is None:
        if case.vm.networks and not case.ran_alike("networks"):
            yield case.unknown("its networks were not read")
        return
    every = case.situation.networks(str(case.host.get("parent")))
    own = estate.get(case.vm.ref)
    shown = (own.get("network") if own is not None else None) or ()
    for ref in case.vm.networks:
        if is_deferred(ref) or ref in there:
            continue
        known = estate.get(ref)
        if ref not in every and ref not in shown:
            continue  # a port group that the plan itself makes: no host shows it yet
        name = known.name if known is not None else ref.partition(":")[2]
        help = "connect the host to it, or use another host"
        yield case.no(f"it does not have the network {name}", help, fault="CannotAccessNetwork")
