"""NUMA hints of new VMs: on which nodes of their host the GPUs that they may get are, and the NICs of their rails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vsphere_ai.fabric import dvs, pci
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources._possible_devices import possible_devices
from vsphere_ai.resources.vm_set.settings import SetNic, VmSetFields

RDMA_TYPES = ("pvrdma", "sriov")
PNICS = "config.network.pnic"


def numa_hints(state: VmSetFields, member: Member, view: View) -> Iterator[str]:
    """Yield a sentence for a VM with a GPU and rails on a host with several NUMA nodes; nothing where one is unknown.

    A GPU and a NIC on different nodes reach each other through the link between the sockets.
    """
    host = view.estate.get(member.place.host)
    if host is None:
        return
    facts = view.facts(host.ref)
    found = pci.devices(facts)
    possible = {a for each in possible_devices(Target("vm", member.name, member.ref), view, facts) for a in each}
    gpus = {d.numa for a, d in found.items() if a in possible and d.is_gpu}
    if not gpus or None in gpus or len({d.numa for d in found.values()} - {None}) < 2:
        return
    rails = {nic.name: set(_nodes(nic, facts, view, member)) for nic in state.nics or () if _is_rail(nic)}
    known = {name: nodes for name, nodes in rails.items() if nodes and None not in nodes}
    if not known:
        return
    words = "; ".join(f"{name} on {_listed(nodes)}" for name, nodes in known.items())
    far = [name for name, nodes in known.items() if nodes != gpus or len(nodes) > 1]
    near = "tuning: {numa_affinity: gpu} keeps CPUs and memory there"
    verdict = f"{', '.join(far)} may be on another node than the GPU" if far else near
    yield f"NUMA of {host.name}: GPUs on {_listed(gpus)}; {words}; {verdict}"


def _is_rail(nic: SetNic) -> bool:
    return nic.rail is not None or nic.role == "rdma" or nic.type in RDMA_TYPES


def _nodes(nic: SetNic, host: Facts, view: View, member: Member) -> Iterator[int | None]:
    """Yield the nodes of the physical NICs that a port group goes out by."""
    group = view.estate.get(ethernet.found(member.ref, nic.port_group, view))
    switch = dvs.switch_of(view.estate, group)
    proxy = dvs.proxies(host).get(str(switch.get("uuid"))) if switch is not None else None
    uplinks = set(dvs.nics(proxy).values()) if proxy is not None else set()
    found = pci.devices(host)
    for pnic in host.get(PNICS) or ():
        if pnic.get("device") in uplinks and pnic.get("pci") in found:
            yield found[pnic["pci"]].numa


def _listed(nodes: Iterable[int | None]) -> str:
    numbers = sorted(n for n in nodes if n is not None)
    return f"node{'s' if len(numbers) > 1 else ''} {' and '.join(map(str, numbers))}"
