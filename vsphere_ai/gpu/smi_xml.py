"""Reader of `nvidia-smi -q -x`: MIG mode, MIG devices, virtualization mode; it shows no starts of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn
from xml.parsers import expat

from vsphere_ai.gpu.commands import normal_pci
from vsphere_ai.gpu.listings import MODES, unreadable

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 32
QUERY_XML = ("nvidia-smi", "-q", "-x")
_ROOT = "nvidia_smi_log"
_GPU = (_ROOT, "gpu")
_DEVICE = (*_GPU, "mig_devices", "mig_device")
_ABSENT = ("", "N/A", "None")


@dataclass(frozen=True)
class MigDevice:
    """A MIG device: a compute instance in a GPU instance, as programs see it."""

    index: int
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True)
class GpuInXml:
    """A GPU as ``-q -x`` shows it; None where it says ``N/A``, or where the driver is too old to say it.

    `virtualization` is such as ``Pass-Through`` or ``Host VGPU``, `vgpu_mode` such as ``SR-IOV``; a GPU with
    `mixed_sizes` takes time-sliced vGPUs of different sizes. `device_id` is PCI's, such as 0x20b0.
    """

    pci: str
    name: str
    uuid: str
    mig_current: bool | None
    mig_pending: bool | None
    mig_devices: tuple[MigDevice, ...]
    virtualization: str | None
    vgpu_mode: str | None
    mixed_sizes: bool | None
    device_id: int | None = None


@dataclass(frozen=True)
class Xml:
    """Everything read from one answer, with the version of the driver."""

    driver: str
    gpus: tuple[GpuInXml, ...]


def parse_xml(status: int, stdout: str) -> Xml:
    """Read the answer to `QUERY_XML`; `UnreadableOutput` when it is not one.

    The document type is skipped, not fetched; entities are refused, so that a small answer stays a small one.
    """
    if status != 0 or not stdout.strip() or len(stdout) > MAX_BYTES:
        raise unreadable(status, stdout)
    reader = _Reader()
    try:
        reader.read(stdout.strip())
        return Xml(reader.values.get((_ROOT, "driver_version"), ""), tuple(_gpu(*gpu) for gpu in reader.gpus))
    except (expat.ExpatError, ValueError, KeyError):
        raise unreadable(status, stdout) from None


Path = tuple[str, ...]
Values = dict[Path, str]


class _Reader:
    """Collects the text of every leaf by its path, per GPU and per MIG device."""

    def __init__(self) -> None:
        self.values: Values = {}
        self.gpus: list[tuple[str, Values, list[Values]]] = []
        self._path: list[str] = []
        self._text: list[str] = []

    def read(self, text: str) -> None:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.EntityDeclHandler = _refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.Parse(text.encode(), True)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._path.append(name)
        self._text.clear()
        if len(self._path) > MAX_DEPTH or self._path[0] != _ROOT:
            raise ValueError(name)
        if tuple(self._path) == _GPU:
            self.gpus.append((attributes["id"], {}, []))
        elif tuple(self._path) == _DEVICE:
            self.gpus[-1][2].append({})

    def _end(self, name: str) -> None:
        path, text = tuple(self._path), "".join(self._text).strip()
        self._path.pop()
        self._text.clear()
        if path[: len(_DEVICE)] == _DEVICE:
            self.gpus[-1][2][-1].setdefault(path[len(_DEVICE) :], text)
        elif path[: len(_GPU)] == _GPU:
            self.gpus[-1][1].setdefault(path[len(_GPU) :], text)
        else:
            self.values.setdefault(path, text)


def _refuse(*_: object) -> NoReturn:
    raise ValueError("an entity is declared")


def _gpu(bus_id: str, values: Values, devices: Sequence[Values]) -> GpuInXml:
    mixed = _said(values, "gpu_virtualization_mode", "vgpu_heterogeneous_mode")
    device = _said(values, "pci", "pci_device_id")
    return GpuInXml(
        pci=normal_pci(bus_id),
        name=values["product_name",],
        uuid=values["uuid",],
        mig_current=MODES[values.get(("mig_mode", "current_mig"), "N/A")],
        mig_pending=MODES[values.get(("mig_mode", "pending_mig"), "N/A")],
        mig_devices=tuple(_device(d) for d in devices),
        virtualization=_said(values, "gpu_virtualization_mode", "virtualization_mode"),
        vgpu_mode=_said(values, "gpu_virtualization_mode", "host_vgpu_mode"),
        mixed_sizes=None if mixed is None else MODES[mixed],
        device_id=None if device is None else int(device, 16) >> 16,  # 20B010DE: device, then vendor
    )


def _device(values: Values) -> MigDevice:
    return MigDevice(int(values["index",]), int(values["gpu_instance_id",]), int(values["compute_instance_id",]))


def _said(values: Values, *path: str) -> str | None:
    text = values.get(path, "")
    return None if text in _ABSENT else text
