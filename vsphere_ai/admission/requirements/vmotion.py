"""Requirements of vMotion beside all others: adapters for it, CPU features, and vCPUs that are bound to no core."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.admission.base import MOVES, RUNS, AdmissionCase, Reason, host_of, requirement
from vsphere_ai.fabric.corrections import KernelAdapter
from vsphere_ai.fabric.vmk import CARRIED, VNICS, carries_vmotion
from vsphere_ai.resources.corrections import text_of

MASKED = "config.maskedFeatureCapability"
NEEDED, OFFLINE = "runtime.featureRequirement", "runtime.offlineFeatureRequirement"
_AT_LEAST = re.compile(r"(?:Bool|Num):Min:(\d+)")


@requirement(
    "admission.cpu-features",
    "CPU features for vMotion",
    occasions=RUNS,
    source="vSphere Web Services API, VirtualMachineFeatureRequirement and HostFeatureCapability",
    reads={"HostSystem": (MASKED,), "VirtualMachine": (NEEDED, OFFLINE)},
    faults=("FeatureRequirementsNotMet",),
)
def cpu_features(case: AdmissionCase) -> Iterator[Reason]:
    """The host has every CPU feature that the VM needs: a running one all that it has seen.

    What was not read is not judged, and an operation other than a least value is unknown.
    """
    facts = case.situation.view.estate.get(case.vm.ref)
    capability = case.host.get(MASKED)
    needed = (facts.get(NEEDED if case.occasion in MOVES else OFFLINE) if facts else None) or ()
    if capability is None or not needed:
        return
    have = {c["key"]: str(c.get("value")) for c in capability}
    lacking, strange = [], []
    for each in needed:
        least = _AT_LEAST.fullmatch(str(each.get("value")))
        shown = have.get(each["key"], "0")
        if least is None or not shown.isdecimal():
            strange.append(each["key"])
        elif int(shown) < int(least[1]):
            lacking.append(each["key"])
    if lacking:
        message = f"its CPU, as EVC shows it, lacks {', '.join(sorted(lacking)[:3])}, which the VM has seen"
        yield case.no(
            message, "use a host with such a CPU, or power the VM off first", fault="FeatureRequirementsNotMet"
        )
    elif strange:
        yield case.unknown(f"whether it has the CPU features {', '.join(sorted(strange)[:3])} is not known")


@requirement(
    "admission.cpu-affinity",
    "CPU affinity and vMotion",
    occasions=MOVES,
    source="vSphere Web Services API, AffinityConfigured",
    faults=("AffinityConfigured",),
)
def cpu_affinity(case: AdmissionCase) -> Reason | None:
    """A running VM that is bound to processors of its host does not move."""
    if not case.vm.affinity:
        return None
    return case.no(
        "its vCPUs are bound to processors of its host", "remove the CPU affinity", fault="AffinityConfigured"
    )


@requirement(
    "admission.vmotion-network",
    "VMkernel adapters for vMotion",
    occasions=MOVES,
    source="vCenter Server and Host Management 8.0, vMotion networking requirements; vSphere API, VMotionNotConfigured",
    reads={"HostSystem": (VNICS, CARRIED)},
    faults=("VMotionNotConfigured",),
)
def vmotion_network(case: AdmissionCase) -> Iterator[Reason]:
    """The host of a running VM, and the one that it moves to, have a VMkernel adapter that is selected for vMotion.

    One on the TCP/IP stack of vMotion is. An adapter that the plan itself selects counts: that comes before all moves
    of the cluster, and what takes the last one of a host away comes after them. One that carries vSAN, too, is changed
    in the window of its host, so that moves do not count on it.
    """
    situation = case.situation
    own = situation.view.estate.get(case.vm.ref)
    source = situation.home(case.vm.ref) or str((own.get("runtime.host") if own is not None else None) or "")
    if source == case.host.ref:
        return
    estate = situation.view.estate
    for host in filter(None, (case.host, estate.get(source))):
        which = "it" if host is case.host else f"{host.name}, where the VM runs,"
        carries = carries_vmotion(host)
        if carries is False:
            play = text_of(KernelAdapter(host_of(host), "PORT_GROUP", for_vmotion=True))
            help = f"select one in a play for that host: {play}"
            yield case.no(f"{which} has no VMkernel adapter for vMotion", help, "VMotionNotConfigured")
        elif carries is None:
            yield case.unknown(f"whether {which} has a VMkernel adapter for vMotion was not read")
