"""Reader of `nvidia-smi -q -x`: MIG mode, MIG devices, virtualization mode; it shows no starts of instances."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from vsphere_ai.gpu.smi.listings import MODES, fault_of, has_value, mode_fault, unreadable
from vsphere_ai.model.bounded import xml_root
from vsphere_ai.model.names.pci_address import normal_pci

MAX_BYTES = 8 * 1024 * 1024
QUERY_XML = ("nvidia-smi", "-q", "-x")
_ROOT = "nvidia_smi_log"
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
    fault: str = ""
    """Texts in the place of values of a GPU in trouble, such as ``GPU is lost``: they are unknown then."""


@dataclass(frozen=True)
class Xml:
    """Everything read from one answer, with the version of the driver."""

    driver: str
    gpus: tuple[GpuInXml, ...]
    unread: int = 0
    """How many GPUs cannot be identified, or lack what every driver shows."""


def parse_xml(status: int, stdout: str) -> Xml:
    """Read the answer to `QUERY_XML`; `UnreadableOutput` when it is not one.

    The document type is skipped, not fetched; entities are refused, so that a small answer stays a small one.
    """
    if status != 0 or not stdout.strip() or len(stdout) > MAX_BYTES:
        raise unreadable(status, stdout)
    try:
        root = _parsed(stdout.strip())
    except ValueError:
        raise unreadable(status, stdout) from None
    elements, gpus = root.findall("gpu"), []
    for element in elements:
        with suppress(ValueError, KeyError):  # the others are read all the same
            gpus.append(_gpu(element))
    if elements and not gpus:
        raise unreadable(status, stdout)
    return Xml(root.findtext("driver_version", "").strip(), tuple(gpus), len(elements) - len(gpus))


def _parsed(text: str) -> Element:
    """Return the root element; `ValueError` for another document, one with entities, and one nested too deeply."""
    root = xml_root(text)
    if root.tag != _ROOT:
        raise ValueError(root.tag)
    return root


def _gpu(gpu: Element) -> GpuInXml:
    mixed, device = _value(gpu, "gpu_virtualization_mode/vgpu_heterogeneous_mode"), _value(gpu, "pci/pci_device_id")
    texts = [(element.text or "").strip() for element in gpu.iter()]
    identity = [gpu.findtext(path, "") for path in ("product_name", "uuid", "fb_memory_usage/total")]
    modes = [gpu.findtext(f"mig_mode/{which}_mig", "N/A").strip() for which in ("current", "pending")]
    fault = fault_of(texts, (*identity, *modes)) or mode_fault(*modes)
    return GpuInXml(
        pci=normal_pci(gpu.attrib["id"]),
        name=_text(gpu, "product_name", fault),
        uuid=_text(gpu, "uuid", fault),
        mig_current=MODES.get(modes[0]),
        mig_pending=MODES.get(modes[1]),
        mig_devices=tuple(_device(d) for d in gpu.findall("mig_devices/mig_device")),
        virtualization=_value(gpu, "gpu_virtualization_mode/virtualization_mode"),
        vgpu_mode=_value(gpu, "gpu_virtualization_mode/host_vgpu_mode"),
        mixed_sizes=None if mixed is None else MODES.get(mixed),
        device_id=_device_id(device),
        fault=fault,
    )


def _device_id(text: str | None) -> int | None:
    """Return the PCI device id: 20B010DE is device, then vendor."""
    return int(text, 16) >> 16 if text is not None and re.fullmatch(r"(?:0x)?[0-9A-Fa-f]{8}", text) else None


def _device(device: Element) -> MigDevice:
    return MigDevice(*(int(_text(device, name)) for name in ("index", "gpu_instance_id", "compute_instance_id")))


def _text(element: Element, path: str, fault: str = "") -> str:
    found = element.findtext(path)
    if found is None and not fault:
        raise KeyError(path)
    text = (found or "").strip()
    return text if has_value(text) else ""


def _value(element: Element, path: str) -> str | None:
    text = element.findtext(path, "").strip()
    return None if text in _ABSENT or not has_value(text) else text
