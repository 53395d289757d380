"""Answer of `capacity`: what runs on each GPU, and the verdict on the VMs of a playbook. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vsphere_ai.capacity.verdict import Answer, Fit
from vsphere_ai.gpu.smi.running import RunningVgpu
from vsphere_ai.gpu.vgpus.slot import GpuSlot
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Target


@dataclass(frozen=True)
class UsedVgpu:
    """A vGPU of a running VM; `guest` is what nvidia-smi on the host reports of it, None where it reports nothing."""

    vm: str
    profile: str
    guest: RunningVgpu | None = None


@dataclass(frozen=True)
class GpuUse:
    """A GPU of a host, and the vGPUs that run on it."""

    slot: GpuSlot
    running: tuple[UsedVgpu, ...] = ()


@dataclass(frozen=True)
class FitVerdict:
    """Whether the VMs of a playbook fit: at home when none has to change its host; `homes` maps VM to present host.

    Where they fit only once VMs are on other hosts, the plan is refused, and `problems`, which are those of the plan,
    name the VMs and the hosts.
    """

    answer: Answer
    at_home: bool
    targets: Mapping[str, Target]
    homes: Mapping[str, str]
    spare_hosts: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def fits(self) -> bool:
        """Return whether every VM can power on where it is registered."""
        return isinstance(self.answer, Fit) and self.at_home

    @property
    def refused(self) -> bool:
        """Return whether the VMs do not fit, or the plan of the playbook is refused."""
        return not self.fits or bool(self.problems)
