"""Kernel log of a guest or of an ESXi host: lines of NVIDIA's driver and of RDMA NICs as events.

Forms of the lines: leptonai/gpud, NVIDIA/NVSentinel, imbue-ai/cluster-health (as read from Linux guests). The form of
the same lines in the log of an ESXi host is unverified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from vsphere_ai.model.names.pci_address import read_pci

Kind = Literal["xid", "sxid", "off_the_bus", "init", "nic", "pcie"]
LONGEST_LINE = 4096
MOST_EVENTS = 10_000
XID = re.compile(r"NVRM:\s*Xid\s*\((?P<dev>[^)]*)\):\s*(?P<xid>\d+)\b[,:]?\s*(?P<text>.*)")
SXID = re.compile(r"SXid\s*\(PCI:(?P<dev>[^)]*)\):\s*(?P<sxid>\d+),\s*(?P<sev>Fatal|Non-fatal)[,:]?\s*(?P<text>.*)")
OFF_THE_BUS = re.compile(r"NVRM:\s*(?:The NVIDIA )?GPU\s*(?P<dev>(?:[0-9A-Fa-f]+:)?[0-9A-Fa-f]+:[0-9A-Fa-f.]+)")
FALLEN = "fallen off the bus"
INIT_FAILED = re.compile(r"NVRM:.*RmInitAdapter failed!?.*")
PORT = re.compile(
    r"pcieport (?P<dev>[0-9a-f:.]+): (?:AER: (?:Multiple )?(?P<kind>Uncorrect\w+ \((?:Non-)?Fatal\)|Correct\w+) error"
    r"|.*Slot\(\d+\): (?P<down>Link Down))"
)
"""Lines of PCIe ports (Linux, drivers/pci/pcie/aer.c and drivers/pci/hotplug/pciehp_ctrl.c)."""
PLACE = re.compile(r"\(?GPC\s*(?P<gpc>\d+),\s*TPC\s*(?P<tpc>\d+)")
LINK_WORD = re.compile(r"\((0x[0-9a-fA-F]+)")
BRACKETED = re.compile(r"^\[\s*(?P<text>[^\]]*)\]\s*")
ISO = re.compile(r"^(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<zone>Z|[+-]\d\d:?\d\d)?")
NIC_FATAL = (
    "Will cause a leak of a command resource",
    "Port module event[error]",
    "High temperature on sensors",
    "High temprature",
    "High temperature",
    "device's health compromised",
    "health recovery flow aborted",
    *("firmware internal error", "irisc not responding"),
    *("unrecoverable hardware error", "firmware CRC error"),
    *("ICM fetch PCI error", "HW fatal error", "async EQ buffer overrun", "EQ error", "Invalid EQ ref", "FFSER error"),
    "unrecognized error",
)
"""Texts of mlx5_core after which the NIC or its module has to be looked at, without case.

Source: torvalds/linux drivers/net/ethernet/mellanox/mlx5/core/{events,health}.c.
"""
NIC_WARNINGS = (
    *("Detected insufficient power on the PCIe slot", "Cable unplugged", "Cable disabled", "handling bad device here"),
    *("starting health recovery flow", "health recovery succeeded", "TX timeout", "RX timeout", "NETDEV WATCHDOG"),
)
"""Texts that precede one of the others, or name a link or a slot that gives less."""
NIC_NOISE = ("ACCESS_REG", "advertised sufficient power", "capability was not advertised", "Cable plugged")
"""Lines that reading of counters itself causes, and states that are as they should be."""
HARDWARE = re.compile(
    r"NVRM|nvidia|mlx5|bnxt|vmxnet3|pcieport|AER:|EDAC|mce:|Hardware Error|soft lockup|hung task|blocked for more than"
    r"|Call Trace|I/O error|Out of memory|nvlink|nvswitch",
    re.IGNORECASE,
)
"""What makes a line that is not familiar worth a warning."""
PCIE = "available PCIe bandwidth, limited by"


@dataclass(frozen=True)
class KernelEvent:
    """A line of the log that matters: when (None: the line has no date), which device, and what it says.

    `device` is a PCI address as vSphere writes it, without a function where the line has none: in a guest it is
    virtual. `place` is the part of the GPU (``GPC 0, TPC 1``) where the line names it. `fatal` is of SXids and NICs;
    that of an XID is in the table.
    """

    kind: Kind
    text: str
    device: str = ""
    number: int = 0
    time: datetime | None = None
    place: str = ""
    fatal: bool = False
    is_warning: bool = False
    """Of NICs: not fatal, and more than a note."""


def events(
    lines: Iterable[str], *, boot: datetime | None = None, since: datetime | None = None
) -> Iterator[KernelEvent]:
    """Yield the events of a log, at most `MOST_EVENTS`, later than `since` where the line has a time.

    `boot` turns seconds since boot (``[  12.5]``) into a time; without it such lines have none, and are all yielded.
    """
    count, waits = 0, False
    for line in lines:
        line = line[:LONGEST_LINE].rstrip()
        found = _event(line, waits)
        # at probe time the driver spreads the message over three lines, of which the last one names no device
        waits = "NVRM: The NVIDIA GPU" in line and FALLEN not in line
        if found is None:
            continue
        when = time_of(line, boot)
        if since and when and when < since:
            continue
        count += 1
        if count > MOST_EVENTS:
            return
        yield replace(found, time=when)


def nvlink_code(text: str) -> int | None:
    """Return the sub-code of an XID 144 to 150: bits 20 to 25 of the first word. The bits changed with driver R575."""
    found = LINK_WORD.search(text)
    return int(found[1], 16) >> 20 & 0x3F if found else None


def normal(line: str) -> str:
    """Return a line without what differs from boot to boot: times, addresses, numbers of processes and of devices."""
    text = BRACKETED.sub("", ISO.sub("", line)).strip()
    text = re.sub(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b", "PCI", text, flags=re.IGNORECASE)
    text = re.sub(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", "MAC", text, flags=re.IGNORECASE)
    text = re.sub(r"\b0x[0-9a-f]+\b|\b(?=\w*\d)[0-9a-f]{8,}\b", "HEX", text, flags=re.IGNORECASE)
    return re.sub(r"\d+", "N", text)


def unfamiliar(lines: Iterable[str], learned: frozenset[str]) -> Iterator[str]:
    """Yield lines whose normal form was not in the log of a healthy VM, each form once."""
    seen: set[str] = set()
    for line in lines:
        form = normal(line[:LONGEST_LINE])
        if form and form not in learned and form not in seen:
            seen.add(form)
            yield line


def _event(line: str, waits: bool) -> KernelEvent | None:
    if found := XID.search(line):
        place = PLACE.search(found["text"])
        where = f"GPC {place['gpc']}, TPC {place['tpc']}" if place else ""
        return KernelEvent("xid", found["text"].strip(), read_pci(found["dev"]), int(found["xid"]), place=where)
    if found := SXID.search(line):
        fatal = found["sev"] == "Fatal"
        return KernelEvent("sxid", found["text"].strip(), read_pci(found["dev"]), int(found["sxid"]), fatal=fatal)
    if FALLEN in line and ("NVRM" in line or waits):
        found = OFF_THE_BUS.search(line)
        return KernelEvent(
            "off_the_bus", line[line.find("NVRM") :], read_pci(found["dev"]) if found else "", 79, fatal=True
        )
    if found := INIT_FAILED.search(line):
        device = OFF_THE_BUS.search(line)
        return KernelEvent("init", found[0].strip(), read_pci(device["dev"].rstrip(":")) if device else "", fatal=True)
    if found := PORT.search(line):
        fatal = bool(found["down"]) or "(Fatal)" in found["kind"]
        what = found["down"] or f"AER, {found['kind']} error"
        return KernelEvent("pcie", f"PCIe port: {what}", read_pci(found["dev"]), fatal=fatal, is_warning=not fatal)
    if PCIE in line:
        return KernelEvent("pcie", line[line.find(PCIE) - 40 :].strip() if line.find(PCIE) > 40 else line)
    if "mlx5_core" in line and not any(noise in line for noise in NIC_NOISE):
        words = next((w for w in (*NIC_FATAL, *NIC_WARNINGS) if w.lower() in line.lower()), "")
        fatal = words in NIC_FATAL
        return KernelEvent("nic", words, _nic(line), fatal=fatal, is_warning=not fatal) if words else None
    return None


def _nic(line: str) -> str:
    found = re.search(r"mlx5_core\s+([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", line)
    return read_pci(found[1]) if found else ""


def time_of(line: str, boot: datetime | None = None) -> datetime | None:
    """Return the time of a line; `boot` turns seconds since boot into one. None where the line has none."""
    if found := ISO.match(line):
        zone = {"Z": "+00:00", None: "+00:00"}.get(found["zone"], found["zone"])
        try:
            return datetime.fromisoformat(found["time"].replace(",", ".").replace(" ", "T") + str(zone))
        except ValueError:
            return None
    bracket = BRACKETED.match(line)
    if bracket is None:
        return None
    try:
        if boot is not None:
            return boot + timedelta(seconds=float(bracket["text"]))
        return datetime.strptime(bracket["text"], "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return _dated(bracket["text"])


def _dated(text: str) -> datetime | None:
    """Return the time of ``dmesg -T``, which is in the guest's zone; guests of a set have UTC."""
    try:
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except ValueError:
        return None
