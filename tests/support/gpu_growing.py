"""An estate of hosts with two A100 each, in clusters of so many, whose VMs may have vGPUs and move with them."""

from __future__ import annotations

from support.estates import DRS, OFF, PCI, estate, gpu_info, guest, host, smi, vgpu_device, vm
from support.growing import OTHERS, esx
from vsphere_ai.compat.vgpu_vmotion import SERVICE
from vsphere_ai.model.facts import About, Facts

HALF, WHOLE = "grid_a100-20c", "grid_a100-40c"
STUN = {HALF: [[10_000, 25]], WHOLE: [[10_000, 49]]}
EIGHT = About("vc", "8.0.2", "22385739", "8.0.2.0", "i")


def gpu_estate(hosts, *, vms, profile="", cluster_of=8):
    """So many hosts in Shared Direct mode, each with so many VMs that run, the first GPU showing them."""
    hot = Facts(SERVICE, {"query:vgpu.hotmigrate.enabled": ({"key": "vgpu.hotmigrate.enabled", "value": True},)})
    clusters = {f"{OTHERS}-{n // cluster_of}" for n in range(hosts)}
    facts = [
        Facts(ref, {"name": ref, "parent": "Folder:group-h1", "configurationEx": {"drsConfig": DRS}})
        for ref in sorted(clusters)
    ]
    for n in range(1, hosts + 1):
        own = [vm((n - 1) * vms + k) for k in range(1, vms + 1)]
        shown = [v.ref for v in own] if profile else []
        given = {
            "parent": f"{OTHERS}-{(n - 1) // cluster_of}",
            "probes": smi(dict.fromkeys(PCI, OFF)),
            "config__graphicsInfo": (gpu_info(PCI[0], "sharedDirect", shown), gpu_info(PCI[1], "sharedDirect")),
            "config__sharedPassthruGpuTypes": (HALF, WHOLE),
            "query:vgpu profiles": STUN,
        }
        facts.append(host(esx(n), active="sharedDirect", **given))
        facts += [guest(v, esx(n), config__hardware__device=_devices(profile)) for v in own]
    return estate(hot, *facts, about=EIGHT)


def _devices(profile):
    device = vgpu_device(13000, profile) if profile else None
    return ({**device, "backing": {**device["backing"], "migrateSupported": True}},) if device else ()
