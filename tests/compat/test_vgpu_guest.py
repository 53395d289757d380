"""Guest drivers and licences of vGPUs: branches that go together, and VMs of which the host tells nothing."""

import pytest

from vsphere_ai.compat import gate
from vsphere_ai.compat.vgpu_branches import branch_of, works_with
from vsphere_ai.model.facts import Facts

RULES = {r.id: r for r in gate.rules() if r.id in ("vgpu.licence", "vgpu.guest-driver")}


@pytest.mark.parametrize(
    ("driver", "release"),
    [("535.54.03", 16), ("538.15", 16), ("529.19", 15), ("474.30", 13), ("582.16", 19), ("515.48.07", None),
     ("545.29", None), ("600.1", None), ("", None), ("x", None)],
)  # fmt: skip
def test_branch_of_a_driver(driver, release):
    found = branch_of(driver)
    assert (found.release if found else None) == release


@pytest.mark.parametrize(
    ("host", "guest", "works"),
    [
        ("550.1", "550.9", "same"),
        ("550.1", "535.1", "before"),
        ("550.1", "525.1", ""),
        ("535.1", "470.1", "long-term"),  # vGPU 16 with guests of 13
        ("580.1", "535.1", "long-term"),
        ("580.1", "550.1", ""),
        ("580.1", "570.1", "before"),
        ("570.1", "535.1", ""),  # 18 is no long-term support branch
        ("535.1", "550.1", ""),  # a guest newer than its host
        ("450.1", "470.1", ""),
    ],
)
def test_combinations(host, guest, works):
    told = works_with(branch_of(host), branch_of(guest))
    assert works in told
    assert bool(told) == bool(works)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_vm_that_is_off_or_has_no_vgpu_is_no_matter(world, rule):
    off = world.view({world.vm.ref: {"runtime.powerState": "poweredOff"}})
    bare = world.view({world.vm.ref: {"config.hardware.device": ()}})
    assert [list(RULES[rule].check(world.vm, view)) for view in (off, bare)] == [[], []]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_where_the_host_was_not_asked_it_is_unknown(world, rule):
    view = world.view({world.host.ref: {"probe:nvidia-smi vgpus": world.absent}})
    (finding,) = RULES[rule].check(world.vm, view)
    assert (finding.verdict, finding.refuses) == ("unknown", False)
    assert finding.message.endswith("esx01 was not asked over SSH")


@pytest.mark.parametrize("rule", sorted(RULES))
def test_vms_of_one_name_on_one_host_are_not_mixed_up(world, rule):
    view = world.view({"VirtualMachine:vm-2": {"name": "train-01", "runtime.host": world.host.ref}})
    assert isinstance(view.facts("VirtualMachine:vm-2"), Facts)
    (finding,) = RULES[rule].check(world.vm, view)
    assert finding.verdict == "unknown"
    assert "2 VMs of this name are on esx01" in finding.message
