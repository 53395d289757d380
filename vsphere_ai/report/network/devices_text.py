"""RDMA devices of hosts as text and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.documents.network.devices import DevicesDocument, HostDevicesDocument, RdmaDeviceDocument
from vsphere_ai.fabric.devices import RdmaDevice
from vsphere_ai.model.facts import Estate
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


def devices_document(estate: Estate, found: Found) -> DevicesDocument:
    """Return the same as it is printed; `devices` is null where the network of a host cannot be read."""
    hosts = tuple(
        HostDevicesDocument(host=host.name, devices=None if devices is None else tuple(map(_document, devices)))
        for host, devices in found
    )
    return DevicesDocument(vcenter=estate.about, hosts=hosts)


def _document(device: RdmaDevice) -> RdmaDeviceDocument:
    return RdmaDeviceDocument(**{name: getattr(device, name) for name in RdmaDeviceDocument.model_fields})


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
