"""Checks of a distributed switch: its version, its uplinks, and its MTU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric.dvs import PORT_GROUP
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import factories
from vsphere_ai.resources.switches.settings import DistributedSwitchSettings
from vsphere_ai.resources.vmkernel import VmkernelAdapters

problem = partial(factories.problem, "switches")


def version_problems(
    target: Target, estate: Estate, name: str, version: str | None, facts: Facts | None
) -> Iterator[Problem]:
    """Yield why a version cannot be had."""
    now = dvs.version(facts)
    if version is None or version == now:
        return
    if dvs.is_older(version, now):
        message = f"{name} has version {now}; a switch cannot go back to {version}"
        yield problem(target, "version", message, f"write version: {now}, or leave it out")
    if dvs.is_older(estate.about.version, version):
        message = f"{name}: vCenter {estate.about.version} does not make switches of version {version}"
        yield problem(target, "version", message, f"write version: {estate.about.version}, or upgrade vCenter")
    hosts = (estate.get(ref) for ref in dvs.members(facts)) if facts else ()
    old = [h for h in hosts if h is not None and dvs.is_older(dvs.host_version(h), version)]
    if old:
        names = ", ".join(f"{h.name} ({dvs.host_version(h)})" for h in sorted(old, key=lambda h: h.name))
        message = f"{name}: version {version} needs ESXi {version} or later on every member; too old: {names}"
        yield problem(target, "host-version", message, "upgrade these hosts first, or leave the version as it is")


def uplink_problems(
    target: Target, estate: Estate, facts: Facts, wanted: DistributedSwitchSettings
) -> Iterator[Problem]:
    """Yield uplinks that are in use and would go."""
    if facts.get("config.maxMtu") is None or not dvs.uplinks(facts):
        message = f"{facts.name}: its configuration cannot be read as that of a VMware distributed switch"
        remedy = "the account needs System.Read on it; switches of other vendors are not changed here"
        yield problem(target, "unreadable", message, remedy)
        return
    for gone in (u for u in dvs.uplinks(facts) if u not in (wanted.uplinks or ())):
        users = ", ".join(_users(estate, facts, gone))
        if users:
            message = f"{facts.name}: {gone} is in use and is neither removed nor renamed: {users}"
            remedy = f"keep {gone} in the list; free it first, in a playbook of its own"
            yield problem(target, "uplinks", message, remedy)


def mtu_problems(target: Target, view: View, facts: Facts, wanted: DistributedSwitchSettings) -> Iterator[Problem]:
    """A smaller MTU drops the frames of the VMkernel adapters that stay larger, without a word."""
    size = wanted.mtu or 0
    if size >= facts.get("config.maxMtu", 0):
        return
    larger = []
    for host, vnic, group in dvs.vnics(view.estate, facts.get("uuid", "")):
        adapter = ((view.said(VmkernelAdapters, host.ref) or VmkernelAdapters()).adapters or {}).get(group)
        mtu = (adapter.mtu if adapter else None) or vnic["spec"].get("mtu") or 0
        larger += [f"{host.name} {vnic['device']} ({mtu})"] if mtu > size else []
    if larger:
        message = f"{facts.name}: MTU {size} is below that of VMkernel adapters on it: {', '.join(larger)}"
        too = f"give them at most {size} too, with vmkernel: {{PORT_GROUP: {{mtu: {size}}}}} in the same playbook"
        yield problem(target, "mtu", message, f"keep mtu: {facts.get('config.maxMtu')}, or {too}")


def _users(estate: Estate, switch: Facts, uplink: str) -> Iterator[str]:
    """Say who uses an uplink; a host that gives the switch NICs and cannot be read may."""
    for ref, given in dvs.members(switch).items():
        host = estate.get(ref)
        proxy = dvs.proxies(host).get(switch.get("uuid", "")) if host else None
        if proxy is not None and uplink in dvs.nics(proxy):
            yield f"{dvs.nics(proxy)[uplink]} of {host.name if host else ref}"
        elif proxy is None and given:
            yield f"perhaps {host.name if host else ref}, which cannot be read"
    for group in estate.of_type(PORT_GROUP):
        config = group.get("config.defaultPortConfig")
        own = group.get("config.distributedVirtualSwitch") == switch.ref and dvs.is_stated(config)
        if own and any(uplink in names for names in dvs.order(config)):
            yield f"port group {group.name}"
