"""Settings of physical NICs that esxcli reads and writes: global pause, rings, interrupt coalescing, DCB.

Source: Broadcom KB 324551 (flow control); ESXCLI reference, "esxcli network nic". That `ring` answers with the lines
``RX`` and ``TX``, and how a NIC that cannot says so, is from outputs that users published.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from vsphere_ai.model.facts import CommandOutput, Facts
from vsphere_ai.model.state import Settings, setting
from vsphere_ai.model.steps import Probe

NIC = ("esxcli", "network", "nic")
PAUSE = Probe("pause-params", (*NIC, "pauseParams", "list"))
COALESCE = Probe("coalesce", (*NIC, "coalesce", "get"))
RINGS = Probe("rings", (*NIC, "ring", "current", "get", "-n"), each_rdma_nic=True)
MOST = Probe("rings-preset", (*NIC, "ring", "preset", "get", "-n"), each_rdma_nic=True)
DCB = Probe("dcb", (*NIC, "dcb", "status", "get", "-n"), each_rdma_nic=True)
Entries = Annotated[int, Field(ge=1, le=65536)]
Microseconds = Annotated[int, Field(ge=0, le=65535)]


class Pause(Settings):
    """Global pause of a NIC: whether it obeys pause frames, and whether it sends them."""

    rx: bool | None = setting("Obey pause frames that are received.")
    tx: bool | None = setting("Send pause frames.")

    def __str__(self) -> str:
        words = {True: "on", False: "off", None: "?"}
        return f"rx {words[self.rx]}, tx {words[self.tx]}"


class Rings(Settings):
    """Entries of the rings a NIC has for frames that it received and that it is to send."""

    rx: Entries | None = setting("Entries of the receive ring.")
    tx: Entries | None = setting("Entries of the transmit ring.")

    def __str__(self) -> str:
        return ", ".join(f"{n} {v}" for n, v in (("rx", self.rx), ("tx", self.tx)) if v is not None)


class Coalesce(Settings):
    """How long a NIC waits, and for how many frames, before it interrupts."""

    rx_usecs: Microseconds | None = setting("Microseconds after a received frame.")
    tx_usecs: Microseconds | None = setting("Microseconds after a sent frame.")
    rx_frames: Microseconds | None = setting("Frames received before it interrupts at once.")
    tx_frames: Microseconds | None = setting("Frames sent before it interrupts at once.")
    adaptive_rx: bool | None = setting("The driver adapts the wait to what is received.")
    adaptive_tx: bool | None = setting("The driver adapts the wait to what is sent.")

    def __str__(self) -> str:
        said = ((n.replace("_", " "), getattr(self, n)) for n in type(self).model_fields)
        words = {True: "on", False: "off"}
        return ", ".join(f"{n} {words[v] if isinstance(v, bool) else v}" for n, v in said if v is not None)


COALESCE_WORDS = {
    "rx_usecs": ("RX microseconds", "--rx-usecs"),
    "tx_usecs": ("TX microseconds", "--tx-usecs"),
    "rx_frames": ("RX maximum frames", "--rx-max-frames"),
    "tx_frames": ("TX Maximum frames", "--tx-max-frames"),
    "adaptive_rx": ("Adaptive RX", "--adaptive-rx"),
    "adaptive_tx": ("Adaptive TX", "--adaptive-tx"),
}
"""Field of `Coalesce` -> the column in which esxcli shows it, and the option that sets it."""


@dataclass(frozen=True)
class Dcb:
    """What a NIC says of Data Center Bridging: whether it is on, and the priorities with flow control (PFC)."""

    enabled: bool
    priorities: tuple[int, ...]

    def __str__(self) -> str:
        said = f"PFC on priority {', '.join(map(str, self.priorities))}" if self.priorities else "no PFC"
        return f"DCB {'on' if self.enabled else 'off'}, {said}"


def pauses(facts: Facts) -> dict[str, Pause]:
    """Return the global pause of each NIC that has it and was asked."""
    return pauses_in(output_of(facts, PAUSE.name))


def pauses_in(listing: str) -> dict[str, Pause]:
    """Read ``esxcli network nic pauseParams list``; NICs that do not support it are left out."""
    return {
        row["NIC"]: Pause.model_construct(rx=row.get("Pause RX") == "true", tx=row.get("Pause TX") == "true")
        for row in _rows(listing)
        if row.get("Pause Params Supported") == "true"
    }


def coalescing_in(listing: str) -> dict[str, Coalesce]:
    """Read ``esxcli network nic coalesce get``; NICs without values (``N/A``) are left out."""
    found: dict[str, Coalesce] = {}
    for row in _rows(listing):
        values: dict[str, Any] = {n: _value(row.get(c, "")) for n, (c, _) in COALESCE_WORDS.items()}
        if any(v is not None for v in values.values()):
            found[row["NIC"]] = Coalesce.model_construct(**values)
    return found


def _value(cell: str) -> bool | int | None:
    return int(cell) if cell.isdecimal() else {"on": True, "off": False}.get(cell.lower())


def rings(facts: Facts, nic: str, probe: Probe = RINGS) -> Rings | None:
    """Return the ring entries of a NIC, or with `MOST` the largest it can have; None when they cannot be read."""
    values = block(output_of(facts, f"{probe.name}:{nic}"))
    sizes = {way: values.get(way.upper(), values.get(f"Max {way.upper()}", "")) for way in ("rx", "tx")}
    if not all(size.isdecimal() for size in sizes.values()):
        return None
    return Rings.model_construct(rx=int(sizes["rx"]), tx=int(sizes["tx"]))


def dcb(facts: Facts, nic: str) -> Dcb | None:
    """Return the DCB state of a NIC; None when it cannot be read."""
    values = block(output_of(facts, f"{DCB.name}:{nic}"))
    if "Enabled" not in values:
        return None
    on = values.get("PFC Enabled", "").lower() == "true"
    bits = values.get("PFC Configuration", "").split() if on else []
    return Dcb(values["Enabled"].lower() == "true", tuple(n for n, bit in enumerate(bits) if bit == "1"))


def output_of(facts: Facts, probe: str) -> str:
    """Return the output of a command; empty when it failed or did not run."""
    output = facts.probes.get(probe)
    return output.stdout if isinstance(output, CommandOutput) and output.status == 0 else ""


def _rows(listing: str) -> list[dict[str, str]]:
    """Read a table of esxcli whose cells have no blanks."""
    lines = [line for line in listing.splitlines() if line.strip()]
    ruler = next((i for i, line in enumerate(lines) if set(line.strip()) <= {"-", " "}), 0)
    titles = re.split(r"\s{2,}", lines[ruler - 1].strip()) if ruler else []
    rows = [dict(zip(titles, line.split(), strict=False)) for line in lines[ruler + 1 :]] if ruler else []
    return [row for row in rows if row.get("NIC")]  # a row without a NIC belongs to none


def block(text: str) -> Mapping[str, str]:
    """Read ``Label: value`` lines; of labels that come again, deeper down, the first one counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        label, colon, value = line.strip().partition(":")
        if colon:
            found.setdefault(label, value.strip())
    return found
