"""RDMA devices of hosts as text and as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from vsphere_ai.fabric.devices import RdmaDevice
from vsphere_ai.model.plain import PlainObject
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import counted, safe

Found = Sequence[tuple[Target, tuple[RdmaDevice, ...] | None]]
_INDENT = " " * 11


def devices_text(found: Found) -> str:
    """Return the devices of each host, and at the end how many there are."""
    lines: list[str] = []
    for host, devices in found:
        lines.append(safe(host.name))
        if devices is None:
            lines.append("  its network cannot be read")
        elif not devices:
            lines.append("  no RDMA device")
        for device in devices or ():
            lines += _device(device)
    every = [d for _, devices in found for d in devices or ()]
    active = sum(d.state.startswith("active") for d in every)
    lines += ["", f"{counted(len(every), 'RDMA device')} on {counted(len(found), 'host')}, {active} active"]
    return "\n".join(lines)


def devices_document(found: Found) -> list[PlainObject]:
    """Return the same as plain values; `devices` is null where the network of a host cannot be read."""
    return [
        {"host": host.name, "devices": None if devices is None else [_plain(d) for d in devices]}
        for host, devices in found
    ]


def _plain(device: RdmaDevice) -> PlainObject:
    known = {k: v for k, v in asdict(device).items() if k != "host"}
    return {**known, "protocols": list(device.protocols)}


def _device(device: RdmaDevice) -> Iterator[str]:
    speed = f"{device.speed / 1000:g} Gbit/s" if device.speed else "no link"
    spoken = ", ".join({"rocev1": "RoCE v1", "rocev2": "RoCE v2", "iwarp": "iWARP"}[p] for p in device.protocols)
    mtu = f"RDMA MTU {device.mtu}" if device.mtu else "RDMA MTU ?"
    facts = (speed, device.state or "state ?", spoken or "no protocol", mtu)
    yield safe(f"  {device.name:<8} {device.nic or 'NIC ?'} ({device.pci or 'address ?'}), {', '.join(facts)}")
    place = f"{device.uplink} of {device.switch}" if device.switch else "on no distributed switch"
    yield safe(f"{_INDENT}{place}{f'; {device.description}' if device.description else ''}")
    version = f" {device.driver_version}" if device.driver_version else ""
    firmware = f"firmware {device.firmware}" if device.firmware else f"firmware not known: {device.firmware_unknown}"
    yield safe(f"{_INDENT}driver {device.driver or '?'} on {device.nic_driver or '?'}{version}, {firmware}")
