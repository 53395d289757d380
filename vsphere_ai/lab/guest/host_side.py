"""Host side of defects: what the driver and the log of an ESXi host show of a GPU, and links that run too slowly."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.guest.defects import Defects
from vsphere_ai.lab.guest.load import HOT, is_throttled, speed
from vsphere_ai.lab.guest.logs import TEXTS, outages
from vsphere_ai.lab.guest.smi import THROTTLES
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost


def show(farm: Farm, defects: Defects) -> None:
    """Let every host of a farm show the defects that its side can see; those of before are gone."""
    for moid, host in farm.hosts.items():
        with host.lock:
            logged = _log(host, defects)
            host.rotated_log = [line for hours, line in logged if hours >= ROTATED]
            host.kernel_log = [line for hours, line in logged if hours < ROTATED]
            host.log_refused = defects.first("host-log", host=host.name) is not None
            host.event_log = [line for nic in host.pnics for line in _outages(host, nic.name, defects)]
            host.clock_wrong = sum(d.number("seconds", 3600) for d in defects.of("host-clock", host=host.name))
            for gpu in host.gpus:
                gpu.readings = _readings(host, gpu, defects)
            for nic in host.pnics:
                factor = defects.factor("uplink-slow", host=host.name, nic=nic.name)
                if factor != 1 or (host.name, nic.name) in defects.slowed:
                    nic.forced_mb = round(nic.speed_mb * factor) if factor != 1 else 0
                    defects.slowed.add((host.name, nic.name))
        farm.mark(farm.store.objects[moid])


def _readings(host: LabHost, gpu: LabGpu, defects: Defects) -> dict[str, str]:
    place = {"host": host.name, "gpu": gpu.pci}
    found: dict[str, str] = {}
    errors = sum(d.number("count", 3) for d in defects.of("ecc", **place))
    if errors:
        found["ecc.errors.uncorrected.volatile.total"] = f"{errors:.0f}"
    if defects.first("remap-pending", **place):
        found["remapped_rows.pending"] = "Yes"
    reasons = sum(THROTTLES.get(d.text("reason", "thermal"), 0x40) for d in defects.of("gpu-throttled", **place))
    if reasons:
        found["clocks_throttle_reasons.active"] = f"0x{reasons:016X}"
    if is_throttled(defects, place):
        found["temperature.gpu"] = str(HOT[0])
    if (fast := speed(defects, place)) != 1:
        found["clocks.sm"] = f"{round(1410 * fast)}"
    lanes = defects.factor("gpu-pcie", **place)
    if lanes != 1:
        found["pcie.link.width.current"] = f"{round(16 * lanes)}"
    return found


def _outages(host: LabHost, nic: str, defects: Defects) -> Iterator[str]:
    for down, up in outages(defects, "host", host=host.name, nic=nic):
        for when, state in ((down, "down"), (up, "up")):
            at = datetime.fromtimestamp(when, UTC)
            stamp = f"{at:%Y-%m-%dT%H:%M:%S}.464Z: [netCorrelator] {round(when)}us:"
            yield f"{stamp} [vob.net.vmnic.linkstate.{state}] vmnic {nic} linkstate {state}"


ROTATED = 1.0
"""Hours after which a line of the log is in a rotated file."""


def _log(host: LabHost, defects: Defects) -> list[tuple[float, str]]:
    """Return lines of the kernel's log, each with how many hours ago it was written."""
    lines = []
    for each in defects.every:
        if each.kind != "xid" or each.text("seen", "guest") == "guest" or "vm" in each.given:
            continue
        for gpu in host.gpus:
            if each.is_at(host=host.name, gpu=gpu.pci):
                number = round(each.number("number", 79))
                text = each.text("text") or TEXTS.get(number, "unknown")
                hours = each.number("hours", 1 / 3600)
                when = datetime.now(UTC) - timedelta(hours=hours)
                stamp = f"{when:%Y-%m-%dT%H:%M:%S}.123Z cpu12:2098765)"
                lines.append((hours, f"{stamp}NVRM: Xid (PCI:{gpu.pci.rpartition('.')[0]}): {number}, {text}"))
    return lines
