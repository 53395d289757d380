"""DRS options that limit how many vCPUs run per physical core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.admission.base import STARTS, AdmissionCase, Quantity, Reason, requirement
from vsphere_ai.compat.vgpu_vmotion import drs_config
from vsphere_ai.fabric.host_cpus import CORES
from vsphere_ai.model.facts import Facts

PER_CORE, PER_CLUSTER = "maxvcpuspercore", "maxvcpusperclusterpct"


@requirement(
    "admission.vcpu-share",
    "CPU over-commitment of DRS",
    occasions=STARTS | {"evacuate", "ha_restart"},
    source="vSphere Resource Management 6.5, additional DRS options (CPU over-commitment)",
    reads={"HostSystem": (CORES,), "ClusterComputeResource": ("configurationEx",)},
    faults=("NoCompatibleHost",),
    shared=True,
    of_cluster=lambda cluster: bool(drs_config(cluster).get("enabled") and _limits(cluster)[1]),
)
def vcpu_share(case: AdmissionCase) -> Iterator[Reason]:
    """`MaxVCPUsPerCore` and `MaxVcpusPerClusterPct` limit the vCPUs of running VMs while DRS is on.

    The one counts per physical core of a host, the other one in percent of the cores of a cluster. Keys are compared
    without regard to case. Whether vSphere HA respects them is not documented: a restart beyond them is unknown.
    """
    cluster = case.situation.cluster(case.host.ref)
    drs = drs_config(cluster)
    if not drs.get("enabled") or case.vm.cpus is None or cluster is None:
        return
    per_core, per_cluster = _limits(cluster)
    if per_core:
        cores = case.host.get(CORES)
        yield from _judged(case, [case.host], per_core * cores if cores else None, f"MaxVCPUsPerCore is {per_core}")
    if per_cluster and not (case.occasion == "evacuate" and case.situation.home(case.vm.ref)):
        hosts = list(case.situation.hosts_of(cluster.ref))
        counts = [h.get(CORES) for h in hosts]
        most = None if None in counts else per_cluster * sum(c or 0 for c in counts) // 100
        yield from _judged(case, hosts, most, f"MaxVcpusPerClusterPct of {cluster.name} is {per_cluster}")


def _limits(cluster: Facts) -> tuple[int, int]:
    """Return both limits of a cluster, 0 for none."""
    options = {str(o.get("key")).lower(): o.get("value") for o in drs_config(cluster).get("option") or ()}
    return _number(options.get(PER_CORE)), _number(options.get(PER_CLUSTER))


def _judged(case: AdmissionCase, hosts: Sequence[Facts], most: int | None, why: str) -> Iterator[Reason]:
    if most is None:
        yield case.unknown(f"{why}, and the number of cores was not read")
        return
    there = sum(case.situation.load(h.ref, case.vm.ref).cpus for h in hosts)
    if there + (case.vm.cpus or 0) > most:
        message = f"{why}: {there + (case.vm.cpus or 0)} vCPUs would run, {most} may"
        if case.occasion == "ha_restart":
            yield case.unknown(f"{message}; whether vSphere HA respects it is not known", "raise that DRS option")
            return
        yield case.no(
            message,
            "raise that DRS option, or power off VMs",
            quantity=Quantity(there + (case.vm.cpus or 0), most, "vCPUs"),
            fault="NoCompatibleHost",
        )


def _number(value: object) -> int:
    text = str(value or "").strip()
    return int(text) if text.isdecimal() else 0
