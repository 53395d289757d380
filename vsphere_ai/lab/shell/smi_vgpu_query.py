"""`nvidia-smi vgpu -q`: what runs on each GPU, in the format of captures."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from vsphere_ai.lab.hardware.gpu import LabGpu, LabVgpu
from vsphere_ai.lab.hardware.host import LabGuest, LabHost
from vsphere_ai.lab.hardware.vgpu import board_types

FIRST_TYPE = 1000
"""The lab numbers vGPU types from here on; NVIDIA's numbers are below."""
PLACEMENT_DRIVER = 550
"""The first branch that lists placement ids."""
LEASE = timedelta(days=1)
"""How long a licence lasts from the last renewal on (NVIDIA License System, default lease)."""


def query(host: LabHost, gpus: Iterable[LabGpu]) -> str:
    """Return the listing of these GPUs; to be called with the host's lock held."""
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu.smi_bus_id}")
        lines.append(f"{'    Active vGPUs':<42}: {len(gpu.vgpus)}")
        types = {t.name: (number, t.smi_name) for number, t in enumerate(board_types(gpu), FIRST_TYPE)}
        for vgpu in gpu.vgpus:
            lines.append(f"{'    vGPU ID':<42}: {vgpu.id}")
            guest = host.guest_of(vgpu.vm) or LabGuest(host.driver)
            instance = vgpu.gi if vgpu.gi is not None and host.shows_instances else "N/A"
            rows = {
                "VM ID": vgpu.id - 3251634000,
                "VM Name": vgpu.vm,
                "vGPU Name": types[vgpu.type_name][1],
                "vGPU Type": types[vgpu.type_name][0],
                "vGPU UUID": uuid.uuid5(uuid.NAMESPACE_OID, f"{host.name}/{vgpu.id}"),
                "Guest Driver Version": guest.driver or "N/A",
                "License Status": _licence(guest),
                "GPU Instance ID": instance,
                **_placement(host, gpu, vgpu),
                "Accounting Mode": "Disabled",
                "ECC Mode": "Enabled",
                "Accounting Buffer Size": 4000,
                "Frame Rate Limit": "N/A",
            }
            lines += [f"{'        ' + label:<42}: {value}" for label, value in rows.items()]
            for title, section in _sections(vgpu).items():
                lines.append(f"        {title}")
                lines += [f"{'            ' + label:<42}: {value}" for label, value in section.items()]
    return "\n".join(lines) + "\n"


def _placement(host: LabHost, gpu: LabGpu, vgpu: LabVgpu) -> dict[str, object]:
    """Return where a vGPU begins, from R550 on: in mixed-size mode its first GB of the frame buffer.

    That `N/A` stands elsewhere is seen in captures; newer drivers may show places in same-size mode, too.
    """
    if gpu.driver_major < PLACEMENT_DRIVER:
        return {}
    return {"Placement ID": "N/A" if vgpu.part is None or not host.shows_instances else vgpu.part.start}


def _licence(guest: LabGuest) -> str:
    if not guest.driver:
        return "N/A (Expiry: N/A)"
    if guest.licence == "unknown":
        return "N/A"
    if guest.licence == "unlicensed":
        return "Unlicensed (Unrestricted)"
    expiry = datetime.now(UTC) + LEASE
    return f"Licensed (Expiry: {expiry:%Y-%-m-%-d} {expiry.hour}:{expiry.minute}:{expiry.second} GMT)"


def _sections(vgpu: LabVgpu) -> dict[str, dict[str, str]]:
    total, idle = vgpu.framebuffer_gb * 1024, {"Active Sessions": "0", "Average FPS": "0", "Average Latency": "0"}
    return {
        "PCI": {"Bus Id": "00000000:02:04.0"},
        "FB Memory Usage": {"Total": f"{total} MiB", "Used": "0 MiB", "Free": f"{total} MiB"},
        "Utilization": dict.fromkeys(("Gpu", "Memory", "Encoder", "Decoder"), "0 %"),
        "Encoder Stats": idle,
        "FBC Stats": idle,
    }
