"""Checks of vGPUs of a VM: how many, of which boards, and settings that contradict them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.vm_settings import firmware_problems, memory_problems, version_problems
from vsphere_ai.resources.vgpu.offer import is_whole, parsed_name

MAX_BEFORE_8 = 4  # vSphere 7.0: up to four vGPUs a VM, of one profile
MULTI_VGPU_VERSION = 15  # several vGPUs in one VM need compatibility ESXi 6.7 U2


def contradictions(target: Target, view: View) -> Iterator[Problem]:
    """Two settings of one play that would undo each other at every run."""
    yield from memory_problems(target, view, "vgpu.memory", "a vGPU needs")
    yield from firmware_problems(target, view, "vgpu.firmware", "a vGPU needs")


def count_problems(target: Target, view: View, wanted: Counter[str]) -> Iterator[Problem]:
    """Yield the problems of several vGPUs in one VM."""
    total = sum(wanted.values())
    if total > 1 and view.estate.about.api_numbers < (8,):
        if total > MAX_BEFORE_8:
            text = f"{total} vGPUs; vSphere 7.0 allows {MAX_BEFORE_8} in a VM"
            yield Finding.problem(target, "vgpu.count", text, f"list at most {MAX_BEFORE_8}")
        if len(wanted) > 1:
            yield Finding.problem(
                target,
                "vgpu.mixed",
                "vSphere 7.0 wants all vGPUs of a VM to have the same profile",
                f"given: {', '.join(sorted(wanted))}",
            )
        host = view.estate.host_of(target.ref)
        partial = sorted(p for p in wanted if not is_whole(p, host, view))
        if partial:
            yield Finding.problem(
                target,
                "vgpu.partial",
                f"vSphere 7.0 gives a VM several vGPUs only of whole GPUs, not {', '.join(partial)}",
                "use profiles with the GPU's full framebuffer, or vSphere 8.0",
            )
    if total > 1:
        yield from version_problems(target, view, "vgpu.hardware-version", MULTI_VGPU_VERSION, "several vGPUs need")
    boards = {p.board for p in map(parsed_name, wanted) if p}
    if len(boards) > 1:
        text = f"vGPUs of one VM come from one type of board, not {sorted(boards)}"
        yield Finding.problem(target, "vgpu.boards", text, "use profiles of one board")
