"""Parsers of nvidia-smi's listings: by structure, because columns move with every driver branch."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vsphere_ai.errors import HostUnhealthy
from vsphere_ai.gpu.catalog import Engines
from vsphere_ai.gpu.commands import FIELDS
from vsphere_ai.model.names.pci_address import normal_pci
from vsphere_ai.security.redaction import untrusted

# nvidia-smi ends with the NVML return code; 23 is missing in its manual page.
NVML_CODES = {
    2: "bad argument",
    3: "not supported",
    4: "no permission",
    6: "not found",
    9: "driver not loaded",
    12: "libnvidia-ml not found",
    15: "GPU lost",
    19: "in use",
    23: "insufficient resources",
    127: "command not found",
    255: "other error",
}

MODES = {"Enabled": True, "Disabled": False, "[N/A]": None, "N/A": None, "[Not Supported]": None}

_LOST = re.compile(r"\[?(?P<text>GPU is lost|GPU requires reset)\]?")
_FAILED = re.compile(r"\[?(?P<text>Unknown Error|ERR!)\]?")
_NO_VALUE = re.compile(
    r"\[?(?:Unknown Error|GPU is lost|GPU requires reset|Insufficient Permissions|Function Not Found)\]?|ERR!"
)
LOST_GPU = re.compile(
    r"Unable to determine the device handle for GPU ?(?:(?P<index>\d{1,3}): ?)?"
    r"(?P<bus>(?:[0-9A-F]{4,8}:)?[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]): (?P<text>.+)",
    re.IGNORECASE,
)
"""The line of a GPU that does not answer at all; the other GPUs may be listed beside it, whatever the exit code."""

# R550 ends with 0 where R470 and R535 end with 6, so only the text shows that there is nothing to list.
_NONE_FOUND = re.compile(
    r"No (?:MIG-enabled devices|devices were|GPU instances|compute instances|GPU instance profiles) ?(?:found)?"
    r"(?:: Not Found)?\.?"
)
_ROW = r"\|\s*(?P<gpu>\d+)\s+"
_NAME = r"MIG\s+(?P<name>[0-9][^\s|]*)\s+"
_PLACE = r"(?P<start>\d+):(?P<size>\d+)"
_INSTANCE = re.compile(rf"{_ROW}{_NAME}(?P<profile>\d+)\s+(?P<gi>\d+)\s+{_PLACE}\s*\|")
# R450 lists compute instances without their placement.
_COMPUTE = re.compile(rf"{_ROW}(?P<gi>\d+)\s+{_NAME}(?P<profile>\d+)\s+(?P<ci>\d+)(?:\s+{_PLACE})?\s*\|")
_PROFILE = re.compile(
    rf"{_ROW}{_NAME}(?P<profile>\d+)\s+(?P<free>\d+)/(?P<total>\d+)\s+(?P<gib>\d+(?:\.\d+)?)\s+\S+\s+"
    r"(?P<sm>\d+)\s+(?P<dec>\d+)\s+(?P<enc>\d+)\s*\|"
)
_PROFILE_MORE = re.compile(r"\|\s+(?P<ce>\d+)\s+(?P<jpeg>\d+)\s+(?P<ofa>\d+)\s*\|")
_PLACEMENT = re.compile(
    r"GPU\s+(?P<gpu>\d+)\s+Profile ID\s+(?P<profile>\d+)\s+Placements?\s*:\s*\{(?P<starts>\d+(?:,\d+)*)\}:(?P<size>\d+)"
)


class UnreadableOutput(HostUnhealthy):
    """nvidia-smi failed, or said something no known driver says; the message holds its text."""

    title = "nvidia-smi"


@dataclass(frozen=True)
class GpuStatus:
    """A GPU as `QUERY_GPUS` shows it; `pci` as vSphere writes it; a MIG mode is None on GPUs without MIG.

    `index` is None where nvidia-smi shows no number, as for a GPU that fell off the bus.
    """

    index: int | None
    pci: str
    name: str
    uuid: str
    mig_current: bool | None
    mig_pending: bool | None
    memory_mib: int | None
    driver: str
    fault: str = ""
    """What nvidia-smi prints instead of values of a GPU in trouble, such as ``GPU is lost``: its values are unknown."""

    @property
    def driver_major(self) -> int | None:
        """The driver branch, e.g. 535."""
        major = self.driver.partition(".")[0]
        return int(major) if major.isascii() and major.isdecimal() else None


@dataclass(frozen=True)
class ListedInstance:
    """A row of ``-lgi``. Never derive `gi_id` from the place: boards differ."""

    gpu: int
    gi_id: int
    profile_name: str
    profile_id: int
    start: int
    size: int


@dataclass(frozen=True)
class ListedComputeInstance:
    """A row of ``-lci``; `start` and `size` are compute slices within the GPU instance, None on old drivers."""

    gpu: int
    gi_id: int
    ci_id: int
    profile_name: str
    profile_id: int
    start: int | None
    size: int | None


@dataclass(frozen=True)
class ListedProfile:
    """Two rows of ``-lgip``; `free` is how many more of it fit now."""

    gpu: int
    name: str
    id: int
    free: int
    total: int
    memory_gib: float
    engines: Engines


@dataclass(frozen=True)
class ListedPlacement:
    """A row of ``-lgipp``: where a profile may start and how many memory slices it takes."""

    gpu: int
    profile_id: int
    starts: tuple[int, ...]
    size: int


def parse_gpus(status: int, stdout: str) -> tuple[GpuStatus, ...]:
    """Read the answer to `QUERY_GPUS`, with or without header and units.

    A GPU in trouble has a `fault` and leaves the others readable; `UnreadableOutput` where none can be read.
    """
    lost = [match for line in stdout.splitlines() if (match := LOST_GPU.fullmatch(line.strip()))]
    rest = "\n".join(line for line in stdout.splitlines() if not LOST_GPU.fullmatch(line.strip()))
    if lost and not rest.strip():
        raise unreadable(status, stdout)
    lines = _lines(0 if lost else status, rest)
    rows = [r for r in csv.reader(lines, skipinitialspace=True) if r and r[0] != "index"]
    return (*(_gpu(row, stdout) for row in rows), *(_lost(match, stdout) for match in lost))


def has_value(text: str) -> bool:
    """Return whether a text of ``--query-gpu`` or ``-q -x`` is no phrase that stands for a missing value."""
    return _NO_VALUE.fullmatch(text.strip()) is None


def fault_of(texts: Iterable[str], identity: Iterable[str]) -> str:
    """Return what nvidia-smi prints of a GPU in trouble, such as ``GPU is lost``; empty for a GPU that works.

    An error in one of many values is that of a sensor; in what every GPU has (`identity`: name, memory), the GPU's.
    """
    lost = (match for text in texts if (match := _LOST.fullmatch(text.strip())))
    failed = (match for text in identity if (match := _FAILED.fullmatch(text.strip())))
    return next((match["text"] for matches in (lost, failed) for match in matches), "")


def mode_fault(*modes: str) -> str:
    """Return what is wrong with the MIG modes of a GPU: a text that no known driver prints; empty for none."""
    return next((f"its MIG mode is shown as {untrusted(text)!r}" for text in modes if text not in MODES), "")


def parse_instances(status: int, stdout: str) -> tuple[ListedInstance, ...]:
    """Read ``nvidia-smi mig -lgi``; empty when there are none or MIG is off."""
    return tuple(
        ListedInstance(int(m["gpu"]), int(m["gi"]), m["name"], int(m["profile"]), int(m["start"]), int(m["size"]))
        for m in _table(status, stdout, _INSTANCE)
    )


def parse_compute_instances(status: int, stdout: str) -> tuple[ListedComputeInstance, ...]:
    """Read ``nvidia-smi mig -lci``; empty when there are none or MIG is off."""
    found = []
    for match in _table(status, stdout, _COMPUTE):
        gpu, gi, ci, profile = map(int, match.group("gpu", "gi", "ci", "profile"))
        start, size = (int(n) if n else None for n in match.group("start", "size"))
        found.append(ListedComputeInstance(gpu, gi, ci, match["name"], profile, start, size))
    return tuple(found)


def parse_profiles(status: int, stdout: str) -> tuple[ListedProfile, ...]:
    """Read ``nvidia-smi mig -lgip``; before R550 empty while MIG is off."""
    rows = list(_table(status, stdout, _PROFILE, _PROFILE_MORE))
    if [m.re for m in rows] != [_PROFILE, _PROFILE_MORE] * (len(rows) // 2):
        raise unreadable(status, stdout)
    return tuple(_profile(*pair) for pair in zip(rows[::2], rows[1::2], strict=True))


def parse_placements(status: int, stdout: str) -> tuple[ListedPlacement, ...]:
    """Read ``nvidia-smi mig -lgipp``; before R550 empty while MIG is off."""
    found = []
    for line in _lines(status, stdout):
        match = _PLACEMENT.fullmatch(line)
        if match is None:
            raise unreadable(status, stdout)
        starts = tuple(int(s) for s in match["starts"].split(","))
        found.append(ListedPlacement(int(match["gpu"]), int(match["profile"]), starts, int(match["size"])))
    return tuple(found)


def _lines(status: int, stdout: str) -> list[str]:
    """Return the lines that carry data; none when nvidia-smi says so, whatever it exits with."""
    stripped = (line.strip() for line in stdout.splitlines())
    # A damaged InfoROM adds "WARNING: infoROM is corrupted at gpu ..." to any output.
    lines = [line for line in stripped if line and not line.startswith("WARNING: ")]
    if lines and all(_NONE_FOUND.fullmatch(line) for line in lines):
        return []
    if status != 0 or not lines:
        raise unreadable(status, stdout)
    return lines


def _table(status: int, stdout: str, *rows: re.Pattern[str]) -> Iterator[re.Match[str]]:
    lines = _lines(status, stdout)
    if not lines:
        return
    body = _below_header(lines)
    if body is None:
        raise unreadable(status, stdout)
    for line in body:
        match = next((m for m in (row.fullmatch(line) for row in rows) if m), None)
        if match is None:
            raise unreadable(status, stdout)
        yield match


def _below_header(lines: Iterable[str]) -> list[str] | None:
    """Return the rows below the ``|=====|`` rule without the borders, None when there is no rule."""
    body: list[str] | None = None
    for line in lines:
        if re.fullmatch(r"\|=+\|", line):
            body = []
        elif body is not None and not re.fullmatch(r"\+-+\+", line):
            body.append(line)
    return body


def _gpu(row: list[str], stdout: str) -> GpuStatus:
    if len(row) != len(FIELDS):
        raise unreadable(0, stdout)
    index, bus, name, uuid, current, pending, memory, driver = (cell.strip() for cell in row)
    size = re.fullmatch(r"(\d+)(?: MiB)?", memory)
    mib = (int(size[1]) or None) if size else None  # no GPU has 0: one in trouble may print it
    name, uuid, driver = (text if has_value(text) else "" for text in (name, uuid, driver))
    fault = fault_of(row, row) or mode_fault(current, pending)
    modes = MODES.get(current), MODES.get(pending)
    try:
        number = int(index) if has_value(index) else None
        return GpuStatus(number, normal_pci(bus), name, uuid, *modes, mib, driver, fault)
    except ValueError:
        raise unreadable(0, stdout) from None


def _lost(match: re.Match[str], stdout: str) -> GpuStatus:
    index = None if match["index"] is None else int(match["index"])
    try:
        return GpuStatus(index, normal_pci(match["bus"]), "", "", None, None, None, "", untrusted(match["text"]))
    except ValueError:
        raise unreadable(0, stdout) from None


def _profile(first: re.Match[str], second: re.Match[str]) -> ListedProfile:
    counts = {**first.groupdict(), **second.groupdict()}
    engines = Engines(**{name: int(counts[name]) for name in Engines.__dataclass_fields__})
    gpu, number, free, total = map(int, first.group("gpu", "profile", "free", "total"))
    return ListedProfile(gpu, first["name"], number, free, total, float(first["gib"]), engines)


def unreadable(status: int, stdout: str) -> UnreadableOutput:
    """Return the error that quotes what nvidia-smi said."""
    text = untrusted(stdout.strip()[:400]) or "(no output)"
    meaning = f" ({NVML_CODES[status]})" if status in NVML_CODES else ""
    return UnreadableOutput(
        f"nvidia-smi ended with {status}{meaning}: {text}",
        "run the command on the host; check that the NVIDIA host driver is loaded",
    )
