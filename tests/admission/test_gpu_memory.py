"""GPU memory in the addresses of a VM: the 64-bit MMIO window, and the firmware that maps it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.admission_farm import answer, farm, gb, vm

from vsphere_ai.admission.admit import admit
from vsphere_ai.admission.machine import facts_after, machine_of
from vsphere_ai.fabric.pci import Claim
from vsphere_ai.gpu.vgpus.window import MMIO_KEY, MMIO_SIZE_KEY, size_of
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Reconfigure

A100, A100_80, A30, T4 = (0x10DE, 0x20F1), (0x10DE, 0x20B5), (0x10DE, 0x20B7), (0x10DE, 0x1EB8)
OURS = {"admission.mmio-window", "admission.gpu-firmware"}


def judged(machine, occasion="power_on"):
    """What both requirements say of a VM; its GPUs need not be there."""
    host = {"hardware.pciDevice": (pci(1, A100),)}
    told = answer(farm(**host), machine, occasion)[2] & OURS
    return {rule.removeprefix("admission.") for rule in told}


def pci(slot, model):
    ids = dict(zip(("vendorId", "deviceId"), model, strict=True))
    return {"id": f"0000:{slot:02x}:00.0", "classId": 0x302, "subDeviceId": 1, **ids}


def sized(window, firmware="efi", **figures):
    return vm(window_gb=window, firmware=firmware, **figures)


@pytest.mark.parametrize(
    ("vgpus", "need"),
    [
        (("grid_a100-40c",), 128),
        (("grid_a100-40c",) * 2, 256),
        (("nvidia_a30-24c",), 64),
        (("grid_a100d-80c",), 256),
        (("grid_a100-7-40c",), 128),
    ],
)
def test_whole_boards_need_their_memory_rounded_up_twice(vgpus, need):
    assert judged(sized(need, vgpus=vgpus)) == set()
    for less in (need - 1, need // 2, 32, 0):
        assert judged(sized(less, vgpus=vgpus)) == {"mmio-window"}
    assert judged(sized(0, vgpus=vgpus), "vmotion") == set(), "a VM that runs has its window"


def test_figures_of_the_refusal():
    situation = farm()
    found = admit(sized(0, vgpus=("grid_a100-40c",)), situation.view.estate["HostSystem:h"], situation, "power_on")
    (reason,) = (r for r in found.refusals if r.rule == "admission.mmio-window")
    assert reason.fault == "GenericVmConfigFault"
    assert reason.quantity == (128, 0, "GB")
    assert f"{MMIO_SIZE_KEY}=128" in reason.help


@pytest.mark.parametrize(
    ("claim", "window", "told"),
    [
        (Claim("0000:01:00.0"), 64, {"mmio-window"}),
        (Claim("0000:01:00.0"), 128, set()),
        (Claim(models=frozenset({A100})), 0, {"mmio-window"}),
        (Claim(models=frozenset({A100_80, A100})), 128, {"mmio-window"}),
        (Claim(models=frozenset({T4})), 0, set()),
        (Claim(models=frozenset({(0x15B3, 0x101B)})), 0, set()),
    ],
)
def test_passthrough_of_whole_gpus(claim, window, told):
    assert judged(sized(window, claims=(claim,))) == told


def test_one_of_several_models_is_not_known_before_power_on():
    situation = farm()
    machine = sized(128, claims=(Claim(models=frozenset({A100_80, A100})),))
    host = situation.view.estate["HostSystem:h"]
    found = admit(machine, host, situation, "power_on")
    assert [r.verdict for r in found.reasons if r.rule == "admission.mmio-window"] == ["unknown"]


@pytest.mark.parametrize(("memory", "told"), [(gb(16), set()), (gb(64), {"mmio-window"})])
def test_a_part_of_a_board_is_a_matter_of_large_vms(memory, told):
    assert judged(sized(0, vgpus=("grid_a100-10c",), memory_mb=memory)) == told
    assert judged(sized(0, vgpus=("grid_t4-16c",), memory_mb=memory)) == set()


@pytest.mark.parametrize(("firmware", "told"), [("efi", set()), ("bios", {"gpu-firmware"}), ("", {"gpu-firmware"})])
def test_bios_maps_no_gpu(firmware, told):
    assert judged(sized(128, firmware, vgpus=("grid_a100-40c",))) == told
    assert judged(sized(128, firmware, claims=(Claim("0000:01:00.0"),))) == told
    assert judged(sized(128, firmware)) == set()


def test_what_was_not_read_is_unknown():
    assert answer(farm(), sized(None, vgpus=("grid_a100-40c",)))[0] == "no", "no GPU is there"
    assert judged(sized(None, vgpus=("grid_a100-40c",))) == {"mmio-window"}
    assert judged(sized(None)) == set()


def test_a_vm_that_ran_like_this_powers_on_again():
    running = replace(sized(0, vgpus=("grid_a100-40c",)), ref="VirtualMachine:there")
    situation = farm(running=(running,))
    assert not answer(situation, running, "power_cycle")[2] & OURS
    more = replace(running, vgpus=("grid_a100-40c",) * 2)
    assert answer(situation, more, "power_cycle")[2] & OURS == {"admission.mmio-window"}


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({}, 0),
        ({MMIO_KEY: "TRUE"}, 32),
        ({MMIO_KEY: "true", MMIO_SIZE_KEY: "256"}, 256),
        ({MMIO_KEY.upper(): "TRUE", MMIO_SIZE_KEY.lower(): "64"}, 64),
        ({MMIO_KEY: "FALSE", MMIO_SIZE_KEY: "256"}, 0),
        ({MMIO_SIZE_KEY: "256"}, 0),
    ],
)
def test_settings_of_a_window(settings, size):
    options = tuple({"key": k, "value": v} for k, v in settings.items())
    assert size_of(settings) == size
    assert machine_of(Facts("VirtualMachine:new", {"config.extraConfig": options})).window_gb == size


def test_steps_of_the_plan_set_the_window_and_take_it_away():
    before = Facts("VirtualMachine:new", {"config.extraConfig": ({"key": MMIO_KEY, "value": "FALSE"},)})
    keys = {"target": Target("vm", "new", before.ref), "kinds": ("vgpu",), "summary": ""}
    on = Reconfigure(extra_config=((MMIO_KEY, "TRUE"), (MMIO_SIZE_KEY, "64")), **keys)
    off = Reconfigure(extra_config=((MMIO_KEY, ""),), **keys)
    assert machine_of(facts_after(before, [on])).window_gb == 64
    assert machine_of(facts_after(before, [on, off])).window_gb == 0
    assert machine_of(Facts(before.ref, {})).window_gb is None
