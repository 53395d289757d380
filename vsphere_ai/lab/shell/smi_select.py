"""Names of GPUs on the command line of nvidia-smi: index, PCI bus id in either spelling, or UUID."""

from __future__ import annotations

from vsphere_ai.lab.hardware.gpu import Gpu
from vsphere_ai.lab.hardware.host import Host
from vsphere_ai.lab.shell.result import Result

NO_DEVICES = Result(6, "No devices were found\n")


def visible(host: Host) -> list[Gpu]:
    """Return the GPUs the driver sees: all but those in passthrough."""
    return [gpu for gpu in host.gpus if gpu.active != "direct"]


def pick(host: Host, wanted: str | None) -> list[Gpu]:
    """Return the GPUs a comma list of ids names, all when there is no list; empty when none matches."""
    if wanted is None:
        return visible(host)
    ids = {part.strip().lower() for part in wanted.split(",")}
    return [gpu for gpu in visible(host) if ids & _spellings(gpu)]


def _spellings(gpu: Gpu) -> set[str]:
    return {str(gpu.index), gpu.uuid.lower(), gpu.pci.lower(), gpu.smi_bus_id.lower()}
