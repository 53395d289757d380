"""Sentence that says why VMs do not fit on GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vsphere_ai.capacity.assign import Remainder
from vsphere_ai.capacity.items import DemandItem, items_of
from vsphere_ai.gpu.vgpus.slot import GpuSlot
from vsphere_ai.gpu.vgpus.vgpu import VgpuNameError, parse, renamed
from vsphere_ai.model.text import short_list


def sentence(remainder: Remainder, slots: Sequence[GpuSlot]) -> str:
    """Return why VMs are left over on these GPUs; without a proof it is worded as a guess."""
    wanted = items_of(remainder.classes)
    for item in wanted:
        if not any(s.host in item.hosts and s.kind.takes(item.profile) for s in slots):
            return _nowhere(item, slots)
    short = remainder.shortage
    where = _where(short.items if short else wanted, slots)
    if short:
        return f"{short.wanted} of {_names(short.items)} are to power on {where}, where {short.room or 'no more'} fit"
    total = sum(wanted.values())
    if remainder.exact:
        return f"{total} vGPUs ({_names(wanted)}) do not fit together {where}, however they are divided among the GPUs"
    left = zip(remainder.classes, remainder.left, strict=True)
    names = [(p, n) for each, n in left if n for p in each.profiles]
    count = sum(n for _, n in names)
    listing = " and ".join(dict.fromkeys(p for p, _ in names))
    return f"no place was found {where} for {count} of {total} vGPUs ({listing}); there may be one"


def _nowhere(item: DemandItem, slots: Sequence[GpuSlot]) -> str:
    """Say why no GPU ever takes a profile."""
    here = [s for s in slots if s.host in item.hosts]
    hosts = short_list(sorted(item.hosts)) or "no host"
    if not here:
        return f"{item.profile} needs a GPU, and there is none on {hosts}"
    try:
        wanted = parse(item.profile)
    except VgpuNameError:
        return f"{item.profile} is not a vGPU profile name"
    same = [s for s in here if wanted.stem in s.board.vgpu_names]
    if same and all((s.mode == "mig") != wanted.is_mig for s in same):
        mode = "in MIG mode" if wanted.is_mig else "out of MIG mode"
        return f"{item.profile} needs a GPU {mode}, and there is none on {hosts}"
    boards = short_list(sorted({s.board.title for s in here}))
    right = short_list(sorted({name for s in here for name in renamed(wanted, s.board)} - {item.profile}))
    return f"no GPU of {hosts} offers {item.profile} ({boards}){f'; it is called {right} there' if right else ''}"


def _where(items: Iterable[DemandItem], slots: Sequence[GpuSlot]) -> str:
    wanted = tuple(items)
    able = [s for s in slots if any(s.host in i.hosts and s.kind.takes(i.profile) for i in wanted)]
    return f"on the {len(able)} GPU{'s' if len(able) != 1 else ''} of {short_list(sorted({s.host for s in able}))}"


def _names(items: Iterable[DemandItem]) -> str:
    return " and ".join(dict.fromkeys(i.profile for i in items))
