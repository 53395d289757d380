"""Names of GPU models, by which hosts and VMs are selected."""

from __future__ import annotations

import pytest

from vsphere_ai.gpu import models
from vsphere_ai.gpu.catalog import boards
from vsphere_ai.gpu.devices import VGPU_BACKING


def pci(device_id, **more):
    return {
        "id": "0000:3b:00.0",
        "vendorId": 0x10DE,
        "classId": 0x0302,
        "deviceId": device_id,
        "subDeviceId": 1,
        **more,
    }


def virtual(backing, **more):
    return {"_typeName": "VirtualPCIPassthrough", "backing": {"_typeName": backing, **more}}


def test_a_host_has_the_names_of_its_boards():
    assert {"A100", "a100-40gb", "A100 PCIe 40GB"} <= set(models.of_host([pci(0x20F1)]))
    assert models.of_host([pci(0x1, deviceName="Some GPU")]) == ("Some GPU",)
    assert models.of_host([pci(0x20F1, vendorId=0x15B3)]) == ()


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (virtual(VGPU_BACKING, vgpu="grid_a100-20c"), "A100"),
        (virtual(VGPU_BACKING, vgpu="nvidia_h100-2-20c"), "H100"),
        (virtual("VirtualPCIPassthroughDeviceBackingInfo", vendorId=0x10DE, deviceId="20b5"), "a100-80gb"),
        (
            virtual(
                "VirtualPCIPassthroughDynamicBackingInfo", allowedDevice=({"vendorId": 0x10DE, "deviceId": 0x20F1},)
            ),
            "a100-40gb",
        ),
    ],
)
def test_a_vm_has_the_names_of_the_boards_of_its_gpus(device, name):
    assert name in models.of_vm([device])


@pytest.mark.parametrize(
    "device",
    [
        virtual(VGPU_BACKING, vgpu="no profile"),
        virtual(VGPU_BACKING, vgpu="grid_z9-20c"),
        virtual("VirtualPCIPassthroughDeviceBackingInfo", vendorId=0x15B3, deviceId="101b"),
        {"_typeName": "VirtualDisk"},
    ],
)
def test_what_is_no_known_gpu_has_no_name(device):
    assert models.of_vm([device]) == ()


def test_every_board_has_a_family():
    assert {b.key.partition("-")[0].upper() for b in boards()} <= set(models.all_names())
