"""Rules about RDMA: the host's devices, uplinks and PVRDMA adapter, and the way from a VM's port groups to the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from vsphere_ai.compat.base import Case, Meanings, Paths, Rule, why_absent
from vsphere_ai.compat.devices import wanted_adapters
from vsphere_ai.fabric import dvs, vmk
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.api_types import Vnic
from vsphere_ai.fabric.host import RULESET
from vsphere_ai.fabric.links import Link
from vsphere_ai.fabric.path import path_links
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.versions import dotted, numbers

MINIMUM_SWITCH = (6, 5, 0)
OPTION = vmk.OPTION_FACT
NONE_NAMED = "no VMkernel adapter is named for PVRDMA"
FIREWALL = "config.firewall.ruleset"
DEVICES, NICS, SWITCHES = fabric_route.HOST_PATHS
PORT_GROUP = "DistributedVirtualPortgroup"
ACTIVE = ("active", "activeDefer")


class HostRdmaDevice(Rule):
    """Without an active RoCE device PVRDMA still works, over TCP and slowly; a functional test does not show it."""

    id = "host.rdma-device"
    title = "RoCE device active"
    target = "host"
    source = "vSphere Networking 7.0, Remote Direct Memory Access for Virtual Machines"
    verdicts: ClassVar[Meanings] = {
        "pass": "an active device speaks RoCE",
        "warn": "no device speaks RoCE, or none of them is active",
    }
    properties: ClassVar[Paths] = {"HostSystem": ("config.network.rdmaDevice",)}
    needed_by = frozenset({"pvrdma", "pvrdma_host"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look for a device that is active and speaks RoCE."""
        devices = case.need("config.network.rdmaDevice")
        roce = {str(d["device"]): _state(d) for d in devices if _speaks_roce(d)}
        seen = [(f"config.network.rdmaDevice[{name}].connectionInfo.state", state) for name, state in roce.items()]
        active = [name for name, state in roce.items() if state in ACTIVE]
        if active:
            yield case.passed(f"RoCE is active on {', '.join(active)}", *seen)
        elif roce:
            yield case.warned(f"no RoCE device is active ({', '.join(roce)}): PVRDMA would fall back to TCP", *seen,
                              help="check the cable, the switch port and the physical adapter")  # fmt: skip
        else:
            yield case.warned(
                "no RDMA device speaks RoCE: PVRDMA would fall back to TCP",
                ("config.network.rdmaDevice", f"{len(devices)} devices, none with RoCE"),
            )


class HostPvrdmaVmknic(Rule):
    """PVRDMA uses one VMkernel adapter of the host, named by the advanced option `Net.PVRDMAVmknic`.

    It should be on the distributed switch of the RDMA NIC.
    """

    id = "host.pvrdma-vmknic"
    title = "VMkernel adapter for PVRDMA"
    target = "host"
    source = "vSphere Networking 7.0, Assign a VMkernel Adapter for PVRDMA"
    verdicts: ClassVar[Meanings] = {
        "pass": "one is named, now or by this plan; where an RDMA NIC is on a switch, it is on such a switch",
        "warn": "none is named, or one that the host does not have, or one on another switch",
    }
    properties: ClassVar[Paths] = {"HostSystem": (OPTION, vmk.VNICS, DEVICES, SWITCHES)}
    needed_by = frozenset({"pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the plan, then at the option."""
        given = case.planned(OPTION)
        planned = given.value if given else None
        name = planned or case.need(OPTION)
        vnics = {v["device"]: v for v in case.view.facts(case.ref).get(vmk.VNICS) or ()}
        missing = name and name not in vnics and vmk.VNICS in case.view.facts(case.ref).properties and not planned
        seen = given.evidence if given and planned else (OPTION, name or "empty")
        if is_deferred(name):
            seen = ("plan.vmkernel", "pvrdma: true")
        astray = self._astray(case, name, vnics[name]) if name in vnics else ""
        if astray:
            groups = ", ".join(dvs.with_rdma(case.view.facts(case.ref)).values())
            yield case.warned(
                astray, seen,
                help=f"let it be an adapter on {groups}: vmkernel: {{PORT_GROUP: {{pvrdma: true}}}} in a play for this "
                "host",
            )  # fmt: skip
        elif planned:
            yield case.passed(f"this plan names {planned}", seen)
        elif is_deferred(name):
            yield case.passed("this plan makes the adapter PVRDMA uses", seen)
        elif name and not missing:
            yield case.passed(f"PVRDMA uses {name}", seen)
        else:
            what = f"{name} is named for PVRDMA, and there is no such VMkernel adapter" if missing else NONE_NAMED
            yield case.warned(what, seen, help=case.play("pvrdma_host: {vmknic: vmkN, firewall: true}"))

    def _astray(self, case: Case, name: str, vnic: Vnic) -> str:
        """Say where the adapter is, when that is no switch with an RDMA NIC and there is such a one."""
        facts = case.view.facts(case.ref)
        able = dvs.with_rdma(facts)
        uuid = vmk.switch_uuid(vnic)
        if not able or uuid in able or not vmk.shows_network(vnic):
            return ""
        mtu = (vnic.get("spec") or {}).get("mtu")
        place = dvs.proxies(facts).get(uuid, {}).get("dvsName", "another switch")
        said = "the adapter this plan makes" if is_deferred(name) else name
        return (f"PVRDMA uses {said}, which is on {place}{f' with MTU {mtu}' if mtu else ''}: the RDMA NIC is on "
                f"{', '.join(able.values())}")  # fmt: skip


class HostPvrdmaFirewall(Rule):
    """PVRDMA of two hosts talks over a port that the host firewall opens with the ruleset `pvrdma`."""

    id = "host.pvrdma-firewall"
    title = "Firewall open for PVRDMA"
    target = "host"
    source = "vSphere Networking 7.0, Enable the Firewall Rule for PVRDMA"
    verdicts: ClassVar[Meanings] = {"pass": "open, now or by this plan", "warn": "closed, or there is no such ruleset"}
    properties: ClassVar[Paths] = {"HostSystem": (FIREWALL,)}
    needed_by = frozenset({"pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the ruleset as it will be."""
        rulesets = {r["key"]: r["enabled"] for r in case.need(FIREWALL)}
        seen = (f"{FIREWALL}[{RULESET}].enabled", rulesets.get(RULESET, "no such ruleset"))
        if rulesets.get(RULESET):
            yield case.passed(f"firewall ruleset {RULESET} is open", seen)
        else:
            yield case.warned(f"the firewall is closed for PVRDMA (ruleset {RULESET})", seen,
                              help=case.play("pvrdma_host: {firewall: true}"))  # fmt: skip


class HostRdmaUplinks(Rule):
    """PVRDMA does not team: the RDMA NIC has to be the only uplink of its distributed switch on a host."""

    id = "host.rdma-uplinks"
    title = "RDMA NIC alone on its switch"
    target = "host"
    source = "vSphere Networking 7.0, PVRDMA Support"
    verdicts: ClassVar[Meanings] = {
        "pass": "every switch with an RDMA NIC has no other NIC of the host",
        "warn": "a switch has an RDMA NIC and another one",
    }
    properties: ClassVar[Paths] = {"HostSystem": (DEVICES, NICS, SWITCHES)}
    needed_by = frozenset({"pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at each switch an RDMA NIC serves; a host whose RDMA NIC serves none has nothing to be wrong here."""
        rdma = {(d.get("backing") or {}).get("pairedUplink") for d in case.need(DEVICES)}
        names = {n["key"]: str(n["device"]) for n in case.need(NICS)}
        mixed = [p for p in case.view.facts(case.ref).get(SWITCHES, ()) if rdma & set(p.get("pnic", ()))]
        found = {_name(p): [names.get(k, k) for k in p.get("pnic", ())] for p in mixed}
        seen = [(f"{SWITCHES}[{name}].pnic", ", ".join(nics)) for name, nics in found.items()]
        shared = [p for p in mixed if len(p["pnic"]) > 1]
        if shared:
            keep = ", ".join(f"{_name(p)}: {{{uplink}: {nic}}}" for p in shared for uplink, nic in dvs.nics(p).items()
                             if nic in {names.get(k) for k in rdma})  # fmt: skip
            yield case.warned(f"{', '.join(map(_name, shared))} has other NICs beside the RDMA NIC: no RDMA over it",
                              *seen, help=f"name the only uplink in a play for this host: uplinks: {{{keep}}}",
                              )  # fmt: skip
        elif found:
            yield case.passed(f"the RDMA NIC is the only uplink of {', '.join(found)}", *seen)


class HostPvrdmaMtu(Rule):
    """The VMkernel adapter for PVRDMA needs the MTU of its switch: longer frames are lost on the way."""

    id = "host.pvrdma-mtu"
    title = "MTU of the PVRDMA adapter"
    target = "host"
    source = "vSphere Networking 7.0, Assign a VMkernel Adapter for PVRDMA; that they have to be equal is unverified"
    verdicts: ClassVar[Meanings] = {
        "pass": "adapter and switch have the same MTU, now or by this plan",
        "warn": "they differ",
    }
    properties: ClassVar[Paths] = {"HostSystem": (OPTION, vmk.VNICS)}
    needed_by = frozenset({"pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Compare the adapter that is named with the distributed switch it is on."""
        name, vnics = case.need(OPTION), case.need(vmk.VNICS)
        vnic = next((v for v in vnics if v["device"] == name), None)
        spec = (vnic or {}).get("spec") or {}
        uuid = (spec.get("distributedVirtualPort") or {}).get("switchUuid")
        switch = next((s for s in case.view.estate.of_type(*dvs.SWITCHES) if s.get("uuid") == uuid), None)
        size = switch.get("config.maxMtu") if switch else None
        able = dvs.with_rdma(case.view.facts(case.ref))
        if switch is None or not size or not spec.get("mtu") or (able and uuid not in able):
            return  # no adapter, or one that is not on a switch with an RDMA NIC: other rules say so
        said = "the adapter this plan makes" if is_deferred(name) else name
        seen = ((f"{vmk.VNICS}[{said}].spec.mtu", spec["mtu"]), (f"{switch.name}: config.maxMtu", size))
        if spec["mtu"] != size:
            raised = max(spec["mtu"], size)
            where = f"switches: {{{switch.name}: {{mtu: {raised}}}}} in a play for the datacenter"
            where = where if size < raised else f"vmkernel: {{PORT_GROUP: {{mtu: {raised}}}}} in a play for this host"
            yield case.warned(f"{said} has MTU {spec['mtu']}, {switch.name} has {size}", *seen, help=f"write {where}")
        else:
            yield case.passed(f"{said} and {switch.name} have MTU {size}", *seen)


class DvsVersion(Rule):
    """PVRDMA needs a distributed switch of version 6.5 or later behind its port group."""

    id = "dvs.version"
    title = "Distributed switch 6.5 or later"
    target = "vm"
    source = "vSphere Networking 7.0, PVRDMA Support"
    verdicts: ClassVar[Meanings] = {
        "pass": "6.5.0 or later",
        "fail": "earlier",
        "unknown": "the port group, its switch or the switch's version cannot be read",
    }
    properties: ClassVar[Paths] = {
        "VirtualMachine": ("config.hardware.device",),
        PORT_GROUP: ("name", "config.distributedVirtualSwitch"),
        "VmwareDistributedVirtualSwitch": ("name", "config.productInfo.version"),
        "DistributedVirtualSwitch": ("name", "config.productInfo.version"),
    }
    needed_by = frozenset({"pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """One finding per switch; a port group that was not read is named."""
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
            yield self._of(case, switch)

    def _of(self, case: Case, ref: str) -> Finding:
        facts = case.view.estate.get(ref)
        text = facts.get("config.productInfo.version") if facts else None
        version = numbers(text)
        if facts is None or version is None:
            why = why_absent(facts, "config.productInfo.version") if text is None else f"it states {text!r}"
            return case.unknown(f"the version of switch {facts.name if facts else ref} is not known: {why}")
        seen = (f"{facts.name}: config.productInfo.version", text)
        if version < MINIMUM_SWITCH:
            return case.failed(f"{facts.name} has version {text}, PVRDMA needs {dotted(MINIMUM_SWITCH)}", seen,
                               help="upgrade the distributed switch")  # fmt: skip
        return case.passed(f"{facts.name} has version {text}", seen)


class VmRdmaPath(Rule):
    """Where the way from a PVRDMA adapter to an RDMA device is broken, PVRDMA falls back to TCP without a warning.

    The way is followed link by link on the host the VM is on; `vsphere-ai rdma trace` shows all of it.
    """

    id = "vm.rdma-path"
    title = "Way from the VM to an RDMA device"
    target = "vm"
    source = "vSphere Networking 7.0, Remote Direct Memory Access for Virtual Machines; PVRDMA Support"
    verdicts: ClassVar[Meanings] = {
        "pass": "every link holds, for every adapter, now or after this plan",
        "warn": "a link is broken: the VM's RDMA traffic with other hosts goes over TCP",
        "unknown": "the VM's host, its network or the port group cannot be read",
    }
    properties: ClassVar[Paths] = {
        "VirtualMachine": ("config.hardware.device",),
        "HostSystem": fabric_route.HOST_PATHS,
        PORT_GROUP: ("name", *fabric_route.PORT_GROUP_PATHS),
        **{switch: ("name", *fabric_route.SWITCH_PATHS) for switch in dvs.SWITCHES},
    }
    needed_by = frozenset({"pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Follow every adapter; all broken links are one finding."""
        adapters = tuple(dict.fromkeys(wanted_adapters(case)))
        host = case.view.estate.host_of(case.ref)
        if not adapters:
            return
        if host is None:
            yield case.unknown("the VM has no host, or it may not be read")
            return
        ways: list[tuple[str, Link]] = []
        for name, protocol in adapters:
            group, links = _port_group(case, name), list[Link]()
            path_links(case.view.estate, host, group, protocol, links)
            ways += [(group.name if group else name, link) for link in links]
        faults = [(way, link) for way, link in ways if link.verdict == "broken"]
        hidden = [f"{way}: {link.name}: {link.seen}" for way, link in ways if link.verdict == "unknown"]
        seen = [(f"{way} on {host.name}: {link.name}", link.seen) for way, link in faults or ways[-1:]]
        if faults:
            said = "; ".join(f"{way}: broken at {link.name} ({link.seen})" for way, link in faults)
            yield case.warned(f"TCP instead of RoCE from {host.name}: {said}", *seen,
                              help=f"vsphere-ai rdma trace {case.view.facts(case.ref).name} shows the fix",
                              )  # fmt: skip
        elif hidden:
            yield case.unknown("; ".join(hidden))
        else:
            over = ", ".join(dict.fromkeys(way for way, _ in ways))
            yield case.passed(f"RDMA over {over} on {host.name}", *seen)


def _port_group(case: Case, name: str) -> Facts | None:
    """Find a port group by its key, which is its object id, or by its name when only one has it."""
    found = case.view.estate.get(f"{PORT_GROUP}:{name}")
    named = [f for f in case.view.estate.of_type(PORT_GROUP) if f.name == name]
    return found or (named[0] if len(named) == 1 else None)


def _name(proxy: Mapping[str, object]) -> str:
    return str(proxy.get("dvsName", proxy["dvsUuid"]))


def _state(device: Mapping[str, Any]) -> str:
    return str((device.get("connectionInfo") or {}).get("state", "unknown"))


def _speaks_roce(device: Mapping[str, Any]) -> bool:
    capability = device.get("capability") or {}
    return bool(capability.get("roceV1Capable") or capability.get("roceV2Capable"))
