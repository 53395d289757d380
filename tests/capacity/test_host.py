from support.capacity_judges import pci

from vsphere_ai.capacity.host import GivenVgpu, HostGpus
from vsphere_ai.capacity.power_on_order import Budget, every_end, find_order, some_order_fails
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot, Sharing, StayingVgpu

A100 = board("a100-40gb")


def host(*modes, policy="performance", **more):
    return HostGpus([GpuSlot("esx1", pci(n), A100, mode, **more) for n, mode in enumerate(modes)], policy)


def gpus(spread):
    return {vm: [g.gpu for g in given] for vm, given in spread.items()}


def test_the_policy_spreads_or_fills():
    vms = {vm: ("grid_a100-10c",) for vm in "abc"}
    spread = host("time_sliced", "time_sliced").run("abc", vms)
    assert gpus(spread) == {"a": [pci(0)], "b": [pci(1)], "c": [pci(0)]}
    filled = host("time_sliced", "time_sliced", policy="consolidation").run("abc", vms)
    assert gpus(filled) == {vm: [pci(0)] for vm in "abc"}


def test_the_policy_says_nothing_about_mig_and_mixed_sizes():
    vms = {vm: ("grid_a100-1-5c",) for vm in "ab"}
    assert host("mig", "mig").run("ab", vms) == {
        "a": (GivenVgpu(pci(0), "grid_a100-1-5c", 6),), "b": (GivenVgpu(pci(0), "grid_a100-1-5c", 4),),
    }  # fmt: skip
    mixed = host("time_sliced", "time_sliced", sharing=Sharing(mixed=True))
    assert gpus(mixed.run("ab", {"a": ("grid_a100-20c",), "b": ("grid_a100-10c",)})) == {"a": [pci(0)], "b": [pci(0)]}


def test_all_vgpus_of_a_vm_or_none():
    pair = {"a": ("grid_a100-40c", "grid_a100-40c"), "b": ("grid_a100-40c",)}
    assert host("time_sliced", "time_sliced").run("ab", pair) is None
    # a vGPU takes another GPU when its choice leaves none for the next one
    starts = enumerate((0, 4))
    blocked = [GpuSlot("esx1", pci(n), A100, "mig", (StayingVgpu("old", "grid_a100-1-5c", s),)) for n, s in starts]
    one = HostGpus(blocked, "performance")
    assert gpus(one.run("a", {"a": ("grid_a100-3-20c", "grid_a100-4-20c")})) == {"a": [pci(0), pci(1)]}


def test_an_order_is_found_when_the_promising_ones_fail():
    # 1g first, 3g last and 2g between is what no rule of thumb does; the order is searched for
    vms = {"a": ("grid_a100-2-10c",), "b": ("grid_a100-2-10c",), "c": ("grid_a100-3-20c",)}
    found = find_order(host("mig"), vms, {}, Budget(100))
    assert found is not None
    assert next(iter(found)) == "c"
    budget = Budget(1000)
    assert find_order(host("mig"), {**vms, "d": ("grid_a100-3-20c",)}, {}, budget) is None
    assert budget.steps > 0
    out = Budget(0)
    assert find_order(host("mig"), {**vms, "d": ("grid_a100-3-20c",)}, {}, out) is None
    assert out.steps < 0


def test_an_order_that_fails_is_found():
    vms = {"a": ("grid_a100-2-10c",), "b": ("grid_a100-2-10c",), "c": ("grid_a100-3-20c",)}
    assert some_order_fails(host("mig"), vms, Budget(100))
    assert not some_order_fails(host("mig"), vms, Budget(0))
    assert not some_order_fails(host("mig", "mig", "mig"), vms, Budget(1000))
    assert not some_order_fails(host("mig"), {"a": ("grid_a100-1-5c",), "b": ("grid_a100-3-20c",)}, Budget(100))
    series = {"a": ("grid_a100-10c",), "b": ("grid_a100-10q",)}
    assert not some_order_fails(host("time_sliced", sharing=Sharing(any_series=True)), series, Budget(100))


def test_the_ways_in_which_gpus_can_end_up():
    vms = {"a": ("grid_a100-1-5c",), "b": ("grid_a100-2-10c",)}
    ends = list(every_end(host("mig"), vms, Budget(100)))
    starts = {tuple(sorted((vm, p[0].start) for vm, p in end.items())) for end in ends}
    assert starts == {(("a", 6), ("b", 4))}
    assert list(every_end(host("mig"), vms, Budget(0))) == []
    assert list(every_end(host("mig"), {}, Budget(1))) == [{}]
    assert list(every_end(host("mig"), {"a": ("grid_a100-7-40c",), "b": ("grid_a100-1-5c",)}, Budget(100))) == []


def test_the_first_vm_opens_all_gpus():
    own = ("grid_a100-10c", "grid_a100-10c", "grid_a100-40c")
    for any_series in (False, True):
        sharing = Sharing(any_series=any_series)
        three = host("time_sliced", "time_sliced", "time_sliced", sharing=sharing)
        budget = Budget(1000)
        assert find_order(three, {"a": own, "b": own}, {}, budget) is None
        assert budget.steps > 0
    both = {"a": ("grid_a100-10c", "grid_a100-7-40c"), "b": ("grid_a100-20c",), "c": ("grid_a100-40c",)}
    assert find_order(host("mig", "time_sliced", "time_sliced"), both, {}, Budget(1000)) is None
