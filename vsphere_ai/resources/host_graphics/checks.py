"""Checks of the vGPU mode of a host: the release it came with, and GPUs that never mix sizes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vsphere_ai.gpu.vgpus import vgpu_mode
from vsphere_ai.model.estate import api_fields
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import factories

problem = partial(factories.problem, "graphics")


def mode_problems(target: Target, view: View, wanted: str | None) -> Iterator[Problem]:
    """Yield why this vCenter, the host or its GPUs do not have a vGPU mode that the playbook states."""
    facts = view.facts(target.ref)
    server, esxi = view.estate.about.api_numbers, vgpu_mode.release(facts)
    if server < vgpu_mode.FIRST_API or esxi < vgpu_mode.FIRST_ESXI:
        found, remedy = api_fields.why_missing(view.estate.about, vgpu_mode.FIRST_API)
        here = f"this host ESXi {'.'.join(map(str, esxi)) or 'unknown'}"
        message = f"vgpu_mode needs vCenter Server and ESXi 8.0 U3; {found}, {here}"
        remedy = remedy or "leave vgpu_mode out, or update vCenter Server and the host first"
        yield problem(target, "vgpu-mode-version", message, remedy)
    for pci, board in vgpu_mode.equal_sizes_only(facts).items() if wanted == "mixed_size" else ():
        message = f"GPU {pci} ({board.title}) does not support vGPUs of mixed sizes"
        remedy = "write vgpu_mode: same_size for this host; mixed sizes need an Ampere GPU or newer"
        yield problem(target, "vgpu-mode-board", message, remedy)
