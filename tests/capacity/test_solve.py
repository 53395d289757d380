import pytest
from support.capacity_judges import pci

from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, GpuHosts, NoFit, VmDemand, room
from vsphere_ai.gpu.catalog import board, board_of_device, boards
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.vgpus.mixed_sizes import max_mixed
from vsphere_ai.gpu.vgpus.slot import GpuSlot, Sharing, StayingVgpu, max_equal, most

A100 = board("a100-40gb")
HOSTS = frozenset({"esx1"})
TWO = frozenset({"esx1", "esx2"})


def gpu(mode="mig", number=0, host="esx1", of=A100, **more):
    return GpuSlot(host, pci(number), of, mode, **more)


def vms(*profiles, hosts=HOSTS):
    """One VM per profile, named by number."""
    return [VmDemand(f"vm{n}", (p,) if isinstance(p, str) else p, hosts) for n, p in enumerate(profiles)]


def places(answer):
    assert isinstance(answer, Fit), answer
    return {vm: (host, *((p.gpu, p.start) for p in given)) for vm, (host, given) in answer.assignment.items()}


# -- MIG


def test_a_running_vm_never_moves():
    blocked = gpu(running=(StayingVgpu("old", "grid_a100-1-5c", 0),))
    answer = solve(GpuHosts((blocked,)), vms("grid_a100-4-20c"))
    assert answer == NoFit(
        "1 of grid_a100-4-20c are to power on on the 1 GPU of esx1, where no more fit",
        ("vm0",), {"grid_a100-4-20c": 0},
    )  # fmt: skip
    free = gpu(running=(StayingVgpu("old", "grid_a100-1-5c", 5),))
    assert places(solve(GpuHosts((free,)), vms("grid_a100-4-20c"))) == {"vm0": ("esx1", (pci(0), 0))}


def test_instances_made_beforehand_are_taken_first_and_block_others():
    ready = (Instance("1g.10gb", 6), Instance("4g.20gb", 0))
    answer = solve(GpuHosts((gpu(instances=ready),)), vms("grid_a100-1-5c", "grid_a100-1-10c", "grid_a100-4-20c"))
    assert places(answer) == {
        "vm0": ("esx1", (pci(0), 4)), "vm1": ("esx1", (pci(0), 6)), "vm2": ("esx1", (pci(0), 0)),
    }  # fmt: skip
    assert isinstance(solve(GpuHosts((gpu(instances=ready),)), vms("grid_a100-3-20c", "grid_a100-3-20c")), NoFit)


def test_an_unknown_place_makes_a_verdict_a_guess():
    somewhere = gpu(running=(StayingVgpu("old", "grid_a100-3-20c"),))
    assert somewhere.guessed
    assert somewhere.present == (Instance("3g.20gb", 4, None, True),)
    fit = solve(GpuHosts((somewhere,)), vms("grid_a100-4-20c"))
    assert isinstance(fit, Fit)
    assert (fit.exact, len(fit.warnings)) == (False, 1)
    assert not solve(GpuHosts((somewhere,)), vms("grid_a100-7-40c")).exact


def test_running_vms_that_cannot_be_there_are_not_counted():
    odd = gpu(
        running=(
            StayingVgpu("a", "grid_a100-7-40c"),
            StayingVgpu("b", "grid_a100-7-40c"),
            StayingVgpu("c", "grid_a100-20c"),
        )
    )
    assert odd.present == (Instance("7g.40gb", 0, None, True),)
    sliced = gpu("time_sliced", running=(StayingVgpu("a", "not a name"), StayingVgpu("b", "grid_a100-20c")))
    assert most(sliced.kind, sliced.state, "grid_a100-20c") == 1


@pytest.mark.parametrize(("driver", "fits"), [(470, False), (510, True), (None, True)])
def test_old_drivers(driver, fits):
    one = gpu(driver_major=driver)
    answer = solve(GpuHosts((one,)), vms("grid_a100-4-20c", "grid_a100-3-20c"))
    assert isinstance(answer, Fit) == fits


# -- what a host offers


def test_the_hosts_own_list_and_spelling_decide():
    listed = gpu(offered=frozenset({"grid_a100-3-20c"}))
    assert room([listed], ["grid_a100-3-20c", "grid_a100-2-10c"]) == {"grid_a100-2-10c": 0, "grid_a100-3-20c": 2}
    spelt = gpu(spellings=("grid_a100x",))
    assert room([spelt], ["grid_a100x-3-20c", "grid_a100-3-20c", "A100"]) == {
        "A100": 0, "grid_a100-3-20c": 0, "grid_a100x-3-20c": 2,
    }  # fmt: skip


def test_time_sliced_and_mig_never_share_a_gpu():
    both = GpuHosts((gpu(), gpu("time_sliced", 1)))
    assert places(solve(both, vms("grid_a100-7-40c", "grid_a100-40c"))) == {
        "vm0": ("esx1", (pci(0), 0)), "vm1": ("esx1", (pci(1), None)),
    }  # fmt: skip
    for profile, words in [("grid_a100-40c", "out of MIG mode"), ("grid_a100-7-40c", "in MIG mode")]:
        other = gpu() if profile == "grid_a100-40c" else gpu("time_sliced")
        answer = solve(GpuHosts((other,)), vms(profile))
        assert answer.explanation == f"{profile} needs a GPU {words}, and there is none on esx1"


@pytest.mark.parametrize(
    ("profile", "slots", "hosts", "words"),
    [
        ("nvidia_h100-80c", (gpu(),), HOSTS, "no GPU of esx1 offers nvidia_h100-80c (NVIDIA A100"),
        ("grid_a100-1-10c", (gpu(offered=frozenset()),), HOSTS, "no GPU of esx1 offers grid_a100-1-10c (NVIDIA A100"),
        ("grid_a100-40c", (), HOSTS, "grid_a100-40c needs a GPU, and there is none on esx1"),
        ("grid_a100-40c", (gpu(),), frozenset(), "grid_a100-40c needs a GPU, and there is none on no host"),
        ("what", (gpu(),), HOSTS, "what is not a vGPU profile name"),
    ],
)  # fmt: skip
def test_why_a_profile_has_no_gpu_at_all(profile, slots, hosts, words):
    answer = solve(GpuHosts(slots), vms(profile, hosts=hosts))
    assert isinstance(answer, NoFit)
    assert answer.explanation.startswith(words)
    assert (answer.vms, answer.exact) == (("vm0",), True)


# -- time-sliced


@pytest.mark.parametrize("each", [b for b in boards() if b.time_sliced], ids=lambda b: b.key)
def test_maximum_of_equal_sizes(each):
    for size in each.time_sliced:
        name = f"{each.vgpu_names[0]}-{size.fb_gb}c"
        one = gpu("time_sliced", of=each)
        assert most(one.kind, one.state, name) == (size.max_equal or min(32, each.memory_gb // size.fb_gb))


def test_counts_nobody_publishes():
    h200, a40 = board("h200-141gb"), board("a40-48gb")
    assert (max_equal(h200, 70), max_mixed(h200, 70), max_mixed(h200, 28)) == (2, 2, 4)
    assert (max_equal(a40, 1), max_mixed(a40, 1), max_equal(a40, 2)) == (32, 32, 24)
    one = gpu("time_sliced", of=a40)
    assert most(one.kind, one.state, "nvidia_a40-0q") == 0
    assert most(one.kind, one.state, "nvidia_a40-96q") == 0


def test_series_of_one_size_share_a_gpu_from_8_0_u2():
    a40 = board("a40-48gb")
    wanted = vms("nvidia_a40-24c", "nvidia_a40-24q")
    assert isinstance(solve(GpuHosts((gpu("time_sliced", of=a40),)), wanted), NoFit)
    newer = gpu("time_sliced", of=a40, sharing=Sharing(any_series=True))
    assert isinstance(solve(GpuHosts((newer,)), wanted), Fit)
    assert isinstance(solve(GpuHosts((newer,)), vms("nvidia_a40-24c", "nvidia_a40-12q")), NoFit)


def mixed(*running, of=A100):
    return gpu("time_sliced", of=of, sharing=Sharing(mixed=True), running=running)


def test_sizes_that_share_a_gpu_in_mixed_size_mode():
    a40 = board("a40-48gb")
    assert isinstance(
        solve(GpuHosts((mixed(of=a40),)), vms(*["nvidia_a40-24c", "nvidia_a40-12c", "nvidia_a40-12c"])), Fit
    )
    assert isinstance(solve(GpuHosts((mixed(of=a40),)), vms(*["nvidia_a40-16c"] * 3)), NoFit), "three of equal sizes"
    turing = gpu("time_sliced", of=board("t4-16gb"), sharing=Sharing(mixed=True))
    assert isinstance(solve(GpuHosts((turing,)), vms("grid_t4-8c", "grid_t4-4c")), NoFit)


def test_a_hole_without_a_place_for_the_size_is_not_offered():
    halves = mixed(StayingVgpu("a", "grid_a100-10c", 10), StayingVgpu("b", "grid_a100-10c", 30))
    assert room([halves], ["grid_a100-10c", "grid_a100-20c"]) == {"grid_a100-10c": 2, "grid_a100-20c": 0}
    answer = solve(GpuHosts((halves,)), vms("grid_a100-20c"))
    assert isinstance(answer, NoFit)
    assert answer.exact
    assert places(solve(GpuHosts((halves,)), vms("grid_a100-10c"))) == {"vm0": ("esx1", (pci(0), 0))}


def test_places_that_are_not_known_make_a_fit_uncertain_and_no_refusal():
    somewhere = mixed(StayingVgpu("a", "grid_a100-10c"), StayingVgpu("b", "grid_a100-10c"))
    assert somewhere.guessed
    fit = solve(GpuHosts((somewhere,)), vms("grid_a100-20c"))
    assert isinstance(fit, Fit)
    assert not fit.exact
    full = solve(GpuHosts((somewhere,)), vms("grid_a100-20c", "grid_a100-5c"))
    assert isinstance(full, NoFit)
    assert full.exact
    whole = mixed(StayingVgpu("a", "grid_a100-40c"))
    assert not whole.guessed, "there is one place only"


def test_a_fit_that_depends_on_the_places_vsphere_chooses_is_not_certain():
    assert solve(GpuHosts((mixed(),)), vms("grid_a100-10c", "grid_a100-20c", "grid_a100-10c")).exact
    # a VM with several vGPUs gets them in the order of their names: 10C, 10C, 20C
    fit = solve(GpuHosts((mixed(),)), vms(("grid_a100-10c", "grid_a100-10c", "grid_a100-20c")))
    assert isinstance(fit, Fit)
    assert (fit.exact, len(fit.warnings)) == (False, 1)


# -- several vGPUs in a VM


def test_the_vgpus_of_a_vm_come_in_the_order_that_works():
    # 3g and two 2g fit when the 3g comes first; the VM with both would ask for its 2g first, by name
    both, one = ("grid_a100-2-10c", "grid_a100-3-20c"), "grid_a100-2-10c"
    answer = solve(GpuHosts((gpu(),)), vms(both, one))
    assert isinstance(answer, Fit)
    assert (answer.exact, answer.reordered) == (True, ("vm0",))
    assert answer.warnings == ("vm0: its vGPUs have to be attached in the order grid_a100-3-20c, grid_a100-2-10c",)
    assert [g.profile for g in answer.assignment["vm0"][1]] == ["grid_a100-3-20c", "grid_a100-2-10c"]
    # where the order by name works it is kept
    assert not solve(GpuHosts((gpu(),)), vms(both)).reordered


def test_all_vgpus_of_a_vm_come_from_one_host():
    slots = tuple(gpu(number=n, host=h) for h in ("esx1", "esx2") for n in range(2))
    whole = "grid_a100-7-40c"
    answer = solve(GpuHosts(slots), vms((whole, whole), (whole, whole), hosts=TWO))
    assert {place[0] for place in places(answer).values()} == TWO
    assert isinstance(solve(GpuHosts(slots[1:]), vms(whole, (whole, whole), hosts=TWO)), Fit)
    # three GPUs are free, but not two on one host beside the single one that has to be on esx2
    apart = [*vms((whole, whole), (whole, whole), hosts=TWO)]
    answer = solve(GpuHosts(slots[:3]), apart)
    assert isinstance(answer, NoFit)
    assert answer.exact


def test_sums_that_are_right_across_hosts_only():
    slots = (gpu(host="esx1"), gpu(host="esx2"))
    answer = solve(GpuHosts(slots), vms(("grid_a100-7-40c",) * 2, hosts=TWO))
    assert isinstance(answer, NoFit)
    assert (answer.exact, answer.vms) == (True, ("vm0",))
    assert "however they are divided" in answer.explanation
    # and with a single one that leaves no host whole
    slots = tuple(gpu(number=n, host=h) for h in ("esx1", "esx2") for n in range(2))
    pair, one = ("grid_a100-7-40c",) * 2, "grid_a100-4-20c"
    mixed = [
        *vms(pair, hosts=TWO),
        VmDemand("left", (one,), frozenset({"esx1"})),
        VmDemand("right", (one,), frozenset({"esx2"})),
    ]
    answer = solve(GpuHosts(slots), mixed)
    assert isinstance(answer, NoFit)
    assert answer.exact


def test_a_vm_without_vgpus_needs_nothing():
    answer = solve(GpuHosts(()), [VmDemand("plain", (), HOSTS)])
    assert answer == Fit({"plain": ("", ())})
    assert answer.order == ("plain",)


# -- explanations


def test_what_stands_in_the_way_is_counted():
    answer = solve(GpuHosts((gpu(), gpu(number=1))), vms(*["grid_a100-4-20c"] * 2, "grid_a100-7-40c", "grid_a100-1-5c"))
    assert answer.explanation == (
        "3 of grid_a100-4-20c and grid_a100-7-40c are to power on on the 2 GPUs of esx1, where 2 fit"
    )
    assert answer.room == {"grid_a100-1-5c": 14, "grid_a100-4-20c": 2, "grid_a100-7-40c": 2}
    assert len(answer.vms) == 1


def test_hosts_are_named_until_they_are_many():
    hosts = frozenset(f"esx{n}" for n in range(6))
    slots = tuple(gpu(host=h) for h in sorted(hosts))
    answer = solve(GpuHosts(slots), vms(*["grid_a100-4-20c"] * 7, hosts=hosts))
    assert answer.explanation.endswith("on the 6 GPUs of esx0, esx1, esx2 and 3 others, where 6 fit")


def test_vms_that_do_not_compete_are_judged_on_their_own():
    slots = (gpu(host="esx1"), gpu(host="esx2"))
    there = [VmDemand("there", ("grid_a100-4-20c",), frozenset({"esx2"}))]
    answer = solve(GpuHosts(slots), [*vms("grid_a100-4-20c", "grid_a100-4-20c"), *there])
    assert answer.vms in (("vm0",), ("vm1",))
    assert answer.room == {"grid_a100-4-20c": 1}


def test_sums_that_fit_where_no_division_does():
    # each pair of profiles is within bounds; weights over all of them, or the search, tell
    wanted = ["grid_a100-3-20c"] * 3 + ["grid_a100-1-10c"] * 5
    answer = solve(GpuHosts((gpu(), gpu(number=1))), vms(*wanted))
    assert isinstance(answer, NoFit)
    assert answer.exact


def test_a_type_of_another_product_is_told_by_its_name_here():
    slot = GpuSlot("esx1", "0000:3b:00.0", board_of_device(0x20B2), "mig")
    answer = solve(GpuHosts((slot,)), [VmDemand("vm", ("grid_a100d-3-40c",), frozenset({"esx1"}))])
    assert isinstance(answer, NoFit)
    assert "no GPU of esx1 offers grid_a100d-3-40c" in answer.explanation
    assert answer.explanation.endswith("it is called grid_a100dx-3-40c there")
