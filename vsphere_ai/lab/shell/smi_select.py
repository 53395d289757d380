"""Names of GPUs on the command line of nvidia-smi: index, PCI bus id in either spelling, or UUID."""

from __future__ import annotations

from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell.result import ShellResult

NO_DEVICES = ShellResult(6, "No devices were found\n")


def visible(host: LabHost) -> list[LabGpu]:
    """Return the GPUs the driver sees: all but those in passthrough."""
    return [gpu for gpu in host.gpus if gpu.active != "direct"]


def pick(host: LabHost, wanted: str | None) -> list[LabGpu]:
    """Return the GPUs a comma list of ids names, all when there is no list; empty when none matches."""
    if wanted is None:
        return visible(host)
    ids = {part.strip().lower() for part in wanted.split(",")}
    return [gpu for gpu in visible(host) if ids & _spellings(gpu)]


def _spellings(gpu: LabGpu) -> set[str]:
    return {str(gpu.index), gpu.uuid.lower(), gpu.pci.lower(), gpu.smi_bus_id.lower()}
