"""Rules about RDMA: the host's devices, uplinks and PVRDMA adapter, and the way from a VM's port groups to the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.compat.base import RuleCase, host_rule, vm_rule, why_absent
from vsphere_ai.compat.devices import wanted_adapters
from vsphere_ai.fabric import dvs, networks, vmk
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.api_types import Vnic
from vsphere_ai.fabric.corrections import HostForPvrdma, KernelAdapter, SwitchMtu, UplinkNics
from vsphere_ai.fabric.host import RULESET
from vsphere_ai.fabric.links import Link
from vsphere_ai.fabric.path import path_links
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.names.versions import dotted, numbers
from vsphere_ai.resources.corrections import text_of
from vsphere_ai.resources.topics import Topic

MINIMUM_SWITCH = (6, 5, 0)
OPTION = vmk.OPTION_FACT
NONE_NAMED = "no VMkernel adapter is named for PVRDMA"
FIREWALL = "config.firewall.ruleset"
DEVICES, NICS, SWITCHES = fabric_route.HOST_PATHS


@host_rule(
    "host.rdma-device",
    "RoCE device active",
    source="vSphere Networking 7.0, Remote Direct Memory Access for Virtual Machines",
    verdicts={"pass": "an active device speaks RoCE", "warn": "no device speaks RoCE, or none of them is active"},
    reads=(DEVICES,),
    about=Topic.PVRDMA | Topic.PVRDMA_HOST,
)
def host_rdma_device(case: RuleCase) -> Finding:
    """Without an active RoCE device PVRDMA still works, over TCP and slowly; a functional test does not show it."""
    devices = case.need(DEVICES)
    roce = {str(d["device"]): fabric_route.state_of(d) for d in devices if fabric_route.protocols(d)}
    seen = [(f"{DEVICES}[{name}].connectionInfo.state", state) for name, state in roce.items()]
    active = [name for name, state in roce.items() if state in fabric_route.STATES_UP]
    if active:
        return case.passed(f"RoCE is active on {', '.join(active)}", *seen)
    if roce:
        return case.warned(
            f"no RoCE device is active ({', '.join(roce)}): PVRDMA would fall back to TCP",
            *seen,
            help="check the cable, the switch port and the physical adapter",
        )
    none = (DEVICES, f"{len(devices)} devices, none with RoCE")
    return case.warned("no RDMA device speaks RoCE: PVRDMA would fall back to TCP", none)


@host_rule(
    "host.pvrdma-vmknic",
    "VMkernel adapter for PVRDMA",
    source="vSphere Networking 7.0, Assign a VMkernel Adapter for PVRDMA",
    verdicts={
        "pass": "one is named, now or by this plan; where an RDMA NIC is on a switch, it is on such a switch",
        "warn": "none is named, or one that the host does not have, or one on another switch",
    },
    reads=(OPTION, vmk.VNICS, DEVICES, SWITCHES),
    about=Topic.PVRDMA,
)
def host_pvrdma_vmknic(case: RuleCase) -> Finding:
    """PVRDMA uses one VMkernel adapter of the host, named by the advanced option `Net.PVRDMAVmknic`.

    It should be on the distributed switch of the RDMA NIC.
    """
    given = case.planned(OPTION)
    planned = given.value if given else None
    name = planned or case.need(OPTION)
    facts = case.facts
    vnics = {v["device"]: v for v in facts.get(vmk.VNICS) or ()}
    missing = name and name not in vnics and vmk.VNICS in facts.properties and not planned
    seen = given.evidence if given and planned else (OPTION, name or "empty")
    if is_deferred(name):
        seen = (OPTION, "the adapter that this plan makes")
    astray = _astray(case, name, vnics[name]) if name in vnics else ""
    if astray:
        play = f"{text_of(KernelAdapter(case.own, 'PORT_GROUP', for_pvrdma=True))} in a play for this host"
        on = ", ".join(dvs.with_rdma(facts).values())
        return case.warned(astray, seen, help=f"let it be an adapter on {on}: {play}")
    if planned:
        return case.passed(f"this plan names {planned}", seen)
    if is_deferred(name):
        return case.passed("this plan makes the adapter PVRDMA uses", seen)
    if name and not missing:
        return case.passed(f"PVRDMA uses {name}", seen)
    what = f"{name} is named for PVRDMA, and there is no such VMkernel adapter" if missing else NONE_NAMED
    return case.warned(what, seen, help=case.play(HostForPvrdma(case.own, adapter="vmkN")))


def _astray(case: RuleCase, name: str, vnic: Vnic) -> str:
    """Say where the adapter is, when that is no switch with an RDMA NIC and there is such a one."""
    facts = case.facts
    able = dvs.with_rdma(facts)
    uuid = vmk.switch_uuid(vnic)
    if not able or uuid in able or not vmk.shows_network(vnic):
        return ""
    mtu = (vnic.get("spec") or {}).get("mtu")
    place = dvs.proxies(facts).get(uuid, {}).get("dvsName", "another switch")
    said = "the adapter this plan makes" if is_deferred(name) else name
    where = f"on {place}{f' with MTU {mtu}' if mtu else ''}: the RDMA NIC is on {', '.join(able.values())}"
    return f"PVRDMA uses {said}, which is {where}"


@host_rule(
    "host.pvrdma-firewall",
    "Firewall open for PVRDMA",
    source="vSphere Networking 7.0, Enable the Firewall Rule for PVRDMA",
    verdicts={"pass": "open, now or by this plan", "warn": "closed, or there is no such ruleset"},
    reads=(FIREWALL,),
    about=Topic.PVRDMA,
)
def host_pvrdma_firewall(case: RuleCase) -> Finding:
    """PVRDMA of two hosts talks over a port that the host firewall opens with the ruleset `pvrdma`."""
    rulesets = {r["key"]: r["enabled"] for r in case.need(FIREWALL)}
    seen = (f"{FIREWALL}[{RULESET}].enabled", rulesets.get(RULESET, "no such ruleset"))
    if rulesets.get(RULESET):
        return case.passed(f"firewall ruleset {RULESET} is open", seen)
    help = case.play(HostForPvrdma(case.own))
    return case.warned(f"the firewall is closed for PVRDMA (ruleset {RULESET})", seen, help=help)


@host_rule(
    "host.rdma-uplinks",
    "RDMA NIC alone on its switch",
    source="vSphere Networking 7.0, PVRDMA Support",
    verdicts={
        "pass": "every switch with an RDMA NIC has no other NIC of the host",
        "warn": "a switch has an RDMA NIC and another one",
    },
    reads=(DEVICES, NICS, SWITCHES),
    about=Topic.PVRDMA,
)
def host_rdma_uplinks(case: RuleCase) -> Finding | None:
    """PVRDMA does not team: the RDMA NIC has to be the only uplink of its distributed switch on a host."""
    rdma = set(map(fabric_route.uplink_key, case.need(DEVICES)))
    names = {n["key"]: str(n["device"]) for n in case.need(NICS)}
    mixed = [p for p in case.facts.get(SWITCHES, ()) if rdma & set(p.get("pnic", ()))]
    found = {_name(p): [names.get(k, k) for k in p.get("pnic", ())] for p in mixed}
    seen = [(f"{SWITCHES}[{name}].pnic", ", ".join(nics)) for name, nics in found.items()]
    shared = [p for p in mixed if len(p["pnic"]) > 1]
    if shared:
        every = ((_name(p), uplink, nic) for p in shared for uplink, nic in dvs.nics(p).items())
        only = {names.get(k) for k in rdma}
        keep = [UplinkNics(case.own, name, {uplink: nic}) for name, uplink, nic in every if nic in only]
        message = f"{', '.join(map(_name, shared))} has other NICs beside the RDMA NIC: no RDMA over it"
        help = f"name the only uplink in a play for this host: {text_of(*keep)}"
        return case.warned(message, *seen, help=help)
    if not found:
        return None  # an RDMA NIC on no switch has nothing to be wrong here
    return case.passed(f"the RDMA NIC is the only uplink of {', '.join(found)}", *seen)


@host_rule(
    "host.pvrdma-mtu",
    "MTU of the PVRDMA adapter",
    source="vSphere Networking 7.0, Assign a VMkernel Adapter for PVRDMA; that they have to be equal is unverified",
    verdicts={"pass": "adapter and switch have the same MTU, now or by this plan", "warn": "they differ"},
    reads=(OPTION, vmk.VNICS),
    about=Topic.PVRDMA,
)
def host_pvrdma_mtu(case: RuleCase) -> Finding | None:
    """The VMkernel adapter for PVRDMA needs the MTU of its switch: longer frames are lost on the way."""
    name, vnics = case.need(OPTION), case.need(vmk.VNICS)
    vnic = next((v for v in vnics if v["device"] == name), None)
    spec = (vnic or {}).get("spec") or {}
    uuid = vmk.switch_uuid(vnic) if vnic else ""
    switch = dvs.with_uuid(case.view.estate, (uuid,))
    size = switch.get("config.maxMtu") if switch else None
    able = dvs.with_rdma(case.facts)
    if switch is None or not size or not spec.get("mtu") or (able and uuid not in able):
        return None  # no adapter, or one that is not on a switch with an RDMA NIC: other rules say so
    said = "the adapter this plan makes" if is_deferred(name) else name
    seen = ((f"{vmk.VNICS}[{said}].spec.mtu", spec["mtu"]), (f"{switch.name}: config.maxMtu", size))
    if spec["mtu"] != size:
        raised = max(spec["mtu"], size)
        if size < raised:
            where = f"{text_of(SwitchMtu(case.own, switch.name, raised))} in a play for the datacenter"
        else:
            where = f"{text_of(KernelAdapter(case.own, 'PORT_GROUP', raised))} in a play for this host"
        return case.warned(f"{said} has MTU {spec['mtu']}, {switch.name} has {size}", *seen, help=f"write {where}")
    return case.passed(f"{said} and {switch.name} have MTU {size}", *seen)


@vm_rule(
    "dvs.version",
    "Distributed switch 6.5 or later",
    source="vSphere Networking 7.0, PVRDMA Support",
    verdicts={
        "pass": "6.5.0 or later",
        "fail": "earlier",
        "unknown": "the port group, its switch or the switch's version cannot be read",
    },
    reads=("config.hardware.device",),
    also_reads={
        dvs.PORT_GROUP: ("name", "config.distributedVirtualSwitch"),
        **dict.fromkeys(dvs.SWITCHES, ("name", "config.productInfo.version")),
    },
    about=Topic.PVRDMA,
)
def dvs_version(case: RuleCase) -> Iterator[Finding]:
    """PVRDMA needs a distributed switch of version 6.5 or later behind its port group."""
    switches: dict[str, None] = {}
    for name in dict.fromkeys(name for name, _ in wanted_adapters(case)):
        group = _port_group(case, name)
        switch = group.get("config.distributedVirtualSwitch") if group else None
        if switch is None:
            reason = why_absent(group, "config.distributedVirtualSwitch")
            yield case.unknown(f"the switch of port group {name} cannot be read: {reason}")
        else:
            switches[switch] = None
    for switch in switches:
        yield _of(case, switch)


def _of(case: RuleCase, ref: str) -> Finding:
    facts = case.view.estate.get(ref)
    text = facts.get("config.productInfo.version") if facts else None
    version = numbers(text)
    if facts is None or version is None:
        why = why_absent(facts, "config.productInfo.version") if text is None else f"it states {text!r}"
        return case.unknown(f"the version of switch {facts.name if facts else ref} is not known: {why}")
    seen = (f"{facts.name}: config.productInfo.version", text)
    if version < MINIMUM_SWITCH:
        help = "upgrade the distributed switch"
        return case.failed(f"{facts.name} has version {text}, PVRDMA needs {dotted(MINIMUM_SWITCH)}", seen, help=help)
    return case.passed(f"{facts.name} has version {text}", seen)


@vm_rule(
    "vm.rdma-path",
    "Way from the VM to an RDMA device",
    source="vSphere Networking 7.0, Remote Direct Memory Access for Virtual Machines; PVRDMA Support",
    verdicts={
        "pass": "every link holds, for every adapter, now or after this plan",
        "warn": "a link is broken: the VM's RDMA traffic with other hosts goes over TCP",
        "unknown": "the VM's host, its network or the port group cannot be read",
    },
    reads=("config.hardware.device",),
    also_reads={
        "HostSystem": fabric_route.HOST_PATHS,
        dvs.PORT_GROUP: ("name", *fabric_route.PORT_GROUP_PATHS),
        **dict.fromkeys(dvs.SWITCHES, ("name", *fabric_route.SWITCH_PATHS)),
    },
    about=Topic.PVRDMA,
)
def vm_rdma_path(case: RuleCase) -> Finding | None:
    """Where the way from a PVRDMA adapter to an RDMA device is broken, PVRDMA falls back to TCP without a warning.

    The way is followed link by link on the host the VM is on; `vsphere-ai rdma trace` shows all of it.
    """
    adapters = tuple(dict.fromkeys(wanted_adapters(case)))
    host = case.view.estate.host_of(case.ref)
    if not adapters:
        return None
    if host is None:
        return case.unknown("the VM has no host, or it may not be read")
    ways: list[tuple[str, Link]] = []
    for name, protocol in adapters:
        group = _port_group(case, name)
        links, _ = path_links(case.view.estate, host, group, protocol)
        ways += [(networks.label(case.view.estate, group) if group else name, link) for link in links]
    faults = [(way, link) for way, link in ways if link.verdict == "fail"]
    hidden = [f"{way}: {link.name}: {link.seen}" for way, link in ways if link.verdict == "unknown"]
    seen = [(f"{way} on {host.name}: {link.name}", link.seen) for way, link in faults or ways[-1:]]
    if faults:
        said = "; ".join(f"{way}: broken at {link.name} ({link.seen})" for way, link in faults)
        help = f"vsphere-ai rdma trace {shell_word(case.facts.name)} shows the fix"
        return case.warned(f"TCP instead of RoCE from {host.name}: {said}", *seen, help=help)
    if hidden:
        return case.unknown("; ".join(hidden))
    over = ", ".join(dict.fromkeys(way for way, _ in ways))
    return case.passed(f"RDMA over {over} on {host.name}", *seen)


def _port_group(case: RuleCase, name: str) -> Facts | None:
    """Find a port group by its key, which is its object id, or by the name that means it for the VM."""
    estate = case.view.estate
    return estate.get(f"{dvs.PORT_GROUP}:{name}") or networks.for_vm(estate, case.ref, name).network


def _name(proxy: Mapping[str, object]) -> str:
    return str(proxy.get("dvsName", proxy["dvsUuid"]))
