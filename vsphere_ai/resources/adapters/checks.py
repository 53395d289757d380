"""Checks of network adapters: their port groups, addresses, and virtual functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from vsphere_ai.fabric import dvs, networks, virtual_functions
from vsphere_ai.model.estate.remedies import play_for
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import is_new, replaced_by
from vsphere_ai.resources._helpers import adapter_limits, ethernet, function_demands, nioc_fit, pvrdma_fit
from vsphere_ai.resources._helpers.network_adapter import HasAdapters, NetworkAdapter, matched
from vsphere_ai.resources._helpers.vm_settings import memory_problems, version_problems
from vsphere_ai.resources.mixins import offered, stated
from vsphere_ai.resources.pvrdma import Pvrdma
from vsphere_ai.resources.remedies import leave_some_out

SRIOV_VERSION = 10  # vSphere Networking 7.0, SR-IOV Support: virtual machine compatibility with ESXi 5.5


def adapter_problems(
    target: Target,
    view: View,
    after: Sequence[NetworkAdapter],
    there: Sequence[NetworkAdapter],
    said: Sequence[NetworkAdapter],
) -> Iterator[Problem]:
    """What is there already is never in the way; of what is new or changed, every reason.

    `after` is the list as it will be, `there` what the VM has, `said` the entries of the playbook.
    """
    was = {n.device: n for n in there}
    fresh = [n for n in after if n != was.get(n.device)]
    yield from _list_problems(target, view, after, fresh)
    for nic in fresh:
        yield from _own_problems(target, nic, view)
    for network in dict.fromkeys(n.port_group for n in fresh if n.device is None):
        yield from _network_problems(target, network, view)
    given = [n for n in _changed(fresh, there, "mac") if n.has_address]
    yield from _address_problems(target, given, after, view)
    # only what they are checked for: an adapter that is merely connected again stays what it is
    yield from _function_problems(target, _changed(fresh, there, "physical_function"), view)
    rdma = [(n.port_group, n.protocol) for n in _changed(fresh, there, "protocol") if n.type == "pvrdma"]
    yield from pvrdma_fit.adapter_problems(target, view, rdma)
    limited = bounded(after, there)
    yield from nioc_fit.adapter_problems(target, view, limited)
    # the adapters there whose bandwidth the playbook states, changed or not, as they will be
    keys = {there[at].device for i, at in matched(said, there).items() if said[i].is_bounded}
    kept = [n for n in after if n.device in keys and n.is_bounded and n not in limited]
    yield from nioc_fit.kept_problems(target, view, kept)


def bounded(after: Iterable[NetworkAdapter], there: Iterable[NetworkAdapter]) -> list[NetworkAdapter]:
    """Return the adapters that get bandwidth, or other than they have."""
    return [n for n in _changed(after, there, "bandwidth") if n.is_bounded]


def _changed(after: Iterable[NetworkAdapter], there: Iterable[NetworkAdapter], field: str) -> list[NetworkAdapter]:
    """Return the adapters that are new, or have another value of a field than they had, by their devices."""
    was = {n.device: getattr(n, field) for n in there}
    return [n for n in after if n.device is None or getattr(n, field) != was[n.device]]


def _own_problems(target: Target, nic: NetworkAdapter, view: View) -> Iterator[Problem]:
    """Yield fields that an adapter of its type does not have, and what its type needs."""
    for field, kind in (("protocol", "pvrdma"), ("physical_function", "sriov")):
        if getattr(nic, field) is not None and nic.type != kind:
            what = f"{field} is for adapters of type {kind}, this one is {nic.type}"
            yield Finding.problem(target, "adapters.field", what, f"leave {field} out")
    if nic.device is not None:
        return
    name = ethernet.named(view.estate, nic.port_group)
    if nic.type in ethernet.COLD and nic.port_group.startswith(f"{networks.PLAIN}:"):
        what = f"{nic.type} on {name}, which is a standard port group"
        yield Finding.problem(target, "adapters.distributed", what, "name a distributed port group")
    if nic.type == "sriov":
        yield from version_problems(target, view, "adapters.hardware-version", SRIOV_VERSION, "SR-IOV needs at least")


def _network_problems(target: Target, network: str, view: View) -> Iterator[Problem]:
    """A new adapter needs a port group that is there, and that its host is on."""
    if not ethernet.is_port_group(network):
        message, help_ = networks.for_vm(view.estate, target.ref, network).ambiguity(view.estate)
        if message:
            yield Finding.problem(target, "adapters.port-group", message, help_)
            return
        help_ = networks.distributed_in_words(view.estate)
        yield Finding.problem(target, "adapters.port-group", f"{network}: there is no port group of that name", help_)
        return
    group = view.estate.get(network)
    host = view.estate.host_of(target.ref)
    if group is not None and dvs.is_uplink(view.estate, group):
        help_ = "name a port group for virtual machines"
        yield Finding.problem(target, "adapters.port-group", f"{group.name} is an uplink port group", help_)
    elif host is not None and not _reaches(view, view.facts(host.ref), network):
        what = f"{ethernet.named(view.estate, network)} is not on {host.name}, where this VM is"
        help_ = f"{play_for(host, view, 'uplinks: {SWITCH: {UPLINK: VMNIC}}')}, or name another one"
        yield Finding.problem(target, "adapters.not-on-host", what, help_)


def _reaches(view: View, host: Facts, network: str) -> bool:
    """Return whether a port group is on a host, or will be; also when that cannot be read."""
    there = host.get("network")
    if not ethernet.is_distributed(network):
        known = [view.estate.get(n) for n in there or ()]
        names = [f.name for f in known if f is not None and f.ref.startswith(f"{networks.PLAIN}:")]
        return there is None or network.partition(":")[2] in names
    group = view.estate.get(network)
    return group is None or networks.reaches(view.estate, host, group)


def _address_problems(
    target: Target, given: Iterable[NetworkAdapter], all_: Sequence[NetworkAdapter], view: View
) -> Iterator[Problem]:
    """An address that may be given, and that no other adapter of this VM or of any other that was read has."""
    own, macs = Counter(n.mac for n in all_), dict.fromkeys(n.mac for n in given if n.mac)
    planned = {n.mac: r for r in (view.planned if macs else ()) if r != target.ref for n in _cards(r, view)}
    for mac in macs:
        if why := ethernet.wrong_address(mac):
            yield Finding.problem(
                target, "adapters.mac", f"{mac} cannot be given: {why}", "write another one, or leave mac out"
            )
        holders = [target.name] * (own[mac] > 1)
        # those that have it and keep it, and one that this plan gives it
        # the VM that this one takes the place of is destroyed before this one is made
        own_refs = {target.ref, old.ref if (old := replaced_by(view.estate, target.ref)) else ""}
        for ref in {*view.estate.vms_by_mac.get(mac, ()), planned.get(mac, target.ref)} - own_refs:
            holders += [view.facts(ref).name] if any(n.mac == mac for n in _cards(ref, view)) else []
        if holders:
            what = f"{mac} is the address of another adapter of {sorted(holders)[0]}"
            yield Finding.problem(target, "adapters.mac-taken", what, "give each adapter its own, or leave mac out")


def _cards(ref: str, view: View) -> Iterable[NetworkAdapter]:
    return next((s.cards() for s in offered(view, ref, HasAdapters)), None) or ()


def _function_problems(target: Target, fresh: Sequence[NetworkAdapter], view: View) -> Iterator[Problem]:
    """SR-IOV adapters need free virtual functions of NICs behind their port groups, on the VM's own host.

    A VM that is to be made gets a host that has them.
    """
    host = view.estate.host_of(target.ref)
    asked = [n for n in fresh if n.type == "sriov" and ethernet.is_distributed(n.port_group)]
    if host is None or not asked or is_new(view.estate, target.ref):
        return
    facts = view.facts(host.ref)
    old = replaced_by(view.estate, target.ref)  # destroyed before this one is made
    gone = {target.ref, old.ref if old else ""}
    others = [v for v in function_demands.running(view, host.ref) if v.ref not in gone]
    wanted = (*function_demands.demands(view, others), *function_demands.demands(view, [target]))
    short = virtual_functions.unserved(view.estate, facts, wanted)
    for nic in dict.fromkeys(n.model_copy(update={"device": None}) for n in asked):
        name = ethernet.named(view.estate, nic.port_group)
        nics = virtual_functions.behind(view.estate, facts, nic.port_group)
        if nic.physical_function not in (None, "auto", *(f.pci for f in nics)):
            what = f"{nic.physical_function} of {host.name} is not behind {name}"
            yield Finding.problem(target, "sriov.no-vf", what, f"behind it: {virtual_functions.listed(nics)}")
        elif any(d.vm == target.ref and d.port_group == nic.port_group for d in short):
            used = sum(d.vm != target.ref for d in wanted)
            there = f"{virtual_functions.listed(nics)}, {used} in use there by others"
            help_ = f"connect a NIC of {host.name} with SR-IOV to the switch of {name}"
            if nics:
                help_ = play_for(host, view, f"sriov: {{{nics[0].pci}: N}}")
            what = f"no virtual function is free for {name} on {host.name}: {there}"
            yield Finding.problem(target, "sriov.no-vf", what, help_)


def _list_problems(
    target: Target, view: View, all_: Sequence[NetworkAdapter], fresh: Sequence[NetworkAdapter]
) -> Iterator[Problem]:
    """Yield the problems of the list as a whole: how many, and who else lists some of them."""
    said = next((state.cards() for state in stated(view, target.ref, HasAdapters)), None) or ()
    if (target.ref, Pvrdma.kind) in view.stated and any(n.type == "pvrdma" for n in said):
        help_ = "list them in one of the two; pvrdma: [...] removes those it does not name"
        yield Finding.problem(target, "adapters.pvrdma-twice", "PVRDMA adapters are listed here and in pvrdma", help_)
    pvrdma = view.get(Pvrdma, target.ref)
    planned = (pvrdma.adapters if pvrdma else None) or ()
    others = [n for n in all_ if n.type != "pvrdma"]
    count = max(len(all_), len(others) + len(planned))
    most = adapter_limits.limits(target, view)
    if fresh and count > most.cards:
        help_ = "leave some out; exclusive: true removes those that are not listed"
        yield Finding.problem(target, "adapters.count", f"{count} adapters, a VM has at most {most.cards}", help_)
    rdma = max(len(all_) - len(others), len(planned))
    if rdma > most.pvrdma and any(n.type == "pvrdma" and n.device is None for n in fresh):
        what = f"{rdma} PVRDMA adapters; {most.pvrdma} at most ({most.source})"
        yield Finding.problem(target, "adapters.count", what, leave_some_out(target, view))
    if any(n.type in ethernet.COLD for n in fresh):
        yield from memory_problems(target, view, "adapters.memory", "SR-IOV and PVRDMA need")
