"""Every vGPU type NVIDIA publishes is known by vSphere's name, and capacity counts as many of it as NVIDIA does."""

from __future__ import annotations

import random
import time
from importlib import resources
from pathlib import Path

import pytest
import yaml

from vsphere_ai.gpu.catalog import board_of_device, boards
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.vgpus import vgpu
from vsphere_ai.gpu.vgpus.combinations import combinations, full_combinations
from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu, most, plus, step
from vsphere_ai.lab.hardware import parts
from vsphere_ai.lab.hardware.boards import board_keys
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.vgpu import NoGraphicsResource, power_on, supported_types
from vsphere_ai.lab.ledger import Ledger

PUBLISHED = yaml.safe_load((Path(__file__).parent / "fixtures" / "nvidia-vgpu-types.yaml").read_text("utf-8"))
# DC is two boards: RTX PRO 6000 of 96 GB and RTX PRO 4500 of 32 GB; these of its types are the smaller one's alone
SMALL = {"1-16C", "1-16Q", "2-32C", "2-32Q", "2-8C", "2-8Q"}
DRIVER = "595.71.05"


def products(published, ending):
    """The catalogue's boards and products of a published type."""
    lists = [published] if published != "DC" else ["DC-32GB"] if ending in SMALL else ["DC"]
    if published == "DC" and ending == "16Q":
        lists = ["DC-32GB", "DC"]
    return [(b, p) for b in boards() for p in b.products if p.types in lists]


def counted(board, name):
    mode = "mig" if vgpu.parse(name).is_mig else "time_sliced"
    slot = GpuSlot("esx1", "0000:3b:00.0", board, mode)
    return most(slot.kind, slot.state, name)


def test_710_types_are_published():
    assert sum(map(len, PUBLISHED.values())) == 710


@pytest.mark.parametrize("published", PUBLISHED)
def test_capacity_counts_as_nvidia_does(published):
    for ending, counts in PUBLISHED[published].items():
        found = products(published, ending)
        assert found, (published, ending)
        seen = set()
        for board, product in found:
            for stem in product.vgpu_names:
                name = f"{stem}-{ending.lower()}"
                assert vgpu.board_of(vgpu.parse(name)) is board
                seen.add(counted(board, name))
        assert seen == set(counts if isinstance(counts, list) else [counts]), (published, ending)


def test_products_of_one_board_have_the_same_types():
    """A board has the types of its first product, so the lists of the others have to be the same."""
    text = resources.files("vsphere_ai.gpu").joinpath("vgpu_types.yaml").read_text("utf-8")
    lists = yaml.safe_load(text)["types"]
    for board in boards():
        for product in board.products:
            assert not product.types or lists[product.types] == board.types, product


def test_known_counts():
    """Spot checks that share nothing with the data files."""
    for device, name, count in (
        (0x2335, "nvidia_h200x-8c", 16),
        (0x233B, "nvidia_h200-8c", 16),
        (0x2BB5, "nvidia_rtx_pro_6000_blackwell_dc-1-3q", 32),
        (0x2BB5, "nvidia_rtx_pro_6000_blackwell_dc-1-2q", 48),
        (0x2BB5, "nvidia_rtx_pro_6000_blackwell_dc-2-12c", 8),
        (0x2BB5, "nvidia_rtx_pro_6000_blackwell_dc-1-3qgfx", 32),
        (0x2C3A, "nvidia_rtx_pro_4500_blackwell_dc-16q", 2),
        (0x2235, "nvidia_a40-1q", 32),
        (0x20B2, "grid_a100dx-3-40c", 2),
        (0x20B2, "grid_a100d-3-40c", 0),
    ):
        assert counted(board_of_device(device), name) == count, name


@pytest.mark.parametrize(
    ("device", "subsystem", "names"),
    [
        (0x20B2, 0, ("grid_a100dx",)),
        (0x20B5, 0, ("grid_a100d",)),
        (0x20B0, 0, ("grid_a100x",)),
        (0x20F1, 0, ("grid_a100",)),
        (0x20F1 - 0x10000, 0, ("grid_a100",)),
        (0x20F6, 0, ("grid_a800", "nvidia_a800")),
        (0x20BD, 0, ()),
        (0x25B6, 0x14A9, ("nvidia_a16",)),
        (0x25B6, 0x157E, ("nvidia_a2",)),
        (0x25B6, 0x1234, ("nvidia_a16", "nvidia_a2")),
        (0x2342, 0, ("nvidia_gh200",)),
        (0x20B6, 0, ()),
    ],
)
def test_names_are_those_of_the_device(device, subsystem, names):
    assert board_of_device(device, subsystem).vgpu_names == names


def lab_host(key, device, *, mig, version="9.0.1"):
    gpu = LabGpu.of(0, "0000:3b:00.0", key, device_id=device)
    gpu.configured, gpu.mig_current, gpu.mig_pending = "sharedDirect", mig, mig
    return LabHost("esx1", Ledger(), gpus=[gpu], vibs=[parts.driver_vib(DRIVER)], version=version)


DEVICES = [(key, device) for key in board_keys() for device in LabGpu.of(0, "0000:3b:00.0", key).board.device_ids]
EVERY_NAME = sorted({f"{stem}-{ending.lower()}" for b in boards() for stem in b.vgpu_names for ending in b.types})


@pytest.mark.parametrize(("key", "device"), DEVICES, ids=lambda v: v if isinstance(v, str) else f"{v:04x}")
def test_the_lab_offers_what_the_planner_expects_of_the_device(key, device):
    board = board_of_device(device, 0x14A9)
    for mig in (False, True) if board.mig_capable else (False,):
        slot = GpuSlot("esx1", "0000:3b:00.0", board, "mig" if mig else "time_sliced")
        expected = {name for name in EVERY_NAME if slot.kind.takes(name)}
        if len(board.vgpu_names) > 1:  # alternatives, of which the host has one
            expected = {name for name in expected if name.startswith(f"{board.vgpu_names[0]}-")}
        assert set(supported_types(lab_host(key, device, mig=mig))) == expected


PRO = board_of_device(0x2BB5)
SHARED = ("1-3q", "1-3c", "1-4q", "1-8c", "2-12c", "1-24q", "1-3qgfx", "2-48c")


@pytest.mark.parametrize("seed", range(20))
def test_vgpus_share_instances_as_in_the_lab(seed):
    """Instances are shared by one framebuffer size; a new size takes a new instance: ceil(VMs / most) per size."""
    rng = random.Random(seed)
    host = lab_host("rtx-pro-6000-blackwell", 0x2BB5, mig=True)
    slot = GpuSlot("esx1", "0000:3b:00.0", PRO, "mig")
    state = slot.state
    sizes = rng.sample(SHARED, 3)
    for number in range(60):
        name = f"nvidia_rtx_pro_6000_blackwell_dc-{rng.choice(sizes)}"
        got = step(slot.kind, state, name)
        try:
            (claimed,) = power_on(host, f"vm{number}", [name])
        except NoGraphicsResource:
            assert got is None, name
            continue
        assert got is not None, name
        assert host.gpus[0].instance(claimed.gi).start == got[1]
        state = got[0]


def test_types_that_share_an_instance_came_with_esxi_9_0_1():
    name = "nvidia_rtx_pro_6000_blackwell_dc-1-3q"
    assert name in supported_types(lab_host("rtx-pro-6000-blackwell", 0x2BB5, mig=True))
    assert name not in supported_types(lab_host("rtx-pro-6000-blackwell", 0x2BB5, mig=True, version="9.0.0"))
    whole = "nvidia_rtx_pro_6000_blackwell_dc-1-24q"
    assert whole in supported_types(lab_host("rtx-pro-6000-blackwell", 0x2BB5, mig=True, version="9.0.0"))


def test_running_vgpus_that_share_instances_leave_room_for_more():
    name = "nvidia_rtx_pro_6000_blackwell_dc-1-3q"
    ten = tuple(StayingVgpu(f"vm{n}", name) for n in range(10))
    slot = GpuSlot("esx1", "0000:3b:00.0", PRO, "mig", running=ten)
    assert len(slot.present) == 2  # eight share one
    assert slot.guessed
    assert most(slot.kind, slot.state, name) == 22
    known = tuple(StayingVgpu(r.vm, name, 3 if n < 4 else 6) for n, r in enumerate(ten))
    there = (Instance("1g.24gb", 3), Instance("1g.24gb", 6), Instance("1g.24gb", 9))
    slot = GpuSlot("esx1", "0000:3b:00.0", PRO, "mig", running=known, instances=there)
    assert not slot.guessed
    assert [i.in_use for i in slot.present] == [True, True, False]
    assert most(slot.kind, slot.state, name) == 22
    assert most(slot.kind, slot.state, "nvidia_rtx_pro_6000_blackwell_dc-1-24q") == 2


@pytest.mark.parametrize("seed", range(25))
def test_full_combinations_of_shared_instances_are_those_of_every_order(seed):
    """They are found instance by instance; here vGPU by vGPU, in every order."""
    rng = random.Random(seed)
    stem = "nvidia_rtx_pro_6000_blackwell_dc"
    # sizes of which few share an instance, so that every order can be tried
    sizes = rng.sample(("1-8c", "1-8q", "1-12c", "1-12q", "1-24q", "2-16q", "2-24c", "2-48q", "1-12qgfx", "4-48c"), 3)
    names = tuple(sorted(f"{stem}-{size}" for size in sizes))
    slot = GpuSlot("esx1", "0000:3b:00.0", PRO, "mig", explicit=rng.random() < 0.2)
    state = slot.state
    for name in rng.choices(names, k=rng.randint(0, 3)):
        got = step(slot.kind, state, name)
        state = got[0] if got else state
    every = combinations(slot.kind, state, names)
    ones = [tuple(int(i == at) for i in range(len(names))) for at in range(len(names))]
    full = {v for v in every if not any(plus(v, one) in every for one in ones)}
    assert set(full_combinations(slot.kind, state, names)) == full


def test_many_sizes_that_share_instances_are_combined_in_no_time():
    stem = "nvidia_rtx_pro_6000_blackwell_dc"
    names = tuple(sorted(f"{stem}-{size}" for size in ("1-2q", "1-3q", "1-4q", "1-6q", "1-12q")))
    slot = GpuSlot("esx1", "0000:3b:00.0", PRO, "mig")
    began = time.process_time()
    assert len(full_combinations(slot.kind, slot.state, names)) == 70
    assert time.process_time() - began < 5  # vGPU by vGPU it took 38 seconds
