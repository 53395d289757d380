"""RDMA devices of hosts: NIC, switch and uplink, speed, protocols, driver and firmware.

Source: vSphere Web Services API reference, HostRdmaDevice and PhysicalNic (driverVersion and firmwareVersion since
8.0.0.1); ESXCLI Reference 7.0, "esxcli network nic get".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vsphere_ai.fabric import dvs, nic_settings
from vsphere_ai.fabric.route import protocols
from vsphere_ai.model.facts import CommandOutput, Estate, Facts, ProbeFailure
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Probe
from vsphere_ai.security.redaction import untrusted

NIC_INFO = Probe("nic-info", (*nic_settings.NIC, "get", "-n"), each_rdma_nic=True)
FIRST_WITH_FIRMWARE = 8
"""First major release of ESXi that reports driver version and firmware of a NIC to vCenter."""


@dataclass(frozen=True)
class RdmaDevice:
    """One RDMA device. `speed` is in Mbit/s, `mtu` in bytes; a value that the host does not report is empty or None.

    `driver` drives RDMA, `nic_driver` the NIC. `driver_version` and `firmware` are those of the NIC: vSphere 8.0 and
    later report them, before that the host's shell; `firmware_unknown` is the reason why there is none.
    """

    host: Target
    name: str
    description: str
    nic: str
    pci: str
    switch: str
    uplink: str
    speed: int | None
    state: str
    protocols: tuple[str, ...]
    mtu: int | None
    driver: str
    nic_driver: str
    driver_version: str
    firmware: str
    firmware_unknown: str = ""


def needs_shell(host: Facts) -> bool:
    """Return whether the firmware of a host's NICs can be read over SSH only."""
    major = str((host.get("config.product") or {}).get("version", "")).partition(".")[0]
    return not major.isdecimal() or int(major) < FIRST_WITH_FIRMWARE


def rdma_devices(estate: Estate, hosts: Sequence[Target]) -> Iterator[tuple[Target, tuple[RdmaDevice, ...] | None]]:
    """Yield hosts with their RDMA devices, by name; None where the network of a host cannot be read."""
    for host in hosts:
        facts = estate[host.ref]
        known = facts.get("config.network.rdmaDevice")
        readable = known is not None or facts.get("config.network.pnic") is not None
        yield host, tuple(sorted(_devices(host, facts), key=lambda d: d.name)) if readable else None


def _devices(host: Target, facts: Facts) -> Iterator[RdmaDevice]:
    cards = {p.get("key"): p for p in facts.get("config.network.pnic", ())}
    proxies = dvs.proxies(facts).values()
    places = {nic: (p.get("dvsName", ""), uplink) for p in proxies for uplink, nic in dvs.nics(p).items()}
    for each in facts.get("config.network.rdmaDevice", ()):
        card = cards.get((each.get("backing") or {}).get("pairedUplink"), {})
        info = each.get("connectionInfo") or {}
        nic = card.get("device", "")
        switch, uplink = places.get(nic, ("", ""))
        shell = nic_settings.block(nic_settings.output_of(facts, f"{NIC_INFO.name}:{nic}"))
        firmware = card.get("firmwareVersion") or shell.get("Firmware Version", "")
        yield RdmaDevice(
            host=host,
            name=each["device"],
            description=each.get("description", ""),
            nic=nic,
            pci=card.get("pci", ""),
            switch=switch,
            uplink=uplink,
            speed=info.get("speedInMbps") or (card.get("linkSpeed") or {}).get("speedMb"),
            state=info.get("state", ""),
            protocols=(*protocols(each), *(("iwarp",) if (each.get("capability") or {}).get("iWarpCapable") else ())),
            mtu=info.get("mtu"),
            driver=each.get("driver", ""),
            nic_driver=card.get("driver", ""),
            driver_version=card.get("driverVersion") or shell.get("Version", ""),
            firmware=firmware,
            firmware_unknown="" if firmware else _why_unknown(facts, nic),
        )


def _why_unknown(host: Facts, nic: str) -> str:
    output = host.probes.get(f"{NIC_INFO.name}:{nic}")
    if not nic:
        return "its NIC is not known"
    if isinstance(output, ProbeFailure):
        return output.reason
    if isinstance(output, CommandOutput):
        words = " ".join(untrusted(output.stdout + output.stderr).split())
        return f"esxcli says {words!r}" if output.status else "esxcli does not report it"
    if not needs_shell(host):
        return "the host does not report it to vCenter"
    return "the host was not asked over SSH, which takes an ssh: section in the inventory"
