"""RDMA devices of a host, and the options of their driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from vsphere_ai.fabric.api_types import HostRdmaDevice, PhysicalNic
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Target
from vsphere_ai.resources._helpers import factories

problem = partial(factories.problem, "roce")

# Mellanox/NVIDIA "Native ESXi Driver User Manual", module parameters; vSphere Storage 7.0, "Configuring a RoCE network"
CORE, RDMA = "nmlx5_core", "nmlx5_rdma"
TRUST = {"1": "pcp", "2": "dscp"}
DEVICES, NICS = "config.network.rdmaDevice", "config.network.pnic"


def module_problems(target: Target, facts: Facts, said: object) -> Iterator[Problem]:
    """The options are those of one family of drivers, and reading them takes a right to change settings."""
    wants = {
        CORE: [n for n in ("pfc_priority", "trust", "ecn") if getattr(said, n) is not None],
        RDMA: [n for n in ("dscp", "pcp") if getattr(said, n) is not None],
    }
    drivers = {str(d.get("driver", "")) for d in rdma_devices(facts) or ()}
    if any(wants.values()) and RDMA not in drivers:
        message = f"the RDMA driver of this host is {', '.join(sorted(drivers))}; its options are not known here"
        remedy = f"only those of {RDMA} (NVIDIA ConnectX-4 and later) are; see the manual of the NIC"
        yield problem(target, "driver", message, remedy)
        return
    for module, names in wants.items():
        if names and f"query:{module}" not in facts.properties:
            why = facts.unreadable.get(f"query:{module}", "the host does not show them")
            remedy = "grant Host.Config.Settings on the host; is the driver installed?"
            yield problem(target, "options-unreadable", f"the options of {module} cannot be read: {why}", remedy)


def rdma_devices(facts: Facts) -> tuple[HostRdmaDevice, ...] | None:
    """Return the RDMA devices; vCenter may leave the property out where there are none."""
    found = facts.get(DEVICES, () if NICS in facts.properties and DEVICES not in facts.unreadable else None)
    return None if found is None else tuple(found)


def common_version(devices: Iterable[HostRdmaDevice]) -> str | None:
    """Return the RoCE version that all devices speak."""
    able = [d.get("capability") or {} for d in devices]
    one = bool(able) and all(a.get("roceV1Capable") for a in able)
    two = bool(able) and all(a.get("roceV2Capable") for a in able)
    return "both" if one and two else "rocev2" if two else "rocev1" if one else None


def described(device: HostRdmaDevice, facts: Facts) -> str:
    """Return a device in words."""
    link, can = device.get("connectionInfo") or {}, device.get("capability") or {}
    uplink = (device.get("backing") or {}).get("pairedUplink")
    nic: PhysicalNic = next((p for p in facts.get(NICS) or () if p.get("key") == uplink), PhysicalNic())
    protocols = [word for word, able in (("v1", can.get("roceV1Capable")), ("v2", can.get("roceV2Capable"))) if able]
    words = [
        str(nic.get("device", "no NIC")),
        " ".join(str(w) for w in (device.get("driver"), nic.get("driverVersion")) if w),
        f"firmware {nic['firmwareVersion']}" if nic.get("firmwareVersion") else "",
        str(link.get("state", "unknown")),
        f"{link.get('speedInMbps', 0) // 1000} Gbit/s",
        f"MTU {link.get('mtu')}",
        f"RoCE {' '.join(protocols) or 'none'}",
    ]
    return ", ".join(w for w in words if w)


def driver_of(facts: Facts, nic: str) -> str:
    """Return the driver of a NIC."""
    return next((str(p.get("driver")) for p in facts.get(NICS) or () if p["device"] == nic), "")


def number_in(text: str | None) -> int | None:
    """Return the number an option has; None when it is none."""
    try:
        return int(text or "0", 0)
    except ValueError:
        return None


def pfc_in(core: Mapping[str, str | None]) -> int | str:
    """Return the priority with PFC, `off`, or the options where it is neither."""
    sent, received = number_in(core.get("pfctx")), number_in(core.get("pfcrx"))
    if sent == received == 0:
        return "off"
    if sent == received and sent is not None and sent.bit_count() == 1:
        return sent.bit_length() - 1
    return f"pfctx={core.get('pfctx')} pfcrx={core.get('pfcrx')}"


def forced_in(text: str | None) -> int | str:
    """Return a forced mark, or `off`."""
    number = -1 if text is None else number_in(text)
    return "off" if number is None or number < 0 else number


def in_words(options: Mapping[str, str | None]) -> str:
    """Return options in words."""
    return ", ".join(name if value is None else f"{name}={value}" for name, value in options.items())
