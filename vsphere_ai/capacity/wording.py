"""One sentence that says why VMs do not fit on GPUs, from what the packing proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vsphere_ai.capacity.gpu import GpuSlot
from vsphere_ai.capacity.items import Item, Misfit
from vsphere_ai.gpu.vgpu import VgpuNameError, parse, renamed

FEW = 4


def sentence(misfit: Misfit, slots: Sequence[GpuSlot]) -> str:
    """Return why the items of a misfit do not fit on these GPUs; a guess is worded as such."""
    told = misfit.told
    proof = [misfit.items[i] for i in told.proof]
    for item in misfit.items:
        if not any(s.host in item.hosts and s.kind.takes(item.profile) for s in slots):
            return _nowhere(item, slots)
    where = _where(proof or misfit.items, slots)
    if proof:
        return f"{told.wanted} of {_names(proof)} are to power on {where}, where {told.room or 'no more'} fit"
    total = sum(len(i.owners) for i in misfit.items)
    if told.exact:
        names = _names(misfit.items)
        return f"{total} vGPUs ({names}) do not fit together {where}, however they are divided among the GPUs"
    left = [i for i, n in zip(misfit.items, told.left, strict=True) if n]
    return f"no place was found {where} for {sum(told.left)} of {total} vGPUs ({_names(left)}); there may be one"


def _nowhere(item: Item, slots: Sequence[GpuSlot]) -> str:
    """Say why no GPU ever takes a profile."""
    here = [s for s in slots if s.host in item.hosts]
    hosts = listed(sorted(item.hosts)) or "no host"
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
    boards = listed(sorted({s.board.title for s in here}))
    right = listed(sorted({name for s in here for name in renamed(wanted, s.board)} - {item.profile}))
    return f"no GPU of {hosts} offers {item.profile} ({boards}){f'; it is called {right} there' if right else ''}"


def _where(items: Iterable[Item], slots: Sequence[GpuSlot]) -> str:
    wanted = tuple(items)
    able = [s for s in slots if any(s.host in i.hosts and s.kind.takes(i.profile) for i in wanted)]
    return f"on the {len(able)} GPU{'s' if len(able) != 1 else ''} of {listed(sorted({s.host for s in able}))}"


def _names(items: Iterable[Item]) -> str:
    return " and ".join(dict.fromkeys(i.profile for i in items))


def listed(names: Sequence[str]) -> str:
    """Return names with commas, the first few only when they are many."""
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{', '.join(names[: FEW - 1])} and {len(names) - FEW + 1} others"
