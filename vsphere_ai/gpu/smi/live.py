"""The MIG state of a host's GPUs, put together from what nvidia-smi listed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from vsphere_ai.gpu import commands
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.smi.listing_checks import check
from vsphere_ai.gpu.smi.listings import (
    GpuStatus,
    ListedComputeInstance,
    ListedInstance,
    UnreadableOutput,
    parse_compute_instances,
    parse_gpus,
    parse_instances,
    parse_profiles,
)
from vsphere_ai.gpu.smi.running import RunningVgpu, parse_running
from vsphere_ai.model.facts import CommandOutput, Estate, Facts, ProbeFailure
from vsphere_ai.model.steps import Probe

GPUS = Probe("nvidia-smi gpus", commands.QUERY_GPUS)
INSTANCES = Probe("nvidia-smi instances", commands.LIST_INSTANCES)
COMPUTE = Probe("nvidia-smi compute instances", commands.LIST_COMPUTE_INSTANCES)
PROFILES = Probe("nvidia-smi mig profiles", commands.LIST_PROFILES)
PLACEMENTS = Probe("nvidia-smi mig placements", commands.LIST_PLACEMENTS)
RUNNING = Probe("nvidia-smi vgpus", commands.QUERY_VGPUS)
STATE = (GPUS, INSTANCES, COMPUTE)
PROBES = (*STATE, RUNNING, PROFILES, PLACEMENTS)
"""The state, which vGPUs run, and what the GPUs offer (empty before R550 while MIG is off): see `listed_board`."""

T = TypeVar("T")


class LiveGpus:
    """GPUs, their GPU instances (by memory slice) and compute instances; by PCI address.

    `guests` says how many VMs vCenter shows on a GPU, `running` which vGPUs nvidia-smi lists; None when it does not.
    `faults` are the GPUs of which nvidia-smi prints a phrase such as ``GPU is lost`` instead of values.
    """

    def __init__(
        self,
        gpus: Sequence[GpuStatus],
        instances: Sequence[ListedInstance],
        compute: Sequence[ListedComputeInstance],
        guests: Mapping[str, int],
        running: Sequence[RunningVgpu] | None = None,
    ) -> None:
        self.gpus = tuple(gpus)
        by_index = {g.index: g.pci for g in gpus if g.index is not None}
        self.faults = {g.pci: g.fault for g in gpus if g.fault}
        self.running = None if running is None else tuple(running)
        self.instances: dict[str, list[Instance]] = defaultdict(list)
        for one in sorted(instances, key=lambda i: i.start):
            self.instances[by_index[one.gpu]].append(Instance(one.profile_name, one.start, one.gi_id))
        for pci, found in self.instances.items():
            held = self._holders(pci, Counter(guests)[pci])
            self.instances[pci] = [_held(i, None if held is None else held[i.gi_id]) for i in found]
        self.compute: dict[tuple[str, int], list[int]] = defaultdict(list)
        for each in compute:
            self.compute[by_index[each.gpu], each.gi_id].append(each.ci_id)

    def _holders(self, pci: str, guests: int) -> Mapping[int | None, list[str]] | None:
        """Return GPU instance -> names of the VMs that hold it; None when VMs run there of which that is not known.

        Known it is when nvidia-smi lists every VM that vCenter shows, each vGPU with an instance that stands there.
        """
        here = [v for v in self.running or () if v.pci == pci]
        there = {i.gi_id for i in self.instances[pci]}
        if len({v.vm_id for v in here}) < guests or any(v.gi not in there for v in here):
            return None
        holders: dict[int | None, list[str]] = defaultdict(list)
        for vgpu in here:
            if vgpu.vm_name not in holders[vgpu.gi]:
                holders[vgpu.gi].append(vgpu.vm_name)
        return holders

    def driver_major(self, pci: str) -> int | None:
        """Return the driver branch of a GPU, e.g. 535."""
        return next((g.driver_major for g in self.gpus if g.pci == pci), None)


def _held(instance: Instance, by: Sequence[str] | None) -> Instance:
    """Return an instance with who holds it; None: that is not known, so it counts as in use."""
    return replace(instance, in_use=by is None or bool(by), used_by=", ".join(by or ()))


def live(facts: Facts) -> LiveGpus | None:
    """Return what nvidia-smi listed; None when it was not asked, `UnreadableOutput` when it cannot be understood."""
    outputs = [a for p in STATE if isinstance(a := facts.probes.get(p.name), CommandOutput)]
    if len(outputs) < len(STATE):
        return None
    (gpus, instances, compute), profiles = outputs, None
    with suppress(UnreadableOutput):  # the state does not need the profiles; `listed_board` says so
        profiles = _parsed(facts, PROFILES, parse_profiles)
    listed = (
        parse_gpus(gpus.status, gpus.stdout),
        parse_instances(instances.status, instances.stdout),
        parse_compute_instances(compute.status, compute.stdout),
    )
    check(*listed, profiles or ())
    return LiveGpus(*listed, _guests(facts), running(facts))


def _parsed(facts: Facts, probe: Probe, parse: Callable[[int, str], T]) -> T | None:
    """Return what a command listed; None when it gave no answer."""
    answer = facts.probes.get(probe.name)
    return parse(answer.status, answer.stdout) if isinstance(answer, CommandOutput) else None


def driver_of(facts: Facts, pci: str) -> str:
    """Return the driver version of a GPU as nvidia-smi shows it; empty when it was not read."""
    return next((g.driver for g in readable(facts).gpus if g.pci == pci), "")


def running(facts: Facts) -> tuple[RunningVgpu, ...] | None:
    """Return the vGPUs nvidia-smi lists; None when it was not asked or cannot be understood: see `why_not_listed`."""
    with suppress(UnreadableOutput):
        return _parsed(facts, RUNNING, parse_running)
    return None


def why_not_listed(facts: Facts) -> str:
    """Return why it is not known which vGPUs run on a host; empty when it is."""
    return _why_not(facts, (RUNNING,), lambda host: _parsed(host, RUNNING, parse_running))


def why_unread(facts: Facts) -> str:
    """Return why it is not known what stands on the host's GPUs; empty when it is."""
    return _why_not(facts, STATE, live)


def _why_not(facts: Facts, probes: Iterable[Probe], read: Callable[[Facts], object]) -> str:
    for answer in (facts.probes.get(p.name) for p in probes):
        if isinstance(answer, ProbeFailure):
            return answer.reason
    try:
        return "" if read(facts) is not None else f"{facts.name} was not asked over SSH"
    except UnreadableOutput as error:
        return " / ".join(error.message.splitlines())


def readable(facts: Facts) -> LiveGpus:
    """Return what nvidia-smi listed, or an empty state when there is none that can be understood."""
    with suppress(UnreadableOutput):
        return live(facts) or LiveGpus((), (), (), {})
    return LiveGpus((), (), (), {})


def users(facts: Facts, estate: Estate) -> dict[str, str]:
    """Return PCI address -> names of the running VMs on a GPU, in a line."""
    found = {}
    for gpu in facts.get("config.graphicsInfo", ()):
        names = sorted(at.name if (at := estate.get(ref)) else ref for ref in gpu.get("vm") or ())
        if names:
            found[gpu["pciId"]] = ", ".join(names)
    return found


def present(facts: Facts, estate: Estate, pci: str) -> tuple[Instance, ...]:
    """Return what stands on a GPU by start, with the VMs that hold it, or may hold it; empty when it was not read."""
    by = users(facts, estate).get(pci, "")
    return tuple(replace(i, used_by=i.used_by or by) if i.in_use else i for i in readable(facts).instances[pci])


def busy(facts: Facts) -> frozenset[str]:
    """Return GPUs with a running VM."""
    return frozenset(_guests(facts))


def _guests(facts: Facts) -> dict[str, int]:
    return {g["pciId"]: len(g["vm"]) for g in facts.get("config.graphicsInfo", ()) if g.get("vm")}
