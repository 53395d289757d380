"""Rules about RDMA: the host's devices and PVRDMA adapter, and the distributed switch behind a VM's port groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from vsphere_ai.compat.base import Case, Finding, Meanings, Paths, Rule, why_absent
from vsphere_ai.compat.devices import wanted_adapters
from vsphere_ai.compat.releases import dotted, numbers
from vsphere_ai.facts import Facts

MINIMUM_SWITCH = (6, 5, 0)
OPTION = "option:Net.PVRDMAVmknic"
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
    """PVRDMA uses one VMkernel adapter of the host, named by the advanced option `Net.PVRDMAVmknic`."""

    id = "host.pvrdma-vmknic"
    title = "VMkernel adapter for PVRDMA"
    target = "host"
    source = "vSphere Networking 7.0, Assign a VMkernel Adapter for PVRDMA"
    verdicts: ClassVar[Meanings] = {"pass": "one is named, now or by this plan", "warn": "none is named"}
    properties: ClassVar[Paths] = {"HostSystem": (OPTION,)}
    needed_by = frozenset({"pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the plan, then at the option."""
        planned = case.planned("pvrdma_host", "vmknic")
        if planned:
            yield case.passed(f"this plan names {planned}", ("plan.pvrdma_host.vmknic", planned))
            return
        name = case.need(OPTION)
        if name:
            yield case.passed(f"PVRDMA uses {name}", (OPTION, name))
        else:
            yield case.warned(
                "no VMkernel adapter is named for PVRDMA", (OPTION, "empty"),
                help="add pvrdma_host: {vmknic: vmkN, firewall: true} to a play for this host",
            )  # fmt: skip


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


def _port_group(case: Case, name: str) -> Facts | None:
    """Find a port group by its key, which is its object id, or by its name when only one has it."""
    found = case.view.estate.get(f"{PORT_GROUP}:{name}")
    named = [f for f in case.view.estate.of_type(PORT_GROUP) if f.name == name]
    return found or (named[0] if len(named) == 1 else None)


def _state(device: Mapping[str, Any]) -> str:
    return str((device.get("connectionInfo") or {}).get("state", "unknown"))


def _speaks_roce(device: Mapping[str, Any]) -> bool:
    capability = device.get("capability") or {}
    return bool(capability.get("roceV1Capable") or capability.get("roceV2Capable"))
