"""GPU of `vsphere-ai mig explain --xml`: board and driver from a saved answer of `nvidia-smi -q -x`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vsphere_ai.errors import UsageError
from vsphere_ai.gpu import catalog
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.smi.listings import UnreadableOutput
from vsphere_ai.gpu.smi.smi_xml import MAX_BYTES, GpuInXml, Xml, parse_xml
from vsphere_ai.language.yaml_files.document import content_of
from vsphere_ai.model.text import counted, safe


@dataclass(frozen=True)
class Answered:
    """The board a file is about, the driver branch (None when it does not say), and what else to know of its GPUs."""

    board: Board
    driver_major: int | None
    notes: tuple[str, ...]


def answered(file: Path, wanted: str = "", *, placed: bool = False) -> Answered:
    """Read a file (``-`` is standard input); `wanted` names one board when its GPUs are of several.

    `placed` says that the caller knows where instances stand, which no XML says.
    """
    try:
        xml = parse_xml(0, _text(file))
    except UnreadableOutput:
        raise UsageError(
            f"{file} is no answer of nvidia-smi -q -x", "save it on the host: nvidia-smi -q -x > FILE"
        ) from None
    found: dict[Board, list[GpuInXml]] = {}
    for gpu in xml.gpus:
        board = catalog.board_of_device(gpu.device_id) if gpu.device_id is not None else None
        if board is not None:
            found.setdefault(catalog.board(board.key), []).append(gpu)  # MIG is the same on all products of a board
    asked = catalog.board(wanted) if wanted else next(iter(found), None)
    if asked is None or asked not in found or (not wanted and len(found) > 1):
        there = ", ".join(b.key for b in found) or safe(", ".join(g.name for g in xml.gpus)) or "no GPU"
        known = (
            "choose one with --gpu BOARD"
            if found
            else "the catalogue has none of its boards: name one with --gpu alone"
        )
        raise UsageError(f"{file}: which board? its GPUs are {there}", known)
    board = asked
    return Answered(board, _driver(xml), tuple(_notes(found[board], xml, placed=placed)))


def _text(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1).decode("utf-8", "replace")
    return content_of(file, "file of nvidia-smi -q -x", MAX_BYTES).decode("utf-8", "replace")


def _driver(xml: Xml) -> int | None:
    branch = xml.driver.partition(".")[0]
    return int(branch) if branch.isdecimal() else None


def _notes(gpus: Sequence[GpuInXml], xml: Xml, *, placed: bool) -> Iterator[str]:
    where, name = ", ".join(g.pci for g in gpus), next((g.name for g in gpus if g.name), "")
    yield safe(f"read: driver {xml.driver or 'unknown'}, {len(gpus)} × {name or 'GPU'} ({where})")
    if xml.unread:
        yield f"{counted(xml.unread, 'GPU')} of the file cannot be read"
    for gpu in gpus:
        if gpu.fault:
            yield safe(f"GPU {gpu.pci}: nvidia-smi shows no values of it: {gpu.fault}")
        if gpu.mig_current is False:
            waits = " now; it is to be switched on" if gpu.mig_pending else ""
            yield f"GPU {gpu.pci}: MIG is off{waits}: nvidia-smi creates nothing"
        if gpu.mig_devices and not placed:
            instances = len({d.gpu_instance for d in gpu.mig_devices})
            yield (
                f"GPU {gpu.pci} has {counted(instances, 'GPU instance')}; no XML says where they "
                "stand, so an empty GPU is assumed: give --from what nvidia-smi mig -lgi lists"
            )
