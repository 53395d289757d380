"""`nvidia-smi` without arguments, in the layouts before and after release 530, and `nvidia-smi -L`."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from vsphere_ai.lab.hardware.gpu import GpuInstance, LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell.smi_query import memory_used
from vsphere_ai.lab.shell.smi_tables import compute_name

_NARROW_HEAD = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI {0:<12} Driver Version: {0:<12} CUDA Version: N/A      |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
"""
_NARROW_ROW = """\
| {0:3d}  {1:<18}  On   | {2} Off | {3:>20} |
| N/A   34C    P0    36W / 250W | {4:>20} | {5:>7}      Default |
|                               |                      | {6:>20} |
+-------------------------------+----------------------+----------------------+
"""
_WIDE_HEAD = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {0:<22} Driver Version: {0:<14} CUDA Version: N/A      |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
_WIDE_ROW = """\
| {0:3d}  {1:<31}On  |   {2} Off | {3:>20} |
| N/A   34C    P0             36W /  250W | {4:>22} | {5:>7}      Default |
|                                         |                        | {6:>20} |
+-----------------------------------------+------------------------+----------------------+
"""


def table(host: LabHost, gpus: list[LabGpu]) -> str:
    """Return the overview of the GPUs with the vGPU workers of running VMs."""
    wide = gpus[0].driver_major >= 530
    head, row, width = (_WIDE_HEAD, _WIDE_ROW, 26) if wide else (_NARROW_HEAD, _NARROW_ROW, 18)
    inner = 89 if wide else 77
    text = datetime.now(UTC).strftime("%a %b %e %H:%M:%S %Y") + "\n" + head.format(host.driver)
    for gpu in gpus:
        name = gpu.name if len(gpu.name) <= width else f"{gpu.name[: width - 3]}..."
        memory = f"{memory_used(gpu)}MiB / {gpu.memory_mib}MiB"
        text += row.format(gpu.index, name, gpu.smi_bus_id, _ecc(gpu), memory, _load(gpu), _mig_cell(gpu))
    rows = [f"|  {g.index:3d}   {v.id:>10}   C+G   {v.vm[: inner - 28]:<{inner - 27}}|" for g in gpus for v in g.vgpus]
    body = "\n".join(rows) if rows else f"|  {'No running processes found':<{inner - 2}}|"
    rule = f"+{'-' * inner}+"
    return f"{text}\n{rule}\n|{' Processes:':<{inner}}|\n|{'=' * inner}|\n{body}\n{rule}\n"


def listing(gpus: list[LabGpu]) -> str:
    """Return the `-L` lines; MIG devices, which are compute instances, come under their GPU by instance id."""
    text = ""
    for gpu in gpus:
        text += f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n"
        devices = [(i, c) for i in sorted(gpu.instances, key=lambda i: i.id) for c in i.computes]
        for number, (instance, compute) in enumerate(devices):
            name = compute_name(gpu, instance, compute.profile)
            text += f"  MIG {name:<12}Device {number:2d}: (UUID: {_mig_uuid(gpu, instance, compute.id)})\n"
    return text


def _mig_uuid(gpu: LabGpu, instance: GpuInstance, compute: int) -> str:
    return f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, f'{gpu.uuid}/{instance.id}/{compute}')}"


def _ecc(gpu: LabGpu) -> str:
    return "On" if gpu.mig_current else "0"


def _load(gpu: LabGpu) -> str:
    return "N/A" if gpu.mig_current else "0%"


def _mig_cell(gpu: LabGpu) -> str:
    if not gpu.mig_capable:
        return "N/A"
    pending = "*" if gpu.mig_current != gpu.mig_pending else ""
    return ("Enabled" if gpu.mig_current else "Disabled") + pending
