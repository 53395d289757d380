"""Follows a VM's PVRDMA adapters link by link to the wire, and says what each broken link takes in a playbook.

Source: vSphere Networking 7.0, "PVRDMA Support".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vsphere_ai import fabric
from vsphere_ai.fabric.hops import VM_PART, Hop, Mend, Verdict, why
from vsphere_ai.fabric.host import host_hops, mtu_hop
from vsphere_ai.fabric.path import PATH_RULE, path_hops
from vsphere_ai.facts import Estate, Facts
from vsphere_ai.state import Target

DEVICE = "VirtualVmxnet3Vrdma"
MINIMUM_VERSION, NAMESPACES, ENDPOINTS = 13, 17, 18  # hardware versions
SUGGESTED_VERSION = 19  # ESXi 7.0 U2


@dataclass(frozen=True)
class Trace:
    """One adapter of a VM, followed on the host the VM is on. `switch` is the switch's uuid, `rdma_mtu` in bytes."""

    vm: Target
    host: Target | None
    adapter: str
    port_group: str
    hops: tuple[Hop, ...]
    switch: str = ""
    protocol: str = ""
    rdma_mtu: int | None = None
    version: int | None = None

    def having(self, verdict: Verdict) -> tuple[Hop, ...]:
        """Return the hops with a verdict."""
        return tuple(h for h in self.hops if h.verdict == verdict)


def trace(estate: Estate, vm: Target) -> tuple[Trace, ...]:
    """Follow every PVRDMA adapter of a VM; a VM without one has a trace that says so."""
    facts, host = estate[vm.ref], estate.host_of(vm.ref)
    version = _number(facts.get("config.version"))
    devices = facts.get("config.hardware.device")
    if devices is None:
        hop = Hop("VM adapter", "unknown", f"its devices cannot be read: {why(facts, 'config.hardware.device')}",
                  VM_PART, PATH_RULE)  # fmt: skip
        return (Trace(vm, host, "", "", (hop,), version=version),)
    found = _rdma_cards(facts)
    if not found:
        return (Trace(vm, host, "", "", (_no_adapter(estate, vm, host),), version=version),)
    return tuple(_trace(estate, vm, device) for device in found)


def key_of(device: Mapping[str, Any]) -> str:
    """Return the key of the distributed port group an adapter is on; empty when it is on none."""
    port = (device.get("backing") or {}).get("port") or {}
    return str(port.get("portgroupKey", ""))


def _trace(estate: Estate, vm: Target, device: Mapping[str, Any]) -> Trace:
    facts, host = estate[vm.ref], estate.host_of(vm.ref)
    protocol, key = device.get("deviceProtocol") or None, key_of(device)
    group = estate.get(f"{fabric.PORT_GROUP}:{key}")
    single = sum(key_of(d) == key for d in _rdma_cards(facts)) == 1
    card = {"type": "pvrdma", "port_group": group.name} if group and single else None
    hops = [_adapter(vm, facts, device, card), *_of_vm(vm, facts)]
    route = None
    if host is None:
        hops.append(Hop("host", "unknown", "the VM has no host, or it may not be read", rule=PATH_RULE))
    else:
        route = path_hops(estate, host, group, protocol, hops)
        hops = [_with_protocol(h, vm, route, card) for h in hops]
        hops += host_hops(estate, host, group)
        hops.append(mtu_hop(estate, host, route))
    info = (route.device.get("connectionInfo") or {}) if route and route.device else {}
    switch = route.switch.get("uuid", "") if route and route.switch else ""
    name = group.name if group else key
    mtu = info.get("mtu")
    return Trace(vm, host, _label(device), name, tuple(hops), str(switch), protocol or "", mtu, _number(
        facts.get("config.version")))  # fmt: skip


def _with_protocol(hop: Hop, vm: Target, route: fabric.Route | None, card: Mapping[str, Any] | None) -> Hop:
    """Let the adapter speak what the device does, where that is what is broken."""
    able = fabric.protocols(route.device) if route and route.device else ()
    if hop.name != fabric.PROTOCOL_LINK or hop.verdict != "broken" or card is None or not able:
        return hop
    return replace(hop, mend=Mend(vm, "adapters", ({**card, "protocol": able[-1]},)), help="")


# -- the VM


def _no_adapter(estate: Estate, vm: Target, host: Target | None) -> Hop:
    groups = [g for g in estate.of_type(fabric.PORT_GROUP) if not g.get("config.uplink")]
    whole = [g.name for g in groups if host and fabric.broken(fabric.prove(estate, host.ref, g)) is None]
    mend = Mend(vm, "pvrdma", ({"port_group": whole[0]},)) if whole else None
    help = "" if whole else "no port group carries RDMA on its host; trace a VM that has an adapter"
    return Hop("VM adapter", "broken", "the VM has no PVRDMA adapter", VM_PART, PATH_RULE, help, mend)


def _rdma_cards(facts: Facts) -> list[Mapping[str, Any]]:
    return [d for d in facts.get("config.hardware.device", ()) if d.get("_typeName") == DEVICE]


def _adapter(vm: Target, facts: Facts, device: Mapping[str, Any], card: Mapping[str, Any] | None) -> Hop:
    """Look at the adapter itself; `card` is how a play names it, None where it is one of several."""
    protocol = {"rocev1": "RoCE v1", "rocev2": "RoCE v2"}.get(device.get("deviceProtocol") or "", "RoCE by default")
    connectable = device.get("connectable") or {}
    on = facts.get("runtime.powerState") == "poweredOn"
    cut = connectable.get("connected" if on else "startConnected") is False
    seen = f"{_label(device)}, PVRDMA, {protocol}"
    if cut:
        mend = Mend(vm, "adapters", ({**card, "connected": True},)) if card else None
        help = "" if mend else "connect the adapter"
        return Hop("VM adapter", "broken", f"{seen}, disconnected", VM_PART, PATH_RULE, help, mend)
    return Hop("VM adapter", "ok", seen, VM_PART)


def _of_vm(vm: Target, facts: Facts) -> Iterator[Hop]:
    version = _number(facts.get("config.version"))
    name, rule = "virtual hardware", "vm.hardware-version"
    mend = Mend(vm, "hardware", {"version": SUGGESTED_VERSION})
    if version is None:
        yield Hop(name, "unknown", f"{facts.get('config.version') or why(facts, 'config.version')}", VM_PART, rule)
    elif version < MINIMUM_VERSION:
        help = f"PVRDMA needs hardware version {MINIMUM_VERSION}; an upgrade cannot be undone"
        yield Hop(name, "broken", f"vmx-{version}", VM_PART, rule, help, mend)
    else:
        lacks = ["namespaces"] if version < NAMESPACES else []
        lacks += ["native endpoints"] if version < ENDPOINTS else []
        seen = f"vmx-{version}" + (f": no {' and no '.join(lacks)}" if lacks else "")
        yield Hop(name, "note" if lacks else "ok", seen, VM_PART, "vm.pvrdma-endpoints" if lacks else "")
    locked = facts.get("config.memoryReservationLockedToMax")
    if locked:
        yield Hop("guest memory", "ok", "all of it is reserved", VM_PART)
    else:
        yield Hop("guest memory", "broken", "not all of it is reserved", VM_PART, "vm.memory-reservation",
                  "PVRDMA needs all guest memory reserved", Mend(vm, "hardware", {"memory_reservation": "full"}),
                  )  # fmt: skip


def _label(device: Mapping[str, Any]) -> str:
    label = (device.get("deviceInfo") or {}).get("label")
    return str(label or f"device {device.get('key', '?')}")


def _number(version: str | None) -> int | None:
    digits = (version or "").removeprefix("vmx-")
    return int(digits) if digits.isdigit() else None
