"""`nvidia-smi vgpu`: running vGPUs, and the vGPU types a GPU supports or could create now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from vsphere_ai.lab.hardware.gpu import LabGpu, Nvml
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.vgpu import VgpuType, board_types, offered_types
from vsphere_ai.lab.shell.result import ShellResult
from vsphere_ai.lab.shell.smi_select import NO_DEVICES, pick
from vsphere_ai.lab.shell.smi_vgpu_query import query

_RULE = "+-------------------------------+--------------------------------+------------+\n"
_HEAD = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI {0:<25}Driver Version: {0:<24}|
|-------------------------------+--------------------------------+------------+
| GPU  Name                     | Bus-Id                         | GPU-Util   |
|      vGPU ID    Name          | VM ID    VM Name               | vGPU-Util  |
|===============================+================================+============|
"""
_OPTIONS = {"--supported": "-s", "--creatable": "-c", "--query": "-q", "--id": "-i", "--verbose": "-v"}


def main(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Run ``nvidia-smi vgpu ARGV``; to be called with the host's lock held."""
    words, wanted, options = list(argv), None, set()
    while words:
        given = words.pop(0)
        option = _OPTIONS.get(given, given)
        if option not in _OPTIONS.values():
            return ShellResult(Nvml.INVALID_ARGUMENT, f'Option "{given}" is not recognized.\n')
        if option == "-i":
            if not words:
                return ShellResult(Nvml.INVALID_ARGUMENT, f'Option "{given}" is missing its value.\n')
            wanted = words.pop(0)
        options.add(option)
    gpus = pick(host, wanted)
    if not gpus:
        return NO_DEVICES
    able = [g for g in gpus if g.active == "sharedDirect"]
    if not able:
        return ShellResult(0, "No supported devices in vGPU mode\n")
    if "-s" in options:
        return ShellResult(0, _types(able, board_types, verbose="-v" in options))
    if "-c" in options:
        return ShellResult(0, _types(able, creatable, verbose="-v" in options))
    return ShellResult(0, query(host, able) if "-q" in options else _table(host, able))


def creatable(gpu: LabGpu) -> tuple[VgpuType, ...]:
    """Return the types of which one more could start now; with MIG on only those with a free GPU instance."""
    if gpu.mig_current:
        free = {i.profile for i in gpu.instances if i.vm is None}
        return tuple(t for t in offered_types(gpu) if t.profile in free)
    running = {v.type_name for v in gpu.vgpus}
    return tuple(t for t in offered_types(gpu) if len(gpu.vgpus) < t.max_per_gpu and running <= {t.name})


def _types(gpus: Iterable[LabGpu], kinds: Callable[[LabGpu], tuple[VgpuType, ...]], *, verbose: bool) -> str:
    text = ""
    for gpu in gpus:
        text += f"GPU {gpu.smi_bus_id}\n"
        for kind in kinds(gpu):
            text += _verbose(gpu, kind) if verbose else f"    {kind.smi_name}\n"
    return text


def _verbose(gpu: LabGpu, kind: VgpuType) -> str:
    profile = kind.profile.id if kind.profile else "N/A"
    rows = (
        ("Name", kind.smi_name),
        ("Class", "Compute" if kind.name.rstrip("me").endswith("c") else "Quadro"),
        ("GPU Instance Profile ID", profile),
        ("Max Instances", kind.max_per_gpu),
        ("Device ID", f"0x{gpu.device_id:04x}10de"),
        ("FB Memory", f"{kind.framebuffer_gb * 1024} MiB"),
    )
    return "".join(f"{'        ' + label:<42}: {value}\n" for label, value in rows)


def _table(host: LabHost, gpus: Iterable[LabGpu]) -> str:
    text = datetime.now(UTC).strftime("%a %b %e %H:%M:%S %Y") + "\n" + _HEAD.format(host.driver)
    for gpu in gpus:
        names = {t.name: t.smi_name for t in board_types(gpu)}
        text += f"|{gpu.index:4d}  {gpu.name[:24]:<25}| {gpu.smi_bus_id:<31}|   0%       |\n"
        for vgpu in gpu.vgpus:
            name, vm = names[vgpu.type_name], vgpu.vm[:21]
            text += f"|      {vgpu.id:<11}{name[:13]:<14}| {vgpu.id - 3251634000:<9}{vm:<22}|       0%   |\n"
        text += _RULE
    return text
