"""Second witness of health: what vCenter and the hosts' shells say about the hardware behind VMs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from vsphere_ai.app.training.health.place import ATS, place_of
from vsphere_ai.app.training.nodes.facts import GRAPHICS, NodeState
from vsphere_ai.gpu.smi.listings import UnreadableOutput
from vsphere_ai.gpu.smi.live import RUNNING
from vsphere_ai.gpu.smi.running import RunningVgpu, parse_running
from vsphere_ai.health.answers import MEASURES, SMI, SmiGpu, gpus_in, measures_in, names_lost_gpu, with_measures
from vsphere_ai.health.witness import HostFacts
from vsphere_ai.model.facts import CommandOutput, Estate, Facts, ProbeFailure
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.steps import Probe
from vsphere_ai.model.vm_sets import real_ref

GPUS = Probe("health.gpus", SMI.argv)
MORE = Probe("health.measures", MEASURES.argv)
_ROTATED = "zcat /var/log/{0}.1.gz /var/log/{0}.0.gz | grep {1}; grep -h {1} /var/log/{0}.log"
LOG = Probe("health.log", ("sh", "-c", _ROTATED.format("vmkernel", "NVRM")))
EVENTS = Probe("health.events", ("sh", "-c", _ROTATED.format("vobd", "vmnic.linkstate")))
"""Lines of the two logs, with those of the last two that were rotated: a busy host rotates within minutes."""
CLOCK = Probe("health.clock", ("esxcli", "system", "time", "get"))
NO_SSH = "SSH is not set up for hosts"
PROBES = (GPUS, MORE, LOG, EVENTS, CLOCK, RUNNING, ATS)


def host_facts(node: Node, state: NodeState, estate: Estate, read: datetime) -> HostFacts:
    """Return what is known of the host of a node; nothing of a VM without a host. `read`: when hosts were asked."""
    host = _host(node, estate)
    if host is None:
        return HostFacts(failure="its host is not known")
    gpus, failure = _gpus(host.probes.get(GPUS.name), host.probes.get(MORE.name))
    nics = {str(p["device"]): p for p in host.get("config.network.pnic") or ()}
    return HostFacts(
        failure,
        gpus,
        dict(_tenants(node, host, estate)),
        next((gpu.driver for gpu in gpus.values() if gpu.driver), ""),
        _lines(host.probes.get(LOG.name)),
        {name: speed for name, nic in nics.items() if (speed := _speed(nic.get("linkSpeed")))},
        {n: max(s) for n, nic in nics.items() if (s := [_speed(x) for x in nic.get("validLinkSpecification") or ()])},
        {name: switch.mtu for name, switch in state.switches.items() if switch.mtu is not None},
        {name: switch.others for name, switch in state.switches.items() if switch.others},
        state.settings,
        place_of(node, state, host),
        _lines(host.probes.get(EVENTS.name)),
        _unread(host.probes.get(LOG.name)) or _unread(host.probes.get(EVENTS.name)),
        _time(host.get("runtime.bootTime")),
        _ahead(host.probes.get(CLOCK.name), read),
    )


def placed(node: Node, estate: Estate) -> Node:
    """Return a node whose vGPUs have the physical GPUs that the host's nvidia-smi shows, where that is certain.

    It is where all vGPUs of a type of the VM are on one GPU, or the guest shows the UUID that the host shows (that the
    two are the same is unverified).
    """
    host = _host(node, estate)
    running = _running(host) if host is not None else ()
    own = [v for v in running if v.vm_name == node.vm]
    by_uuid = {v.uuid: v.pci for v in running if v.uuid}
    gpus = []
    for gpu in node.gpus:
        if gpu.profile and not gpu.host_pci and gpu.uuid:
            gpu = replace(gpu, host_pci=by_uuid.get(gpu.uuid.removeprefix("GPU-").lower(), ""))
        at = {v.pci for v in own if v.profile.removeprefix("nvidia_") == gpu.profile.removeprefix("nvidia_")}
        gpus.append(replace(gpu, host_pci=at.pop()) if gpu.profile and not gpu.host_pci and len(at) == 1 else gpu)
    return replace(node, gpus=tuple(gpus))


def loads(node: Node, estate: Estate) -> tuple[int, ...]:
    """Return the utilization, in percent, of the vGPUs of a node as its host shows it; nothing where it does not."""
    host = _host(node, estate)
    own = [v for v in _running(host) if v.vm_name == node.vm] if host is not None else []
    return tuple(vgpu.load for vgpu in own if vgpu.load is not None)


def _host(node: Node, estate: Estate) -> Facts | None:
    return next((estate[h.ref] for h in estate.hosts if h.name == node.host), None)


def _running(host: Facts) -> Sequence[RunningVgpu]:
    answer = host.probes.get(RUNNING.name)
    try:
        return parse_running(answer.status, answer.stdout) if isinstance(answer, CommandOutput) else ()
    except UnreadableOutput:
        return ()


def _unread(answer: CommandOutput | ProbeFailure | None) -> str:
    """Return why a log could not be read, or one that was rotated, which need not be there.

    grep ends with 1 where no line has the word.
    """
    if not isinstance(answer, CommandOutput):
        return answer.reason if answer is not None else NO_SSH
    said = [line for line in answer.stderr.splitlines() if not (".gz" in line and "No such file" in line)]
    if answer.status > 1 or any(".gz" in line for line in said):
        return f"the log of the host cannot be read: {said[0] if said else f'grep ended with {answer.status}'}"
    return ""


def _lines(answer: CommandOutput | ProbeFailure | None) -> tuple[str, ...]:
    return tuple(answer.stdout.splitlines()) if isinstance(answer, CommandOutput) else ()


def _time(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC) if value else None
    except ValueError:
        return None


def _ahead(answer: CommandOutput | ProbeFailure | None, read: datetime) -> float | None:
    """Return how many seconds the clock of a host is ahead of this machine's."""
    own = _time("".join(_lines(answer)).strip()) if isinstance(answer, CommandOutput) and not answer.status else None
    return (own - read).total_seconds() if own is not None else None


def _gpus(
    answer: CommandOutput | ProbeFailure | None, more: CommandOutput | ProbeFailure | None
) -> tuple[Mapping[str, SmiGpu], str]:
    if not isinstance(answer, CommandOutput):
        return {}, answer.reason if answer is not None else NO_SSH
    try:
        gpus = tuple(gpus_in(answer.stdout)) if not answer.status or names_lost_gpu(answer.stdout) else ()
    except ValueError:
        return {}, "the output of nvidia-smi is not as expected"
    if answer.status and not gpus:
        return {}, f"nvidia-smi ended with {answer.status}"
    rows = measures_in(more.stdout) if isinstance(more, CommandOutput) and not more.status else {}
    return {gpu.bus: gpu for gpu in with_measures(gpus, rows)}, ""


def _tenants(node: Node, host: Facts, estate: Estate) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the GPUs of a node with the names of the other VMs that run on them."""
    own = {gpu.host_pci for gpu in node.gpus}
    for graphics in host.get(GRAPHICS) or ():
        pci = str(graphics.get("pciId"))
        others = [ref for ref in graphics.get("vm") or () if real_ref(estate, ref) != node.ref]
        if pci in own and others:
            yield pci, tuple(facts.name for ref in others if (facts := estate.get(ref)) is not None) or ("other VMs",)


def _speed(link: Mapping[str, float] | None) -> float:
    return float((link or {}).get("speedMb") or 0) / 1000
