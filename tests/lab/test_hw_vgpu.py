"""vGPU placement: what a host offers, and whether a request fits, against a search that knows nothing of the model."""

import itertools
import random

import pytest

from vsphere_ai.lab.hardware import parts, vgpu
from vsphere_ai.lab.hardware.boards import board, board_keys
from vsphere_ai.lab.hardware.gpu import LabGpu, NvmlError
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.ledger import Ledger


def make(*mig: bool, driver="470.256.02", key="a100-40gb", policy="performance"):
    gpus = [LabGpu.of(n, f"0000:{0x3B + n:02x}:00.0", key) for n in range(len(mig))]
    for gpu, enabled in zip(gpus, mig, strict=True):
        gpu.configured = "sharedDirect"
        gpu.mig_current = gpu.mig_pending = enabled
    return LabHost("esx", Ledger(), gpus=gpus, vibs=[parts.driver_vib(driver)], assignment_policy=policy)


def carried(host):
    return [[v.vm for v in gpu.vgpus] for gpu in host.gpus]


def test_types_follow_the_mode_of_each_gpu():
    sliced, mig, both = make(False), make(True), make(True, False)
    assert vgpu.supported_types(sliced) == sorted(f"grid_a100x-{gb}c" for gb in (4, 5, 8, 10, 20, 40))
    assert "grid_a100x-3-20c" in vgpu.supported_types(mig)
    assert "grid_a100x-20c" not in vgpu.supported_types(mig)
    assert set(vgpu.supported_types(both)) == {*vgpu.supported_types(sliced), *vgpu.supported_types(mig)}


def test_known_types_do_not_depend_on_the_mode():
    types = vgpu.known_types(make(False))
    assert types["grid_a100x-40c"].profile is None
    assert (types["grid_a100x-3-20c"].framebuffer_gb, types["grid_a100x-3-20c"].max_per_gpu) == (20, 2)
    assert types["grid_a100x-3-20c"].smi_name == "GRID A100X-3-20C"
    assert vgpu.known_types(make(False, key="a40-48gb"))["nvidia_a40-48q"].max_per_gpu == 1
    with pytest.raises(KeyError, match="no GPU board 'a999'; known: a30-24gb"):
        board("a999")


def test_double_memory_type_needs_a_newer_driver_and_the_media_type_does_not():
    assert "grid_a100x-1-10c" not in vgpu.supported_types(make(True))
    assert "grid_a100x-1-10c" in vgpu.supported_types(make(True, driver="535.261.03"))
    assert "grid_a100x-1-5cme" in vgpu.supported_types(make(True))


@pytest.mark.parametrize("active", ["shared", "basic", "direct"])
def test_nothing_is_offered_unless_shared_direct_is_active(active):
    host = make(False)
    host.gpus[0].active = active
    assert vgpu.supported_types(host) == []
    with pytest.raises(vgpu.NoGraphicsResource, match=r"No graphics device is available for vGPU 'grid_a100x-40c'\."):
        vgpu.power_on(host, "vm", ["grid_a100x-40c"])


def test_the_first_time_sliced_vm_fixes_the_size():
    host = make(False)
    vgpu.power_on(host, "a", ["grid_a100x-20c"])
    with pytest.raises(vgpu.NoGraphicsResource, match="amount of graphics resource available in the parent"):
        vgpu.power_on(host, "b", ["grid_a100x-10c"])
    vgpu.power_off(host, "a")
    vgpu.power_on(host, "b", ["grid_a100x-10c"])


@pytest.mark.parametrize(("gb", "most"), [(40, 1), (20, 2), (10, 4), (8, 5), (5, 8), (4, 10)])
def test_maximum_per_gpu(gb, most):
    host = make(False)
    for n in range(most):
        vgpu.power_on(host, f"vm{n}", [f"grid_a100x-{gb}c"])
    assert not vgpu.fits(host, [f"grid_a100x-{gb}c"])


def test_assignment_policy():
    spread, packed = make(False, False), make(False, False, policy="consolidation")
    for host in (spread, packed):
        for name in "abc":
            vgpu.power_on(host, name, ["grid_a100x-20c"])
    assert carried(spread) == [["a", "c"], ["b"]]
    assert carried(packed) == [["a", "b"], ["c"]]


def test_all_or_nothing():
    host = make(False, False)
    vgpu.power_on(host, "a", ["grid_a100x-40c"])
    with pytest.raises(vgpu.NoGraphicsResource):
        vgpu.power_on(host, "b", ["grid_a100x-40c", "grid_a100x-40c"])
    assert carried(host) == [["a"], []]
    vgpu.power_on(host, "c", ["grid_a100x-40c"])
    with pytest.raises(ValueError, match="already"):
        vgpu.power_on(host, "c", ["grid_a100x-40c"])


def test_a_greedy_first_choice_is_taken_back():
    """The 20C would go to the emptier GPU 1 by policy, where then the 40C finds no place."""
    host = make(False, False)
    vgpu.power_on(host, "a", ["grid_a100x-20c"])
    assert [v.type_name for v in vgpu.power_on(host, "b", ["grid_a100x-20c", "grid_a100x-40c"])]
    assert carried(host) == [["a", "b"], ["b"]]


def test_vsphere_makes_the_gpu_instance_and_removes_it():
    host = make(True)
    (claim,) = vgpu.power_on(host, "a", ["grid_a100x-3-20c"])
    (instance,) = host.gpus[0].instances
    assert (instance.start, instance.id, claim.gi, instance.vm) == (4, 2, 2, "a")
    with pytest.raises(NvmlError, match="In use"):
        host.gpus[0].destroy(instance)
    assert vgpu.power_off(host, "a")
    assert host.gpus[0].instances == []
    assert not vgpu.power_off(host, "a")


def test_a_free_instance_made_by_hand_is_used_and_stays():
    host = make(True)
    gpu = host.gpus[0]
    made = gpu.create(gpu.profile("9"), 0)
    (claim,) = vgpu.power_on(host, "a", ["grid_a100x-3-20c"])
    assert (claim.gi, gpu.instances) == (made.id, [made])
    vgpu.power_off(host, "a")
    assert gpu.instances == [made]
    assert made.vm is None


def test_the_order_of_power_on_matters_as_with_the_real_driver():
    """1g, 1g, 2g, 3g leaves no start for the 3g; 3g first works."""
    names = {n: f"grid_a100x-{n}" for n in ("1-5c", "2-10c", "3-20c")}
    host = make(True)
    for n, name in enumerate(("1-5c", "1-5c", "2-10c")):
        vgpu.power_on(host, f"vm{n}", [names[name]])
    assert not vgpu.fits(host, [names["3-20c"]])
    host = make(True)
    for n, name in enumerate(("3-20c", "1-5c", "2-10c", "1-5c")):
        vgpu.power_on(host, f"vm{n}", [names[name]])
    assert carried(host) == [["vm0", "vm1", "vm2", "vm3"]]


DRIVER_ORDER = {1: (6, 4, 5, 0, 1, 2, 3), 2: (4, 0, 2), 4: (4, 0), 8: (0,)}
SHAPES = {"1-5c": (1, 1), "2-10c": (2, 2), "3-20c": (3, 4), "4-20c": (4, 4), "7-40c": (7, 8)}


def oracle_mig(taken: list[tuple[int, int, int]], name: str) -> int | None:
    """Return the start the driver takes on a GPU holding (compute, start, size) pieces."""
    compute, size = SHAPES[name]
    used = {s for _, start, length in taken for s in range(start, start + length)}
    starts = (0,) if compute == 4 else DRIVER_ORDER[size]
    return next((s for s in starts if used.isdisjoint(range(s, s + size))), None)


def test_random_power_cycles_agree_with_an_independent_model():
    """Sequences of power-on and power-off on two MIG GPUs, driver 550 (no rule against 4g beside 3g)."""
    dice = random.Random(7)
    refused = 0
    for _ in range(60):
        host = make(True, True, driver="550.163.01")
        model: list[dict[str, tuple[int, int, int]]] = [{}, {}]
        for step in range(14):
            running = [vm for gpu in model for vm in gpu]
            if running and dice.random() < 0.35:
                vm = dice.choice(running)
                vgpu.power_off(host, vm)
                for gpu in model:
                    gpu.pop(vm, None)
            else:
                vm, name = f"vm{step}", dice.choice(list(SHAPES))
                places = ((n, oracle_mig(list(gpu.values()), name)) for n, gpu in enumerate(model))
                chosen = next(((n, s) for n, s in places if s is not None), None)
                assert vgpu.fits(host, [f"grid_a100x-{name}"]) == (chosen is not None)
                if chosen is None:
                    refused += 1
                    continue
                vgpu.power_on(host, vm, [f"grid_a100x-{name}"])
                model[chosen[0]][vm] = (SHAPES[name][0], chosen[1], SHAPES[name][1])
            real = [sorted((i.profile.compute_slices, i.start, i.profile.size) for i in g.instances) for g in host.gpus]
            assert real == [sorted(gpu.values()) for gpu in model]
    assert refused > 50


def test_several_time_sliced_vgpus_fit_exactly_when_some_assignment_does():
    sizes = {40: 1, 20: 2, 10: 4}
    for preload in itertools.product((None, 40, 20, 10), repeat=2):
        for wanted in itertools.product(sizes, repeat=3):
            host = make(False, False)
            for n, gb in enumerate(preload):
                if gb:
                    host.gpus[1 - n].active = "shared"
                    vgpu.power_on(host, f"old{n}", [f"grid_a100x-{gb}c"])
                    host.gpus[1 - n].active = "sharedDirect"
            expected = any(
                all(
                    legal(sizes, preload[g], [w for w, at in zip(wanted, where, strict=True) if at == g])
                    for g in (0, 1)
                )
                for where in itertools.product((0, 1), repeat=3)
            )
            assert vgpu.fits(host, [f"grid_a100x-{gb}c" for gb in wanted]) == expected, (preload, wanted)


def legal(sizes, present, added):
    load = [*([present] if present else []), *added]
    return len(set(load)) <= 1 and len(load) <= sizes.get(load[0] if load else 40, 0)


@pytest.mark.parametrize("key", [k for k in board_keys() if board(k).profiles])
def test_free_counts_and_maximum_agree_with_brute_force(key):
    """Filling an empty GPU greedily reaches each profile's maximum, and Free says so at each step."""
    for swapped in (False, True):
        gpu = LabGpu.of(0, "0000:3b:00.0", key, swapped_ids=swapped)
        gpu.driver = "595.10"
        for profile in gpu.profiles():
            gpu.instances.clear()
            made = 0
            while gpu.free_starts(profile):
                assert gpu.free(profile) == profile.max_instances - made
                gpu.create(profile)
                made += 1
            assert made == profile.max_instances
            assert len({i.id for i in gpu.instances}) == made


def test_swapped_board_gives_the_ids_seen_on_an_h100_pcie():
    gpu = LabGpu.of(0, "0000:3b:00.0", "h100-80gb-pcie", swapped_ids=True)
    gpu.driver = "550.163.01"
    assert [gpu.create(gpu.profile("19")).id for _ in range(7)] == [9, 7, 8, 11, 12, 13, 14]


def test_no_4g_beside_a_3g_before_r510():
    for driver, possible in (("470.256.02", False), ("510.47.03", True)):
        gpu = make(True, driver=driver).gpus[0]
        gpu.create(gpu.profile("9"))
        assert bool(gpu.free_starts(gpu.profile("5"))) is possible
