"""The MIG state of a host's GPUs, put together from what nvidia-smi listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from vsphere_ai.facts import Estate, Facts, Output, ProbeFailure
from vsphere_ai.gpu import nvidia_smi as smi
from vsphere_ai.gpu.listings import (
    GpuStatus,
    ListedComputeInstance,
    ListedInstance,
    UnreadableOutput,
    parse_compute_instances,
    parse_gpus,
    parse_instances,
)
from vsphere_ai.gpu.placement import Instance
from vsphere_ai.steps import Probe

GPUS = Probe("nvidia-smi gpus", smi.QUERY_GPUS)
INSTANCES = Probe("nvidia-smi instances", smi.LIST_INSTANCES)
COMPUTE = Probe("nvidia-smi compute instances", smi.LIST_COMPUTE_INSTANCES)
PROFILES = Probe("nvidia-smi mig profiles", smi.LIST_PROFILES)
PLACEMENTS = Probe("nvidia-smi mig placements", smi.LIST_PLACEMENTS)
STATE = (GPUS, INSTANCES, COMPUTE)
PROBES = (*STATE, PROFILES, PLACEMENTS)
"""The state, and what the GPUs offer (empty before R550 while MIG is off): see `listed_board`."""


class Live:
    """GPUs, their GPU instances (by memory slice) and compute instances; by PCI address."""

    def __init__(
        self,
        gpus: Sequence[GpuStatus],
        instances: Sequence[ListedInstance],
        compute: Sequence[ListedComputeInstance],
        busy: frozenset[str],
    ) -> None:
        self.gpus = tuple(gpus)
        by_index = {g.index: g.pci for g in gpus}
        unknown = ({i.gpu for i in instances} | {c.gpu for c in compute}) - set(by_index)
        if unknown:
            raise UnreadableOutput(f"nvidia-smi lists instances of GPU {min(unknown)}, which it does not list itself")
        self.instances: dict[str, list[Instance]] = defaultdict(list)
        for one in sorted(instances, key=lambda i: i.start):
            pci = by_index[one.gpu]
            self.instances[pci].append(Instance(one.profile_name, one.start, one.gi_id, in_use=pci in busy))
        self.compute: dict[tuple[str, int], list[int]] = defaultdict(list)
        for each in compute:
            self.compute[by_index[each.gpu], each.gi_id].append(each.ci_id)

    def driver_major(self, pci: str) -> int | None:
        """Return the driver branch of a GPU, e.g. 535."""
        return next((g.driver_major for g in self.gpus if g.pci == pci), None)


def live(facts: Facts) -> Live | None:
    """Return what nvidia-smi listed; None when it was not asked, `UnreadableOutput` when it cannot be understood."""
    outputs = [facts.probes.get(p.name) for p in STATE]
    if not all(isinstance(o, Output) for o in outputs):
        return None
    gpus, instances, compute = (o for o in outputs if isinstance(o, Output))
    return Live(
        parse_gpus(gpus.status, gpus.stdout),
        parse_instances(instances.status, instances.stdout),
        parse_compute_instances(compute.status, compute.stdout),
        busy(facts),
    )


def why_unread(facts: Facts) -> str:
    """Return why it is not known what stands on the host's GPUs; empty when it is."""
    answers = (facts.probes.get(p.name) for p in STATE)
    failure = next((a for a in answers if isinstance(a, ProbeFailure)), None)
    if failure is not None:
        return failure.reason
    try:
        return "" if live(facts) is not None else f"{facts.name} was not asked over SSH"
    except UnreadableOutput as error:
        return " / ".join(error.message.splitlines())


def readable(facts: Facts) -> Live:
    """Return what nvidia-smi listed, or an empty state when there is none that can be understood."""
    try:
        return live(facts) or Live((), (), (), frozenset())
    except UnreadableOutput:
        return Live((), (), (), frozenset())


def users(facts: Facts, estate: Estate) -> dict[str, str]:
    """Return PCI address -> names of the running VMs on a GPU, in a line."""
    found = {}
    for gpu in facts.get("config.graphicsInfo", ()):
        names = sorted(at.name if (at := estate.get(ref)) else ref for ref in gpu.get("vm") or ())
        if names:
            found[gpu["pciId"]] = ", ".join(names)
    return found


def present(facts: Facts, estate: Estate, pci: str) -> tuple[Instance, ...]:
    """Return what stands on a GPU by start, with the VMs that may hold it; empty when it was not read."""
    by = users(facts, estate).get(pci, "")
    return tuple(replace(i, used_by=by) for i in readable(facts).instances[pci])


def busy(facts: Facts) -> frozenset[str]:
    """Return GPUs with a running VM: which instance it holds is not told, so all of the GPU's count as in use."""
    return frozenset(g["pciId"] for g in facts.get("config.graphicsInfo", ()) if g.get("vm"))
