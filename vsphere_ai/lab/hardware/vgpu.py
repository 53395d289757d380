"""vGPU types a host offers, and how ESXi places the vGPUs of a VM on its GPUs when the VM powers on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vsphere_ai.lab.hardware.boards import SimulatedBoard, SimulatedProfile
from vsphere_ai.lab.hardware.gpu import GpuInstance, LabGpu, LabVgpu, NvmlError
from vsphere_ai.lab.hardware.host import LabHost

EQUAL_SIZES_ONLY = ("volta", "turing")
ANY_SERIES = (8, 0, 2)
"""The first ESXi release on which types of one size and several series share a GPU."""
SHARED_INSTANCES_ESXI, SHARED_INSTANCES_DRIVER = (9, 0, 1), 580
"""The first ESXi release and driver branch with time-sliced vGPUs in GPU instances (vGPU 19)."""
NO_DEVICE = "No graphics device is available for vGPU '{}'."
NO_CAPACITY = "The amount of graphics resource available in the parent resource pool is insufficient for the operation."


@dataclass(frozen=True)
class Together:
    """vGPUs of a VM, by their place in its list, that need a GPU each; `linked` ones GPUs joined by NVLink."""

    places: tuple[int, ...]
    linked: bool


class NoGraphicsResource(Exception):
    """The VM's vGPUs do not fit; `reason` is ESXi's text, `type_name` the vGPU that found no place."""

    def __init__(self, reason: str, type_name: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.type_name = type_name


@dataclass(frozen=True)
class VgpuType:
    """A vGPU type of a board. `profile` is the MIG profile behind it, None if time-sliced.

    `per_instance` vGPUs of one frame-buffer size share a GPU instance, 1 where each has its own.
    """

    name: str
    framebuffer_gb: int
    max_per_gpu: int
    profile: SimulatedProfile | None = None
    per_instance: int = 1

    @property
    def smi_name(self) -> str:
        """The name nvidia-smi prints, e.g. ``GRID A100-3-20C`` for ``grid_a100-3-20c``."""
        brand, _, rest = self.name.partition("_")
        board, _, size = rest.partition("-")
        return f"{'GRID' if brand == 'grid' else 'NVIDIA'} {board.replace('_', ' ').upper()}-{size.upper()}"


def board_types(gpu: LabGpu) -> tuple[VgpuType, ...]:
    """Return every type the loaded driver knows for this very device, MIG-backed ones first."""
    asked = (gpu.device_id, gpu.driver)
    board, known = _KNOWN.get((gpu.board.key, *asked), (None, ()))
    if board is not gpu.board:
        known = _types(gpu)
        _KNOWN[(gpu.board.key, *asked)] = gpu.board, known
    return known


_KNOWN: dict[tuple[str, int, str], tuple[SimulatedBoard | None, tuple[VgpuType, ...]]] = {}


def _types(gpu: LabGpu) -> tuple[VgpuType, ...]:
    stem = gpu.board.vgpu_names.get(gpu.device_id)
    if not gpu.driver or stem is None:
        return ()
    found = (_type(gpu, stem, ending, most) for ending, most in gpu.board.vgpu_types[gpu.device_id].items())
    return tuple(sorted((t for t in found if t), key=lambda t: t.profile is None))


def _type(gpu: LabGpu, stem: str, ending: str, most: int) -> VgpuType | None:
    slices, backed, size = ending.rpartition("-")
    variant = size.lstrip("0123456789")[1:]
    name, gb = f"{stem}-{ending.lower()}", int(size.removesuffix(variant)[:-1])
    if not backed:
        return VgpuType(name, gb, most)
    known = [p for p in gpu.profiles() if p.compute_slices == int(slices) and p.variant == variant]
    whole = next((p for p in known if p.vgpu == ending or (not p.vgpu and p.gb == gb)), None)
    if whole is not None:
        return VgpuType(name, gb, most, whole)
    shared = next((p for p in known if p.gb > gb), None)
    if shared is None or not gpu.board.shares_instances or gpu.driver_major < SHARED_INSTANCES_DRIVER:
        return None
    return VgpuType(name, gb, most, shared, most // shared.max_instances)


def offered_types(gpu: LabGpu) -> tuple[VgpuType, ...]:
    """Return the types this GPU can carry in its present mode: none unless it is active as Shared Direct."""
    if gpu.active != "sharedDirect":
        return ()
    return tuple(t for t in board_types(gpu) if (t.profile is not None) == gpu.mig_current)


def supported_types(host: LabHost) -> list[str]:
    """Return the profile names as ``sharedPassthruGpuTypes`` lists them, of all GPUs in their present modes."""
    with host.lock:
        return sorted({t.name for gpu in host.gpus for t in offered_types(gpu) if _carries(host, t)})


def known_types(host: LabHost) -> dict[str, VgpuType]:
    """Return every type of the host's boards whatever their mode, by name."""
    with host.lock:
        return {t.name: t for gpu in host.gpus for t in board_types(gpu) if _carries(host, t)}


def _carries(host: LabHost, kind: VgpuType) -> bool:
    """Return whether this ESXi has such types: those that share a GPU instance came with 9.0.1."""
    return kind.per_instance == 1 or host.release >= SHARED_INSTANCES_ESXI


def power_on(host: LabHost, vm: str, type_names: Sequence[str], groups: Sequence[Together] = ()) -> tuple[LabVgpu, ...]:
    """Claim the vGPUs of a VM, all or none, those of device groups together; raise `NoGraphicsResource`.

    The assignment policy rules over time-sliced types only. A MIG-backed type takes a free GPU instance of its
    profile if there is one, else vSphere creates it where the driver puts it.
    """
    with host.changing():
        if any(v.vm == vm for gpu in host.gpus for v in gpu.vgpus):
            raise ValueError(f"{vm} already has its vGPUs")
        claims: list[tuple[LabGpu, LabVgpu]] = []
        if not _place(host, vm, list(type_names), claims, groups):
            raise _refusal(host, type_names)
        if claims:
            host.notify("vgpu")
        return tuple(vgpu for _, vgpu in claims)


def power_off(host: LabHost, vm: str) -> bool:
    """Release the vGPUs of a VM and the GPU instances vSphere made for them; return whether it had any."""
    with host.changing():
        held = [(gpu, vgpu) for gpu in host.gpus for vgpu in gpu.vgpus if vgpu.vm == vm]
        for gpu, vgpu in held:
            _release(gpu, vgpu)
        if held:
            host.notify("vgpu")
        return bool(held)


def fits(host: LabHost, type_names: Sequence[str], groups: Sequence[Together] = ()) -> bool:
    """Return whether a VM with these vGPUs could power on now."""
    with host.lock:
        claims: list[tuple[LabGpu, LabVgpu]] = []
        placed = _place(host, "", list(type_names), claims, groups)
        for gpu, vgpu in reversed(claims):
            _release(gpu, vgpu)
        return placed


def lend(
    host: LabHost, vm: str, type_names: Sequence[str], groups: Sequence[Together] = ()
) -> Callable[[], None] | None:
    """Claim the vGPUs of a VM for a moment, unseen; return how to give them back, None where they do not fit."""
    with host.lock:
        claims: list[tuple[LabGpu, LabVgpu]] = []
        if not _place(host, vm, list(type_names), claims, groups):
            return None

    def give_back() -> None:
        with host.lock:
            for gpu, vgpu in reversed(claims):
                _release(gpu, vgpu)

    return give_back


def _place(
    host: LabHost, vm: str, names: list[str], claims: list[tuple[LabGpu, LabVgpu]], groups: Sequence[Together] = ()
) -> bool:
    if not all(_joined([claims[p][0] for p in g.places if p < len(claims)], g.linked) for g in groups):
        return False
    if not names:
        return True
    for gpu in _in_order(host, names[0]):
        vgpu = _claim(host, gpu, vm, names[0])
        if vgpu is None:
            continue
        claims.append((gpu, vgpu))
        if _place(host, vm, names[1:], claims, groups):
            return True
        claims.pop()
        _release(gpu, vgpu)
    return False


def _joined(gpus: list[LabGpu], linked: bool) -> bool:
    """Return whether these are different GPUs, and joined if they have to be."""
    apart = len({g.pci for g in gpus}) == len(gpus)
    return apart and (not linked or not gpus or {g.link for g in gpus} == {gpus[0].link or None})


def _in_order(host: LabHost, name: str) -> list[LabGpu]:
    if "-" in name.partition("-")[2]:  # an instance that is there is taken before one is made (unverified)
        return sorted(host.gpus, key=lambda g: (not _has_instance(g, name), g.index))
    sign = 1 if host.assignment_policy == "performance" else -1
    return sorted(host.gpus, key=lambda g: (sign * len(g.vgpus), g.index))


def _has_instance(gpu: LabGpu, name: str) -> bool:
    """Return whether a GPU has an instance that is free for a MIG-backed type, or shared by it and not full."""
    wanted = next((t for t in offered_types(gpu) if t.name == name), None)
    if wanted is None or wanted.profile is None:
        return False
    return any(i.profile == wanted.profile and i.vm is None for i in gpu.instances) or bool(_with_room(gpu, wanted))


def _claim(host: LabHost, gpu: LabGpu, vm: str, name: str) -> LabVgpu | None:
    wanted = next((t for t in offered_types(gpu) if t.name == name and _carries(host, t)), None)
    if wanted is None:
        return None
    instance: GpuInstance | None = None
    part: range | None = None
    if wanted.profile is None and mixes_sizes(gpu):
        part = _free_part(gpu, wanted)
        if part is None:
            return None
    elif wanted.profile is None:
        if len(gpu.vgpus) >= wanted.max_per_gpu or not all(_shares(host, v, wanted) for v in gpu.vgpus):
            return None
    else:
        instance = _with_room(gpu, wanted) or _instance_for(gpu, wanted.profile)
        if instance is None:
            return None
        instance.vm = vm
    vgpu = LabVgpu(host.next_vgpu_id(), vm, name, wanted.framebuffer_gb, instance.id if instance else None, part)
    gpu.vgpus.append(vgpu)
    return vgpu


def mixes_sizes(gpu: LabGpu) -> bool:
    """Return whether time-sliced vGPUs of several sizes share this GPU: never before Ampere, whatever is configured."""
    return gpu.vgpu_mode == "mixedSize" and gpu.board.architecture not in EQUAL_SIZES_ONLY


def _shares(host: LabHost, other: LabVgpu, wanted: VgpuType) -> bool:
    """Return whether a same-size GPU takes one type beside another: from ESXi 8.0 U2 every series of its size."""
    if host.release >= ANY_SERIES:
        return other.framebuffer_gb == wanted.framebuffer_gb
    return other.type_name == wanted.name


def _free_part(gpu: LabGpu, wanted: VgpuType) -> range | None:
    """Return where a type goes in mixed-size mode: into the smallest gap that has a place for it, at its first place.

    That vSphere keeps fragmentation low is published (Frank Denneman, "Mixed Size vGPU Mode in Practice", 2026); by
    which rule it does is not.
    """
    taken = {gb for v in gpu.vgpus for gb in v.part or ()}
    parts = (range(begin, begin + wanted.framebuffer_gb) for begin in gpu.board.places(wanted.framebuffer_gb))
    free = [part for part in parts if taken.isdisjoint(part)]
    return min(free, key=lambda part: (_gap(part, taken, gpu.board.memory_gb), part.start), default=None)


def _gap(part: range, taken: set[int], memory_gb: int) -> int:
    """Return how many GB are free around a part, itself included."""
    begin, end = part.start, part.stop
    while begin > 0 and begin - 1 not in taken:
        begin -= 1
    while end < memory_gb and end not in taken:
        end += 1
    return end - begin


def _with_room(gpu: LabGpu, wanted: VgpuType) -> GpuInstance | None:
    """Return an instance that vGPUs of the same size share and that takes one more."""
    if wanted.per_instance == 1:
        return None
    for instance in gpu.instances:
        here = [v for v in gpu.vgpus if v.gi == instance.id]
        alike = all(v.framebuffer_gb == wanted.framebuffer_gb for v in here)
        if here and alike and instance.profile == wanted.profile and len(here) < wanted.per_instance:
            return instance
    return None


def _instance_for(gpu: LabGpu, profile: SimulatedProfile) -> GpuInstance | None:
    free = next((i for i in gpu.instances if i.profile == profile and i.vm is None), None)
    if free is not None:
        return free
    try:
        made = gpu.create(profile)
    except NvmlError:
        return None
    made.made_by_vsphere = True
    return made


def _release(gpu: LabGpu, vgpu: LabVgpu) -> None:
    gpu.vgpus.remove(vgpu)
    instance = gpu.instance(vgpu.gi) if vgpu.gi is not None else None
    if instance is None:
        return
    others = [v.vm for v in gpu.vgpus if v.gi == instance.id]
    instance.vm = others[0] if others else None
    if instance.made_by_vsphere and not others:
        gpu.instances.remove(instance)


def _refusal(host: LabHost, names: Sequence[str]) -> NoGraphicsResource:
    for name in names:
        if not any(name == t.name for gpu in host.gpus for t in offered_types(gpu)):
            return NoGraphicsResource(NO_DEVICE.format(name), name)
    return NoGraphicsResource(NO_CAPACITY, names[-1])
