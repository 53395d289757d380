"""vGPU types a host offers, and how ESXi places the vGPUs of a VM on its GPUs when the VM powers on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vsphere_ai.lab.hardware.boards import Profile
from vsphere_ai.lab.hardware.gpu import Gpu, GpuInstance, NvmlError, Vgpu
from vsphere_ai.lab.hardware.host import Host

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
    """A vGPU type of a board. `profile` is the MIG profile behind it, None if time-sliced."""

    name: str
    framebuffer_gb: int
    max_per_gpu: int
    profile: Profile | None = None

    @property
    def smi_name(self) -> str:
        """The name nvidia-smi prints, e.g. ``GRID A100-3-20C`` for ``grid_a100-3-20c``."""
        brand, _, rest = self.name.partition("_")
        board, _, size = rest.partition("-")
        return f"{'GRID' if brand == 'grid' else 'NVIDIA'} {board.replace('_', ' ').upper()}-{size.upper()}"


def board_types(gpu: Gpu) -> tuple[VgpuType, ...]:
    """Return every type the loaded driver knows for this board, MIG-backed ones first."""
    board = gpu.board
    if not gpu.driver or not board.vgpu_prefix:
        return ()
    stem = f"{board.vgpu_prefix}{gpu.product.vgpu_board or board.vgpu_boards[0]}"
    mig = [
        VgpuType(f"{stem}-{p.vgpu.lower()}", int(p.name.split("g.")[1].split("gb")[0]), p.max_instances, p)
        for p in gpu.profiles()
        if p.vgpu
    ]
    series = "c" if gpu.mig_capable else "cq"
    sliced = [VgpuType(f"{stem}-{gb}{s}", gb, most) for s in series for gb, most in board.time_sliced.items()]
    return (*mig, *sliced)


def offered_types(gpu: Gpu) -> tuple[VgpuType, ...]:
    """Return the types this GPU can carry in its present mode: none unless it is active as Shared Direct."""
    if gpu.active != "sharedDirect":
        return ()
    return tuple(t for t in board_types(gpu) if (t.profile is not None) == gpu.mig_current)


def supported_types(host: Host) -> list[str]:
    """Return the profile names as ``sharedPassthruGpuTypes`` lists them, of all GPUs in their present modes."""
    with host.lock:
        return sorted({t.name for gpu in host.gpus for t in offered_types(gpu)})


def known_types(host: Host) -> dict[str, VgpuType]:
    """Return every type of the host's boards whatever their mode, by name."""
    with host.lock:
        return {t.name: t for gpu in host.gpus for t in board_types(gpu)}


def power_on(host: Host, vm: str, type_names: Sequence[str], groups: Sequence[Together] = ()) -> tuple[Vgpu, ...]:
    """Claim the vGPUs of a VM, all or none, those of device groups together; raise `NoGraphicsResource`.

    The assignment policy rules over time-sliced types only. A MIG-backed type takes a free GPU instance of its
    profile if there is one, else vSphere creates it where the driver puts it.
    """
    with host.changing():
        if any(v.vm == vm for gpu in host.gpus for v in gpu.vgpus):
            raise ValueError(f"{vm} already has its vGPUs")
        claims: list[tuple[Gpu, Vgpu]] = []
        if not _place(host, vm, list(type_names), claims, groups):
            raise _refusal(host, type_names)
        if claims:
            host.notify("vgpu")
        return tuple(vgpu for _, vgpu in claims)


def power_off(host: Host, vm: str) -> bool:
    """Release the vGPUs of a VM and the GPU instances vSphere made for them; return whether it had any."""
    with host.changing():
        held = [(gpu, vgpu) for gpu in host.gpus for vgpu in gpu.vgpus if vgpu.vm == vm]
        for gpu, vgpu in held:
            _release(gpu, vgpu)
        if held:
            host.notify("vgpu")
        return bool(held)


def fits(host: Host, type_names: Sequence[str], groups: Sequence[Together] = ()) -> bool:
    """Tell whether a VM with these vGPUs could power on now."""
    with host.lock:
        claims: list[tuple[Gpu, Vgpu]] = []
        placed = _place(host, "", list(type_names), claims, groups)
        for gpu, vgpu in reversed(claims):
            _release(gpu, vgpu)
        return placed


def _place(
    host: Host, vm: str, names: list[str], claims: list[tuple[Gpu, Vgpu]], groups: Sequence[Together] = ()
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


def _joined(gpus: list[Gpu], linked: bool) -> bool:
    """Tell whether these are different GPUs, and joined if they have to be."""
    apart = len({g.pci for g in gpus}) == len(gpus)
    return apart and (not linked or not gpus or {g.link for g in gpus} == {gpus[0].link or None})


def _in_order(host: Host, name: str) -> list[Gpu]:
    if "-" in name.partition("-")[2]:
        return list(host.gpus)
    sign = 1 if host.assignment_policy == "performance" else -1
    return sorted(host.gpus, key=lambda g: (sign * len(g.vgpus), g.index))


def _claim(host: Host, gpu: Gpu, vm: str, name: str) -> Vgpu | None:
    wanted = next((t for t in offered_types(gpu) if t.name == name), None)
    if wanted is None:
        return None
    instance: GpuInstance | None = None
    if wanted.profile is None:
        if len(gpu.vgpus) >= wanted.max_per_gpu or any(v.type_name != name for v in gpu.vgpus):
            return None
    else:
        instance = _instance_for(gpu, wanted.profile)
        if instance is None:
            return None
        instance.vm = vm
    vgpu = Vgpu(host.next_vgpu_id(), vm, name, wanted.framebuffer_gb, instance.id if instance else None)
    gpu.vgpus.append(vgpu)
    return vgpu


def _instance_for(gpu: Gpu, profile: Profile) -> GpuInstance | None:
    free = next((i for i in gpu.instances if i.profile == profile and i.vm is None), None)
    if free is not None:
        return free
    try:
        made = gpu.create(profile)
    except NvmlError:
        return None
    made.made_by_vsphere = True
    return made


def _release(gpu: Gpu, vgpu: Vgpu) -> None:
    gpu.vgpus.remove(vgpu)
    instance = gpu.instance(vgpu.gi) if vgpu.gi is not None else None
    if instance is None:
        return
    instance.vm = None
    if instance.made_by_vsphere:
        gpu.instances.remove(instance)


def _refusal(host: Host, names: Sequence[str]) -> NoGraphicsResource:
    for name in names:
        if not any(name == t.name for gpu in host.gpus for t in offered_types(gpu)):
            return NoGraphicsResource(NO_DEVICE.format(name), name)
    return NoGraphicsResource(NO_CAPACITY, names[-1])
