"""One simulated GPU: graphics type, MIG mode, GPU and compute instances, and the VMs that use it."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from typing import Literal

from vsphere_ai.lab.hardware.boards import PRODUCTS, BoardNames, SimulatedBoard, SimulatedProfile, board

GraphicsType = Literal["basic", "shared", "direct", "sharedDirect"]
VgpuMode = Literal["sameSize", "mixedSize"]
"""The API's words; `direct` is passthrough, `basic` means that no driver is loaded."""


class Nvml(IntEnum):
    """NVML return codes, which nvidia-smi uses as its exit status."""

    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    IN_USE = 19
    INSUFFICIENT_RESOURCES = 23


NVML_TEXT: Mapping[int, str] = {
    Nvml.INVALID_ARGUMENT: "Invalid Argument",
    Nvml.NOT_SUPPORTED: "Not Supported",
    Nvml.NO_PERMISSION: "Insufficient Permissions",
    Nvml.NOT_FOUND: "Not Found",
    Nvml.IN_USE: "In use by another client",
    Nvml.INSUFFICIENT_RESOURCES: "Insufficient Resources",
}


class NvmlError(Exception):
    """The driver refused; `code` is the NVML return code, the text is nvidia-smi's."""

    def __init__(self, code: Nvml) -> None:
        super().__init__(NVML_TEXT[code])
        self.code = code


class Activation(Enum):
    """What became of a request to change the MIG mode."""

    DONE = "done"
    IN_USE = "pending until the GPU's clients are gone"
    NEEDS_RESET = "pending until the host reboots"


@dataclass
class Loads:
    """What runs on a GPU: each says whether it still does."""

    every: list[Callable[[], bool]] = field(default_factory=list)

    def is_loaded(self) -> bool:
        """Return whether anything runs; what has ended is forgotten."""
        self.every = [each for each in self.every if each()]
        return bool(self.every)


@dataclass(frozen=True)
class ComputeProfile:
    """A way to cut compute slices out of a GPU instance; `total` is how many of them fit in an empty one."""

    id: int
    slices: int
    total: int
    starts: tuple[int, ...]
    sm: int
    default: bool


@dataclass(frozen=True)
class ComputeInstance:
    """A part of a GPU instance's compute slices, starting at slice `start` of the instance."""

    id: int
    profile: ComputeProfile
    start: int


@dataclass
class GpuInstance:
    """A MIG slice. `vm` is the VM it serves; `made_by_vsphere` ones vanish when that VM powers off."""

    id: int
    profile: SimulatedProfile
    start: int
    computes: list[ComputeInstance] = field(default_factory=list)
    vm: str | None = None
    made_by_vsphere: bool = False

    @property
    def busy(self) -> bool:
        """Return whether something keeps the instance from being destroyed."""
        return bool(self.computes) or self.vm is not None

    def compute_profiles(self, board: SimulatedBoard) -> tuple[ComputeProfile, ...]:
        """Return the compute instance profiles offered here, smallest first; the whole one is the default."""
        whole = self.profile.compute_slices
        sm = self.profile.engines["sm"]
        sizes = [1] if whole == 1 else [c for c in (1, 2, 3, 4, 7) if c == whole or 2 * c <= whole + 1]
        ids = {1: 7 if board.is_double(self.profile) else 0, 2: 1, 3: 2, 4: 3, 7: 4}
        return tuple(
            ComputeProfile(ids[c], c, whole // c, _compute_starts(c, whole), sm * c // whole, c == whole) for c in sizes
        )

    def free_starts(self, profile: ComputeProfile) -> list[int]:
        """Return where one more compute instance of this profile fits."""
        taken = {s for c in self.computes for s in range(c.start, c.start + c.profile.slices)}
        return [s for s in profile.starts if taken.isdisjoint(range(s, s + profile.slices))]

    def free_computes(self, profile: ComputeProfile) -> int:
        """Return how many more compute instances of this profile fit."""
        return _packed(self.free_starts(profile), profile.slices)

    def create_compute(self, profile: ComputeProfile, start: int | None = None) -> ComputeInstance:
        """Create a compute instance at `start`, or at the first free place; raise `NvmlError`."""
        if start is not None and start not in profile.starts:
            raise NvmlError(Nvml.INVALID_ARGUMENT)
        free = [s for s in self.free_starts(profile) if start in (None, s)]
        if not free:
            raise NvmlError(Nvml.INSUFFICIENT_RESOURCES)
        made = ComputeInstance(_lowest_free(c.id for c in self.computes), profile, free[0])
        self.computes.append(made)
        self.computes.sort(key=lambda c: c.id)
        return made


@dataclass(frozen=True)
class LabVgpu:
    """A vGPU of a powered-on VM. `type_name` is vSphere's, e.g. ``grid_a100-3-20c``; `gi` is None if time-sliced."""

    id: int
    vm: str
    type_name: str
    framebuffer_gb: int
    gi: int | None = None
    part: range | None = None
    """The GB of the frame buffer it holds in mixed-size mode."""


@dataclass
class LabGpu:
    """A GPU in a slot. `pci` is ``0000:3b:00.0``; `driver` the loaded version, empty when none is.

    `clients` are programs that hold the GPU open (a monitoring agent); while there is one, a MIG mode change stays
    pending. `resettable` is false on ESXi: a change on a board that needs a GPU reset waits for the reboot.
    `faults` makes the driver refuse: a key ``mig``, ``create`` or ``destroy`` with the NVML code to answer.
    """

    index: int
    pci: str
    board: SimulatedBoard
    device_id: int
    uuid: str = ""
    driver: str = ""
    configured: GraphicsType = "shared"
    active: GraphicsType = "basic"
    passthrough: bool = False
    vgpu_mode: VgpuMode = "sameSize"
    mig_current: bool = False
    mig_pending: bool = False
    swapped_ids: bool = False
    resettable: bool = False
    numa_node: int = 0
    bridges: tuple[str, ...] = ()
    link: str = ""
    """GPUs of a host with the same one are joined by NVLink."""
    clients: set[str] = field(default_factory=set)
    instances: list[GpuInstance] = field(default_factory=list)
    vgpus: list[LabVgpu] = field(default_factory=list)
    faults: dict[str, Nvml] = field(default_factory=dict)
    loads: Loads = field(default_factory=Loads)
    readings: dict[str, str] = field(default_factory=dict)
    """Values that nvidia-smi on the host shows in place of those of a sound GPU, by the names of its query."""

    def __post_init__(self) -> None:
        if not self.uuid:
            self.uuid = f"GPU-{uuids.uuid5(uuids.NAMESPACE_URL, f'vsphere-ai-lab/{self.index}/{self.pci}')}"

    @classmethod
    def of(
        cls, index: int, pci: str, board_key: str, *, device_id: int | None = None, swapped_ids: bool = False
    ) -> LabGpu:
        """Return a GPU of a board (KeyError if unknown), its first PCI device unless `device_id` says which."""
        made_of = board(board_key)
        return cls(index, pci, made_of, device_id or made_of.device_ids[0], swapped_ids=swapped_ids)

    @cached_property
    def product(self) -> BoardNames:
        """The names of this PCI device."""
        generic = BoardNames(f"NVIDIA {self.board.key.upper()}", f"Device {self.device_id:04x}")
        return PRODUCTS.get(self.device_id, generic)

    @property
    def subsystem_id(self) -> int:
        """The PCI subsystem id; the A100 PCIe has the one of NVIDIA's guide, most others a number of no meaning."""
        return self.board.subsystems.get(self.device_id, 0x145F)

    @property
    def name(self) -> str:
        """The product name nvidia-smi shows."""
        return self.product.name

    @property
    def esx_name(self) -> str:
        """The device name ESXi shows; NVIDIA's host driver writes it without the blank after NVIDIA."""
        return self.name.replace("NVIDIA ", "NVIDIA") if self.driver else self.product.pci_name

    @property
    def smi_bus_id(self) -> str:
        """The PCI address as nvidia-smi writes it, ``00000000:3B:00.0``."""
        return f"0000{self.pci}".upper()

    @property
    def memory_mib(self) -> int:
        """The framebuffer in MiB."""
        return self.product.memory_mib or self.board.memory_gb * 1024

    @property
    def driver_major(self) -> int:
        """The driver branch, e.g. 470; 0 without a driver."""
        return int(self.driver.partition(".")[0] or 0)

    @property
    def mig_capable(self) -> bool:
        """Return whether the board knows MIG."""
        return bool(self.board.profiles)

    @property
    def busy(self) -> bool:
        """Return whether something uses the GPU, so that a mode change must wait."""
        return bool(self.clients or self.vgpus or self.instances)

    @property
    def vms(self) -> tuple[str, ...]:
        """The powered-on VMs that use this GPU, in power-on order."""
        return tuple(dict.fromkeys(v.vm for v in self.vgpus))

    def boot(self, driver: str) -> None:
        """Start from power-on: instances are gone, the configured type and the pending MIG mode take effect."""
        self.driver = driver
        self.instances.clear()
        self.vgpus.clear()
        self.clients.clear()
        self.mig_current = self.mig_pending = self.mig_pending and self.board.mig_mode_persists
        self.activate()

    def activate(self) -> None:
        """Let the configured graphics type take effect, as a boot or a restart of the host engine does."""
        if self.passthrough:
            self.active = "direct"
        else:
            self.active = self.configured if self.driver else "basic"

    @property
    def passed_through(self) -> bool:
        """Return whether VMs get the whole GPU now."""
        return self.active == "direct"

    def pass_through(self) -> None:
        """Bind the GPU to the driver that its passthrough setting asks for, without a boot."""
        self.activate()

    @property
    def waits(self) -> bool:
        """Return whether passthrough, or the configured graphics type, takes effect with the next boot only.

        A GPU that is passed through has no graphics type that could.
        """
        if self.passthrough or self.active == "direct":
            return self.passthrough != (self.active == "direct")
        return bool(self.driver) and self.configured != self.active

    def set_mig(self, enabled: bool) -> Activation:
        """Ask for a MIG mode; raise `NvmlError` where the board has none or a fault is set."""
        self._refuse("mig")
        if not self.mig_capable:
            raise NvmlError(Nvml.NOT_SUPPORTED)
        self.mig_pending = enabled
        if self.mig_current == enabled:
            return Activation.DONE
        if self.busy:
            return Activation.IN_USE
        if self.board.mig_needs_reboot and not self.resettable:
            return Activation.NEEDS_RESET
        self.mig_current = enabled
        return Activation.DONE

    def profiles(self) -> tuple[SimulatedProfile, ...]:
        """Return the profiles the loaded driver knows, in listing order."""
        return tuple(p for p in self.board.profiles if self._knows(p))

    def profile(self, token: str) -> SimulatedProfile | None:
        """Return the profile with this id or name (``1g.5gb`` or ``MIG 1g.5gb``, case matters)."""
        name = token.removeprefix("MIG ")
        return next((p for p in self.profiles() if name in (p.name, self.profile_name(p), str(p.id))), None)

    def profile_name(self, profile: SimulatedProfile) -> str:
        """Return the name the loaded driver prints; R470 calls the whole 80 GB A100 ``7g.79gb``."""
        if self.driver_major < 510 and self.board.key == "a100-80gb" and profile.id == 0:
            return "7g.79gb"
        return profile.name

    def free_starts(self, profile: SimulatedProfile) -> list[int]:
        """Return where one more instance of the profile fits now, ascending."""
        if profile.media and any(i.profile.media for i in self.instances):
            return []
        if not self._engines_free(profile):
            return []
        if self.driver_major < 510 and any(
            {profile.compute_slices, i.profile.compute_slices} == {3, 4} for i in self.instances
        ):
            return []
        taken = {s for i in self.instances for s in range(i.start, i.start + i.profile.size)}
        return [s for s in profile.starts if taken.isdisjoint(range(s, s + profile.size))]

    def _engines_free(self, profile: SimulatedProfile) -> bool:
        """NVML: the ALL_ME profiles prevent the allocation of all but NO_ME profiles, and are refused beside others."""
        others = [i.profile.name for i in self.instances if not i.profile.name.endswith("-me")]
        if profile.name.endswith("+me.all"):
            return not others
        return profile.name.endswith("-me") or not any(name.endswith("+me.all") for name in others)

    def free(self, profile: SimulatedProfile) -> int:
        """Return how many more instances of the profile fit now."""
        return min(_packed(self.free_starts(profile), profile.size), profile.max_instances)

    def create(self, profile: SimulatedProfile, start: int | None = None) -> GpuInstance:
        """Create an instance at `start`, or where the driver puts it by itself; raise `NvmlError`."""
        self._refuse("create")
        if start is not None and start not in profile.starts:
            raise NvmlError(Nvml.INVALID_ARGUMENT)
        free = self.free_starts(profile)
        order = self.board.default_starts(profile) if start is None else (start,)
        chosen = next((s for s in order if s in free), None)
        if chosen is None:
            raise NvmlError(Nvml.INSUFFICIENT_RESOURCES)
        made = GpuInstance(self.board.gi_id(profile, chosen, swapped=self.swapped_ids), profile, chosen)
        self.instances.append(made)
        self.instances.sort(key=lambda i: (self.board.nvml_order(i.profile), i.id))
        return made

    def destroy(self, instance: GpuInstance) -> None:
        """Destroy an instance; raise `NvmlError` while a compute instance or a VM is on it."""
        self._refuse("destroy")
        if instance.busy:
            raise NvmlError(Nvml.IN_USE)
        self.instances.remove(instance)

    def instance(self, gi: int) -> GpuInstance | None:
        """Return the instance with this id."""
        return next((i for i in self.instances if i.id == gi), None)

    def _knows(self, profile: SimulatedProfile) -> bool:
        if self.driver_major < profile.min_driver:
            return False
        return self.driver_major >= 510 or not self.board.is_double(profile)

    def _refuse(self, what: str) -> None:
        if what in self.faults:
            raise NvmlError(self.faults[what])


def _packed(starts: Iterable[int], size: int) -> int:
    """Return how many pieces of `size` fit at these ascending starts without overlap."""
    count, end = 0, -1
    for start in starts:
        if start >= end:
            count, end = count + 1, start + size
    return count


def _compute_starts(slices: int, whole: int) -> tuple[int, ...]:
    step = 4 if slices == 3 else slices
    return tuple(range(0, whole - slices + 1, step))


def _lowest_free(taken: Iterable[int]) -> int:
    used = set(taken)
    return next(i for i in range(len(used) + 1) if i not in used)
