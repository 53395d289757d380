"""GPUs: the host has the types of the VM's vGPUs, and a place for each of them.

A place is a GPU of the same size (same-size mode), a part of the frame buffer that is free (mixed-size mode), a GPU
instance that is there, or one that the driver can still make. Faults: InsufficientGraphicsResourcesFault, and the text
"No graphics device is available for vGPU" for a type that the host does not offer (NVIDIA vGPU Deployment Guide).
"""

from __future__ import annotations

import re
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.hardware import vgpu as vgpus
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.managed.refusals import power_on_failed
from vsphere_ai.lab.managed.vms import device_groups

VMIOP = vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo
SEVERAL_TYPES = (8, 0, 0)
"""The first ESXi release on which the vGPUs of a VM may be of several types."""
_FRAME_BUFFER = re.compile(r"-(\d+)[a-z]+$")


def profiles(config: Any) -> list[str]:
    """Return the vGPU types of a configuration, in device order."""
    return [d.backing.vgpu for d in config.hardware.device if isinstance(d.backing, VMIOP)]


@requirement(92, RUNS | {Occasion.START}, CheckTests.HOST)
def gpu_types(case: LabCase) -> Faults:
    """Yield a fault where the boards of the host, or the settings of the VM, are not what its vGPUs need."""
    wanted, machine = profiles(case.config), case.farm.host(case.host)
    if not wanted or case.runs_here:
        return
    unsuitable = [*_unsuitable(case, wanted, machine)]
    yield from unsuitable
    if not unsuitable and not {*wanted} <= {*vgpus.supported_types(machine)}:
        yield no_graphics(machine, wanted)


@requirement(93, RUNS | {Occasion.START}, CheckTests.NONE)
def gpu_places(case: LabCase) -> Faults:
    """Yield a fault where the GPUs of the host have no place left for the vGPUs."""
    wanted, machine = profiles(case.config), case.farm.host(case.host)
    if wanted and not case.runs_here and not vgpus.fits(machine, wanted, device_groups.together(case.vm)):
        yield no_graphics(machine, wanted)


def _unsuitable(case: LabCase, wanted: list[str], machine: LabHost) -> Faults:
    """Yield a fault where the host's boards and the VM's settings do not go together, whatever runs there."""
    known = vgpus.known_types(machine)
    missing = next((name for name in wanted if name not in known), None)
    if missing is not None:
        yield power_on_failed(vgpus.NO_DEVICE.format(missing))
        return
    boards = [gpu.board for gpu in machine.gpus]
    full = [name for name in wanted if any(frame_buffer_gb(name) == b.memory_gb for b in boards)]
    if len(wanted) > 1 and (len(set(wanted)) > 1 or not full) and machine.release < SEVERAL_TYPES:
        yield power_on_failed("Multiple vGPUs of a virtual machine must be of one type with the full frame buffer.")


def no_graphics(machine: LabHost, wanted: list[str]) -> Exception:
    """Return the fault of vGPUs that find no place."""
    offered = vgpus.supported_types(machine)
    missing = next((name for name in wanted if name not in offered), None)
    if missing is not None and offered:
        return power_on_failed(vgpus.NO_DEVICE.format(missing))
    error: Exception = vim.fault.InsufficientGraphicsResourcesFault(msg=vgpus.NO_CAPACITY)
    return error


def frame_buffer_gb(profile: str) -> int:
    """Return the memory of a vGPU type in GB, 0 where its name has none."""
    found = _FRAME_BUFFER.search(profile)
    return int(found.group(1)) if found else 0
