"""What a reboot takes from a host's GPUs and no playbook gives back, and what has to be there after it as before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vsphere_ai.gpu import live
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mig import GpuMig, Mig, after_boot


@dataclass(frozen=True)
class Loss:
    """What one host loses for good, in words; `unread` is why nobody knows."""

    host: Target
    what: tuple[str, ...] = ()
    unread: str = ""


def may_have_mig(host: Target, view: View) -> bool:
    """Tell whether a host has a GPU with MIG, or one that may have it."""
    return Mig.is_fit(view.facts(host.ref))


def loss_of(host: Target, view: View) -> Loss | None:
    """Return what a host that will reboot loses; `view` is how everything is now, with what the playbook states."""
    seen = _seen(host, view)
    if seen is not None:
        what = tuple(_lost(host, view, seen))
        return Loss(host, what) if what else None
    if not may_have_mig(host, view) or (host.ref, Mig.kind) in view.stated:
        return None  # the kind itself says what it could not read
    return Loss(host, unread=live.why_unread(view.facts(host.ref)))


def kept_modes(host: Target, view: View) -> dict[str, str]:
    """Return PCI address -> the MIG mode that has to be there after a reboot, where no playbook says another."""
    seen = _seen(host, view)
    if seen is None:
        return {}
    wanted, left = _wanted(host, view), seen.after_reboot(host, view).gpus or {}
    open_ = {pci: gpu for pci, gpu in left.items() if not (pci in wanted and wanted[pci].mode)}
    return {pci: mode for pci, gpu in sorted(open_.items()) if (mode := after_boot(gpu.mode))}


def _lost(host: Target, view: View, seen: Mig) -> Iterator[str]:
    wanted, left = _wanted(host, view), seen.after_reboot(host, view).gpus or {}
    users = live.users(view.facts(host.ref), view.estate)
    for pci, gpu in sorted((seen.gpus or {}).items()):
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


def _seen(host: Target, view: View) -> Mig | None:
    state = view.state(host.ref, Mig.kind)
    return state if isinstance(state, Mig) else None


def _wanted(host: Target, view: View) -> Mapping[str, GpuMig]:
    stated = view.stated.get((host.ref, Mig.kind))
    return (stated.settle(host, view).gpus or {}) if isinstance(stated, Mig) else {}
