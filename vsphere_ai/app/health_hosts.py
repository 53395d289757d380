"""Second witness of health: what vCenter and the hosts' shells say about the hardware behind VMs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.app.health_place import ATS, place_of
from vsphere_ai.app.nodes_facts import GRAPHICS, NodeState
from vsphere_ai.health.answers import SMI, SmiGpu, gpus_in
from vsphere_ai.health.witness import HostFacts
from vsphere_ai.model.facts import Estate, Facts, Output, ProbeFailure
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.steps import Probe

GPUS = Probe("health.gpus", SMI.argv)
LOG = Probe("health.log", ("grep", "-h", "NVRM", "/var/log/vmkernel.log"))
PROBES = (GPUS, LOG, ATS)


def host_facts(node: Node, state: NodeState, estate: Estate) -> HostFacts:
    """Return what is known of the host of a node; nothing of a VM without a host."""
    host = next((estate[h.ref] for h in estate.hosts if h.name == node.host), None)
    if host is None:
        return HostFacts(failure="its host is not known")
    gpus, failure = _gpus(host.probes.get(GPUS.name))
    log = host.probes.get(LOG.name)
    nics = {str(p["device"]): p for p in host.get("config.network.pnic") or ()}
    return HostFacts(
        failure,
        gpus,
        dict(_tenants(node, host, estate)),
        next((gpu.driver for gpu in gpus.values()), ""),
        tuple(log.stdout.splitlines()) if isinstance(log, Output) else (),
        {name: speed for name, nic in nics.items() if (speed := _speed(nic.get("linkSpeed")))},
        {n: max(s) for n, nic in nics.items() if (s := [_speed(x) for x in nic.get("validLinkSpecification") or ()])},
        {name: switch.mtu for name, switch in state.switches.items() if switch.mtu is not None},
        {name: switch.others for name, switch in state.switches.items() if switch.others},
        state.settings,
        place_of(node, state, host),
    )


def _gpus(answer: Output | ProbeFailure | None) -> tuple[Mapping[str, SmiGpu], str]:
    if not isinstance(answer, Output):
        return {}, answer.reason if answer is not None else "SSH is not set up for hosts"
    if answer.status:
        return {}, f"nvidia-smi ended with {answer.status}"
    try:
        return {gpu.bus: gpu for gpu in gpus_in(answer.stdout)}, ""
    except ValueError:
        return {}, "the output of nvidia-smi is not as expected"


def _tenants(node: Node, host: Facts, estate: Estate) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the GPUs of a node with the names of the other VMs that run on them."""
    own = {gpu.host_pci for gpu in node.gpus}
    for graphics in host.get(GRAPHICS) or ():
        pci = str(graphics.get("pciId"))
        others = [ref for ref in graphics.get("vm") or () if ref != node.ref]
        if pci in own and others:
            yield pci, tuple(facts.name for ref in others if (facts := estate.get(ref)) is not None) or ("other VMs",)


def _speed(link: Mapping[str, float] | None) -> float:
    return float((link or {}).get("speedMb") or 0) / 1000
