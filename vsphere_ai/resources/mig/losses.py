"""Losses of GPUs at a reboot: MIG modes, and GPU instances that are not made again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.resources.mig.gpu import GpuMig, after_boot

Gpus = Mapping[str, GpuMig]


def lost_parts(users: Mapping[str, str], seen: Gpus, left: Gpus, wanted: Gpus) -> Iterator[str]:
    """Yield in words what a reboot takes from GPUs for good; all by PCI address, `users` are the VMs on a GPU."""
    for pci, gpu in sorted(seen.items()):
        want = wanted.get(pci)
        if gpu.mode == "enabled" and left[pci].mode != "enabled" and not (want and want.mode):
            yield f"MIG mode of GPU {pci}"
        if not gpu.layout or (want and (want.layout is not None or want.mode == "disabled")):
            continue
        names = users.get(pci, "")
        # vSphere makes one for each VM that powers on; what there is beyond that was made by hand
        if names and len(gpu.layout) <= len(names.split(", ")):
            continue
        but = f" (vSphere makes again what {names} needs)" if names else ""
        yield f"GPU instances {', '.join(gpu.layout)} of GPU {pci}{but}"


def kept_modes(left: Gpus, wanted: Gpus) -> dict[str, str]:
    """Return PCI address -> the mode that has to be there after a reboot, where no playbook states another."""
    unstated = {pci: gpu for pci, gpu in left.items() if not (pci in wanted and wanted[pci].mode)}
    return {pci: mode for pci, gpu in sorted(unstated.items()) if (mode := after_boot(gpu.mode))}
