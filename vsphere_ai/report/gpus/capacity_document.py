"""Documents of `capacity`, made of what was read: GPUs with what runs and fits, the verdict on a playbook. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from vsphere_ai.capacity.verdict import Fit, Undecided
from vsphere_ai.documents.capacity import (
    FitDocument,
    GpuRoomDocument,
    HostRoomDocument,
    InstanceDocument,
    MoveDocument,
    PlacedVgpuDocument,
    PowerOnDocument,
    RunningVgpuDocument,
)
from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.gpu.mig.drawing import draw
from vsphere_ai.gpu.mig.fragmentation import fragmentation
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.vgpus.slot import GpuSlot, Takes, most
from vsphere_ai.gpu.vgpus.vgpu import InstanceShare, VgpuProfile
from vsphere_ai.planning.capacity_report import FitVerdict, GpuUse, UsedVgpu


def host_documents(hosts: Mapping[str, Iterable[GpuUse]]) -> tuple[HostRoomDocument, ...]:
    """Return each host with its GPUs."""
    return tuple(HostRoomDocument(host=name, gpus=tuple(map(gpu_document, gpus))) for name, gpus in hosts.items())


def gpu_document(gpu: GpuUse) -> GpuRoomDocument:
    """Return one GPU: what runs, how many more vGPUs of each profile fit, and under MIG its slices."""
    slot = gpu.slot
    more: dict[str, Any] = {"placement_known": not slot.guessed} if slot.has_places else {}
    more |= _slices(slot) if slot.mode == "mig" else {}
    return GpuRoomDocument(
        pci=slot.pci,
        board=slot.board.key,
        title=slot.board.title,
        mode=slot.mode,
        sizes="mixed" if slot.kind.mixed else "equal",
        running=tuple(map(_running, gpu.running)),
        room=room_by_profile(slot),
        **more,
    )


def _running(used: UsedVgpu) -> RunningVgpuDocument:
    guest = used.guest
    return RunningVgpuDocument(
        vm=used.vm,
        profile=used.profile,
        gpu_instance=guest.gi if guest else None,
        placement=guest.placement if guest else None,
        guest_driver=guest.guest_driver if guest else None,
        licence=guest.licence if guest else None,
    )


def _slices(slot: GpuSlot) -> Mapping[str, object]:
    found = fragmentation(slot.board, slot.present, driver_major=slot.driver_major)
    return {
        "slices": slot.board.memory_slices,
        "picture": tuple(draw(slot.board, slot.present)),
        "instances": tuple(map(_instance, slot.present)),
        "free_slices": tuple(found.free),
        "stranded_slices": tuple(found.stranded),
        "defragment": tuple(
            MoveDocument(profile=r.profile, now=r.now, after=r.after, move_for_one_more=tuple(map(_instance, r.move)))
            for r in found.profiles
            if r.move
        ),
    }


def _instance(instance: Instance) -> InstanceDocument:
    return InstanceDocument(profile=instance.profile_name, start=instance.start, in_use=instance.in_use)


def room_by_profile(slot: GpuSlot) -> dict[str, int]:
    """Return how many more vGPUs fit per profile of a GPU's mode, the largest first.

    The profiles are those that the host lists, else the catalogue's.
    """
    board = slot.board
    if slot.offered is not None:
        names: Iterable[str] = slot.offered
    else:
        stem = (slot.spellings or board.vgpu_names or ("",))[0]
        backed = [p.vgpu_suffix for p in board.profiles if p.vgpu_suffix]
        sizes = [*backed, *(f"{t.fb_gb}C" for t in board.time_sliced), *(n for n in board.types if n.endswith("C"))]
        names = (f"{stem}-{size.lower()}" for size in dict.fromkeys(sizes))
    taken = {n: takes for n in names if (takes := slot.kind.takes(n)) is not None}

    def size(takes: Takes) -> tuple[float, ...]:
        if isinstance(takes, VgpuProfile):
            return (-takes.fb_gb,)
        # a whole instance stands before its parts
        profile, part = (takes.profile, -takes.fb_gb) if isinstance(takes, InstanceShare) else (takes, -inf)
        return -profile.memory_slices, -profile.compute_slices, part

    ordered = sorted(taken, key=lambda n: (size(taken[n]), n))
    return {name: most(slot.kind, slot.state, name) for name in ordered}


def verdict_document(verdict: FitVerdict) -> FitDocument:
    """Return a verdict, with the order in which VMs power on, or with the VMs that are left over."""
    answer = verdict.answer
    more: dict[str, Any] = {}
    if isinstance(answer, Fit):
        more |= {"warnings": tuple(answer.warnings), "power_on_order": _places(verdict, answer)}
    else:
        left = tuple(left_over(verdict, answer.vms))
        more |= {"explanation": answer.explanation, "left_over": left, "room": dict(answer.room)}
    return FitDocument(
        fits=verdict.fits,
        exact=answer.exact,
        decided=not isinstance(answer, Undecided),
        spare_hosts=verdict.spare_hosts,
        problems=tuple(map(FindingDocument.of, verdict.problems)),
        **more,
    )


def left_over(verdict: FitVerdict, vms: Iterable[str]) -> list[str]:
    """Return the names of VMs that find no room."""
    return sorted(verdict.targets[ref].name for ref in vms)


def _places(verdict: FitVerdict, fit: Fit) -> tuple[PowerOnDocument, ...]:
    return tuple(
        PowerOnDocument(
            vm=verdict.targets[ref].name,
            host=host,
            registered_on=verdict.homes[ref],
            vgpus=tuple(PlacedVgpuDocument(gpu=p.gpu, profile=p.profile, start=p.start) for p in places),
        )
        for ref, (host, places) in fit.assignment.items()
    )
