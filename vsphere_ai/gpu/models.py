"""Models of GPUs by the names that people use: family, board, product and device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from vsphere_ai.errors import UsageError
from vsphere_ai.gpu.catalog import Board, board_of_device, boards
from vsphere_ai.gpu.devices import NVIDIA, UNSIGNED, found_gpus, is_vgpu, is_whole
from vsphere_ai.gpu.vgpus import vgpu
from vsphere_ai.model.plain import PlainObject, objects


@cache
def names_of(board: Board) -> tuple[str, ...]:
    """Return what a board is called: ``A100``, ``a100-40gb``, and the names of its products."""
    family = board.key.partition("-")[0].upper()
    return tuple(dict.fromkeys((family, board.key, *board.also_called, *(p.name for p in board.products))))


@cache
def all_names() -> tuple[str, ...]:
    """Return the names of all boards of the catalogue."""
    return tuple(dict.fromkeys(name for board in boards() for name in names_of(board)))


def of_host(devices: Iterable[PlainObject]) -> tuple[str, ...]:
    """Return the names of the GPUs among a host's PCI devices; of one that the catalogue lacks, its device name."""
    names = [n for gpu in found_gpus(devices) for n in (names_of(gpu.board) if gpu.board else (gpu.name,))]
    return tuple(dict.fromkeys(names))


def of_vm(devices: Iterable[PlainObject]) -> tuple[str, ...]:
    """Return the names of the GPUs of a VM by its virtual devices: of vGPUs those of their board, of whole GPUs too."""
    found = [board for device in devices for board in _boards_of(device)]
    return tuple(dict.fromkeys(name for board in found for name in names_of(board)))


def _boards_of(device: PlainObject) -> list[Board]:
    backing = next(iter(objects([device.get("backing")])), {})
    if is_vgpu(device):
        try:
            board = vgpu.board_of(vgpu.parse(str(backing.get("vgpu", ""))))
        except UsageError:
            return []
        return [board] if board else []
    if not is_whole(device):
        return []
    given = [backing, *objects(backing.get("allowedDevice"))]
    ids = [_number(each.get("deviceId")) for each in given if _number(each.get("vendorId")) & UNSIGNED == NVIDIA]
    return [board for each in ids if (board := board_of_device(each)) is not None]


def _number(value: object) -> int:
    """Return a PCI id, which vSphere writes as a number, or in hexadecimal digits."""
    if isinstance(value, str):
        try:
            return int(value, 16)
        except ValueError:
            return 0
    return value if isinstance(value, int) else 0
