"""Topics of compatibility rules: what of vSphere and its hardware a rule is about, and a state of a kind touches."""

from __future__ import annotations

from enum import Flag, auto


class Topic(Flag):
    """What rules are about. A kind says which topics it touches, so that no rule has to know which kinds there are.

    Several kinds may touch one topic: a vendor device group gives a VM vGPUs just as a list of profiles does.
    """

    NONE = 0
    HOST_GRAPHICS = auto()
    MIG = auto()
    VGPU = auto()
    PASSTHROUGH = auto()
    WHOLE_DEVICES = auto()
    DEVICE_GROUPS = auto()
    PVRDMA = auto()
    PVRDMA_HOST = auto()
    ROCE = auto()
    NIC_SETTINGS = auto()
    VIRTUAL_HARDWARE = auto()

    SHARED_GPUS = HOST_GRAPHICS | MIG | VGPU
    """GPUs that VMs share by the NVIDIA driver of their host."""
