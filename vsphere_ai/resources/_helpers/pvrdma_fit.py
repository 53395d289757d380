"""Checks of PVRDMA adapters: the hardware version of the VM, and RDMA on every host it can run on.

Source: vSphere Networking 7.0, "PVRDMA Support" and "Remote Direct Memory Access for Virtual Machines".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from vsphere_ai.fabric import networks
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.host import RULESET
from vsphere_ai.fabric.vmk import OPTION_FACT
from vsphere_ai.model.estate.kept import once
from vsphere_ai.model.estate.remedies import play_for
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import vm_settings

MINIMUM_VERSION = 13  # vSphere Networking 7.0, PVRDMA support: VM compatibility 13
PROTOCOL_VERSIONS = range(14, 20)  # the protocol field is chosen by the user for hardware versions 14 to 19 only


def version_problems(target: Target, view: View, chosen: Collection[str]) -> Iterator[Problem]:
    """Check the VM's hardware version against PVRDMA, and against the protocols that are chosen anew."""
    needs = "PVRDMA needs at least"
    yield from vm_settings.version_problems(target, view, "pvrdma.hardware-version", MINIMUM_VERSION, needs)
    version = vm_settings.hardware_version(target, view)
    if version is not None and chosen and version not in PROTOCOL_VERSIONS:
        what = f"hardware version {version} does not let the protocol be chosen ({', '.join(sorted(chosen))})"
        yield Finding.problem(target, "pvrdma.protocol", what, "leave protocol out")


def host_problems(target: Target, view: View, group: Facts, protocol: str | None) -> Iterator[Problem]:
    """Follow the chain to an RDMA device on every host the VM can run on, and look how those are prepared."""
    for host in view.places.of_hosts(view.candidates(target.ref), _unready, group.ref, protocol):
        link = fabric_route.broken_link(view.estate, host.ref, group, protocol)
        if link is not None:
            name = networks.label(view.estate, group)
            what = f"{name} carries no RDMA on {host.name}: broken at {link.name} ({link.seen})"
            yield Finding.problem(target, "pvrdma.not-rdma", what, link.finding.remedy)
        # as the host will be: vmkernel may name the adapter as well
        prepared = view.facts(host.ref)
        if not prepared.get(OPTION_FACT):
            help_ = play_for(host, view, "pvrdma_host: {vmknic: vmkN, firewall: true}")
            yield Finding.problem(target, "pvrdma.vmknic", f"{host.name} names no vmkernel adapter for PVRDMA", help_)
        if _is_closed(prepared):
            help_ = play_for(host, view, "pvrdma_host: {firewall: true}")
            yield Finding.problem(target, "pvrdma.firewall", f"{host.name} has its firewall closed for PVRDMA", help_)


def _unready(estate: Estate, hosts: Sequence[Target], group: str, protocol: str | None) -> tuple[Target, ...]:
    """Return the hosts on which something is not as PVRDMA on a port group needs it."""
    on = estate[group]
    broken = (h for h in hosts if fabric_route.broken_link(estate, h.ref, on, protocol) is not None)
    unprepared = (h for h in hosts if not estate[h.ref].get(OPTION_FACT) or _is_closed(estate[h.ref]))
    faulty = {*broken, *unprepared}
    return tuple(h for h in hosts if h in faulty)


@once
def _is_closed(host: Facts) -> bool:
    """Return whether the firewall of a host is closed for PVRDMA; False where nothing of that was read."""
    rulesets = {r["key"]: r["enabled"] for r in host.get("config.firewall.ruleset", ())}
    return not ({OPTION_FACT, "config.firewall.ruleset"}.isdisjoint(host.properties) or rulesets.get(RULESET))


def adapter_problems(target: Target, view: View, wanted: Iterable[tuple[str, str | None]]) -> Iterator[Problem]:
    """Check new or changed PVRDMA adapters, each a reference of its port group and a protocol."""
    asked = dict.fromkeys(wanted)
    if asked:
        yield from version_problems(target, view, {protocol for _, protocol in asked if protocol})
    for ref, protocol in asked:
        group = view.estate.get(ref)
        if group is not None:
            yield from host_problems(target, view, group, protocol)
