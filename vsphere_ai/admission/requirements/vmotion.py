"""Requirements of vMotion beside all others: CPU features, and vCPUs that are bound to no core."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.admission.base import MOVES, RUNS, AdmissionCase, Reason, requirement

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
        if least is None or not shown.isdigit():
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
