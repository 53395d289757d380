"""The host has the networks of the VM."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import ARRIVES, AdmissionCase, Reason, requirement
from vsphere_ai.fabric.networks import PROXIES, reaches
from vsphere_ai.model.deferred import is_deferred


@requirement(
    "admission.network",
    "Networks that the host has",
    occasions=ARRIVES,
    source="vSphere Web Services API, CannotAccessNetwork",
    reads={"HostSystem": ("network", PROXIES)},
    faults=("CannotAccessNetwork",),
)
def networks(case: AdmissionCase) -> Iterator[Reason]:
    """The host has the standard networks of the VM, and is a member of its distributed switches.

    A port group that the plan makes is there on all hosts of its switch, with those that join it in the same plan.
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
        if ref in there:
            continue
        known = estate.get(ref)
        planned = known is not None and is_deferred(known.ref)
        if planned and known is not None and reaches(estate, case.host, known):
            continue
        if not planned and ref not in every and ref not in shown:
            continue  # no host shows it, and nothing is known of it
        name = known.name if known is not None else ref.partition(":")[2]
        help = "connect the host to it, or use another host"
        yield case.no(f"it does not have the network {name}", help, fault="CannotAccessNetwork")
