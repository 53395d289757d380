"""The RDMA devices of hosts: what they are, and where in the fabric they sit.

Source: vSphere Web Services API reference, HostRdmaDevice and PhysicalNic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vsphere_ai.fabric import dvs, protocols
from vsphere_ai.facts import Estate, Facts
from vsphere_ai.state import Target


@dataclass(frozen=True)
class RdmaDevice:
    """One RDMA device. `speed` is in Mbit/s, `mtu` in bytes; what a host does not tell is empty or None.

    `driver` drives RDMA, `nic_driver` the NIC below. `driver_version` and `firmware` are told by vSphere 8.0 and later.
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


def rdma_devices(estate: Estate, hosts: Sequence[Target]) -> Iterator[tuple[Target, tuple[RdmaDevice, ...] | None]]:
    """Yield hosts with their RDMA devices, by name; None where a host does not tell them."""
    for host in hosts:
        facts = estate[host.ref]
        known = facts.get("config.network.rdmaDevice")
        readable = known is not None or facts.get("config.network.pnic") is not None
        yield host, tuple(sorted(_devices(host, facts), key=lambda d: d.name)) if readable else None


def _devices(host: Target, facts: Facts) -> Iterator[RdmaDevice]:
    cards = {p.get("key"): p for p in facts.get("config.network.pnic", ())}
    seats = {nic: (p.get("dvsName", ""), uplink) for p in dvs.proxies(facts).values() for uplink, nic in
             dvs.nics(p).items()}  # fmt: skip
    for each in facts.get("config.network.rdmaDevice", ()):
        card = cards.get((each.get("backing") or {}).get("pairedUplink"), {})
        info = each.get("connectionInfo") or {}
        nic = card.get("device", "")
        switch, uplink = seats.get(nic, ("", ""))
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
            driver_version=card.get("driverVersion", ""),
            firmware=card.get("firmwareVersion", ""),
        )
