"""Readers of ``nvidia-smi topo -m`` and ``nvidia-smi -L``: paths of GPUs to RDMA devices, and GPUs with MIG devices.

Columns follow the names in the header, because releases differ: old ones name a NIC by its RDMA device, newer ones
``NIC0`` with a legend, and old ones have neither ``NUMA Affinity`` nor ``GPU NUMA ID`` (outputs in public issues:
NVIDIA/nccl 933 and 2157, deepseek-ai/DeepEP 60 and 128). The header has escapes that underline it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.gpu.smi.listings import LOST_GPU, unreadable
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.text import plain
from vsphere_ai.model.topology import NicPath, ShownGpu, ShownTopology
from vsphere_ai.security.redaction import untrusted

_UNDERLINE = re.compile(r"\[[04]m")
"""What is left of the escapes of the header where the escape character itself was lost, as in a copied text."""
_AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_GPU_NAME = re.compile(r"GPU(\d+)")
_PATH = re.compile(r"X|NV(?:\d+|#)|PIX|PXB|PHB|NODE|SYS|SOC|PSB")
_OLD_PATHS = {"SOC": "SYS", "PSB": "PIX"}
"""Names of older legends: ``SOC`` is the link between sockets, ``PSB`` one PCIe switch on a board."""
_LEGEND = re.compile(r"\s*(?P<name>NIC\d+)\s*:\s*(?P<device>\S+)\s*")
_GPU = re.compile(r"GPU (?P<index>\d+): (?P<name>.+?) \(UUID: (?P<uuid>[^)]+)\)")
_MIG = re.compile(r"\s*MIG (?P<profile>\S+)\s+Device\s+(?P<device>\d+): \(UUID: (?P<uuid>[^)]+)\)")


@dataclass(frozen=True)
class ListedMigDevice:
    """A MIG device of ``-L``: its profile (``1c.3g.20gb`` where it is a part of a GPU instance), number and UUID."""

    profile: str
    device: int
    uuid: str


@dataclass(frozen=True)
class ListedGpu:
    """A GPU of ``-L`` with its MIG devices."""

    index: int
    name: str
    uuid: str
    devices: tuple[ListedMigDevice, ...] = ()


@dataclass(frozen=True)
class GpuList:
    """The answer to ``-L``. `lost` are PCI addresses of GPUs that do not answer, `unread` lines of no known form."""

    gpus: tuple[ListedGpu, ...]
    lost: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def parse_gpu_list(status: int, stdout: str) -> GpuList:
    """Read ``nvidia-smi -L``; empty where there is no GPU, `UnreadableOutput` where no line is of a known form."""
    gpus: list[ListedGpu] = []
    lost, unread = [], []
    none = False
    for line in plain(stdout).splitlines():
        if not line.strip() or line.startswith("WARNING: "):
            continue
        gone = LOST_GPU.fullmatch(line.strip())
        if match := _GPU.fullmatch(line.strip()):
            gpus.append(ListedGpu(int(match["index"]), match["name"], match["uuid"]))
        elif gpus and (match := _MIG.fullmatch(line.rstrip())):
            device = ListedMigDevice(match["profile"], int(match["device"]), match["uuid"])
            gpus[-1] = ListedGpu(gpus[-1].index, gpus[-1].name, gpus[-1].uuid, (*gpus[-1].devices, device))
        elif gone:
            lost.append(read_pci(gone["bus"]))
        elif line.startswith("No devices"):
            none = True
        else:
            unread.append(untrusted(line.strip()))
    if not gpus and not lost and (unread or not none):
        raise unreadable(status, stdout)
    return GpuList(tuple(gpus), tuple(lost), tuple(unread))


def parse_device_paths(status: int, stdout: str) -> ShownTopology:
    """Read ``nvidia-smi topo -m`` (or ``-mp``); `UnreadableOutput` where there is no matrix of GPUs.

    A row or a cell of no known form is unknown, and leaves the others readable.
    """
    lines = _UNDERLINE.sub("", plain(stdout)).splitlines()
    start = next((n for n, line in enumerate(lines) if re.match(r"\s*GPU\d+\b", line) and not _is_row(line)), None)
    if start is None:
        raise unreadable(status, stdout)
    columns, affinities = _header(lines[start])
    legend = {m["name"]: m["device"] for line in lines[start:] if (m := _LEGEND.fullmatch(line))}
    rows: dict[str, Sequence[str]] = {}
    unread = []
    for line in lines[start + 1 :]:
        words = line.split()
        if not words:
            continue
        if words[0] not in columns:
            break
        if len(words) <= len(columns):
            unread.append(words[0])
        rows[words[0]] = words[1:]
    missing = [name for name in columns if name not in rows]
    gpus = tuple(_gpus(columns, affinities, rows, legend))
    return ShownTopology(gpus, tuple(dict.fromkeys((*unread, *missing))))


def _is_row(line: str) -> bool:
    """Return whether a line that begins with the name of a GPU is a row: the header has names only."""
    words = line.split()
    return len(words) > 1 and _PATH.fullmatch(words[1]) is not None


def _header(line: str) -> tuple[list[str], list[str]]:
    """Return the names of devices, and those of the columns after them."""
    places = sorted((line.find(name), name) for name in _AFFINITIES if name in line)
    names = line[: places[0][0]] if places else line
    return names.split(), [name for _, name in places]


def _gpus(
    columns: Sequence[str], affinities: Sequence[str], rows: Mapping[str, Sequence[str]], legend: Mapping[str, str]
) -> Iterator[ShownGpu]:
    for name in columns:
        match = _GPU_NAME.fullmatch(name)
        if match is None:
            continue
        cells = rows.get(name, ())
        paths = dict(zip(columns, cells, strict=False))
        near = dict(zip(affinities, cells[len(columns) :], strict=False))
        nics = [NicPath(legend.get(c, c), _path(paths.get(c))) for c in columns if not _GPU_NAME.fullmatch(c)]
        others = (_GPU_NAME.fullmatch(c) for c in columns if c != name)
        peers = [(int(other[1]), _path(paths.get(other[0]))) for other in others if other is not None]
        cpus, numa = near.get("CPU Affinity"), near.get("NUMA Affinity")
        is_range = cpus is not None and re.fullmatch(r"[\d,-]+", cpus) is not None
        yield ShownGpu(
            int(match[1]), tuple(nics), tuple(peers),
            cpus if is_range else None, int(numa) if numa is not None and numa.isdecimal() else None,
        )  # fmt: skip


def _path(cell: str | None) -> str | None:
    if cell is None or _PATH.fullmatch(cell) is None or cell == "X":
        return None
    return _OLD_PATHS.get(cell, cell)
