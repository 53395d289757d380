"""A layout is exact: a plan in which vSphere would make instances beside it is refused, not left to the next one."""

import pytest
from support.estates import ESX1, OFF, ON, PCI, estate, gpu_info, guest, host, made, smi, vgpu_device, vm, wants

from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

HALF, SMALL = "grid_a100-3-20c", "grid_a100-1-5c"
LISTED = tuple(f"grid_a100-{s}c" for s in ("1-5", "1-10", "2-10", "3-20", "4-20", "7-40"))
FIRST, SECOND = PCI
RULE = "capacity.not-in-layout"


def farm(*vms, modes=ON, instances=()):
    """One host with two A100; `vms` are (number, profile, power state), running ones on the first GPU."""
    running = [vm(n).ref for n, profile, state in vms if profile and state == "poweredOn"]
    infos = (gpu_info(FIRST, "sharedDirect", running), gpu_info(SECOND, "sharedDirect"))
    return estate(
        host(ESX1, active="sharedDirect", probes=smi(dict.fromkeys(PCI, modes), instances),
             config__graphicsInfo=infos, config__sharedPassthruGpuTypes=LISTED),
        *(guest(vm(n), ESX1, runtime__powerState=state,
                config__hardware__device=(vgpu_device(1000, profile),) if profile else ())
          for n, profile, state in vms),
    )  # fmt: skip


def refusals(of, **states):
    """Plan `host` and `vm1`… on that farm; return (target, message, help) of what has the rule, and all rules."""
    targets = {"host": ESX1, **{f"vm{n}": vm(n) for n in range(1, 6)}}
    plan = made(of, {targets[k]: wants(v, rolling=Rolling(evacuate="power_off")) for k, v in states.items()})
    found = [(p.target, p.message, p.remedy) for p in plan.problems if p.rule == RULE]
    assert {p.rule for p in plan.problems} <= {RULE}, plan.problems
    assert not found or plan.steps or plan.problems
    return found


def layout(*items):
    return Mig(layout=items)


def test_a_vm_of_the_same_plan_without_an_instance_in_the_layout():
    found = refusals(
        farm((1, "", "poweredOff"), modes=OFF), host=layout("1g.5gb", "1g.5gb"), vm1=Vgpu(profiles=(HALF,))
    )
    assert found == [
        (
            ESX1,
            f"train-01: the layout of the GPUs leaves no instance for {HALF}, so vSphere would make one beside it at "
            "power-on",
            "add 3g.20gb to the layout, or leave the layout out: with mig: {mode: enabled} vSphere makes instances",
        )
    ]


def test_a_vm_that_a_reboot_switches_off_and_on_again():
    running = farm((1, HALF, "poweredOn"), modes=OFF)
    assert [t for t, *_ in refusals(running, host=layout("1g.5gb"))] == [ESX1]
    assert refusals(running, host=layout("1g.5gb", "3g.20gb")) == []


def test_a_vm_that_is_off_and_that_the_plan_is_not_about_needs_nothing():
    assert refusals(farm((1, HALF, "poweredOff"), modes=OFF), host=layout("1g.5gb")) == []


@pytest.mark.parametrize(("number", "refused"), [(1, False), (2, False), (3, True), (4, True)])
def test_as_many_as_there_are_instances(number, refused):
    numbers = range(1, number + 1)
    of = farm(*((n, "", "poweredOff") for n in numbers), modes=OFF)
    found = refusals(of, host=layout("3g.20gb"), **{f"vm{n}": Vgpu(profiles=(HALF,)) for n in numbers})
    assert bool(found) is refused
    # all of them fit where nobody says how: it is the layout that is in their way
    assert refusals(of, host=Mig(mode="enabled"), **{f"vm{n}": Vgpu(profiles=(HALF,)) for n in numbers}) == []


def test_each_profile_is_told_with_its_own_vms():
    of = farm((1, "", "poweredOff"), (2, "", "poweredOff"), modes=OFF)
    wanted = {"vm1": Vgpu(profiles=(HALF,)), "vm2": Vgpu(profiles=(SMALL,))}
    assert [
        m.partition(" leaves")[0].split()[0] + h.partition(" to")[0].removeprefix("add")
        for _, m, h in refusals(of, host=layout("2g.10gb"), **wanted)
    ] == ["train-01: 3g.20gb", "train-02: 1g.5gb"]


def test_gpus_that_the_playbook_leaves_to_vsphere_take_what_layouts_do_not():
    of = farm((1, "", "poweredOff"))
    wanted = {"vm1": Vgpu(profiles=(HALF,))}
    assert refusals(of, host=Mig(gpus={FIRST: ["1g.5gb"]}), **wanted) == []
    assert refusals(of, host=Mig(gpus={FIRST: ["1g.5gb"], SECOND: ["1g.5gb"]}), **wanted)
    assert refusals(of, host=Mig(gpus={FIRST: ["1g.5gb"], SECOND: {"mode": "enabled", "layout": []}}), **wanted)


MADE = [(0, "3g.20gb", 9, 1, "4:4"), (1, "1g.5gb", 19, 1, "6:1")]
AS_MADE = Mig(gpus={FIRST: ["3g.20gb"], SECOND: ["1g.5gb"]})


def test_a_layout_that_is_there_already_counts_as_well():
    of = farm((1, "", "poweredOff"), (2, "", "poweredOff"), instances=MADE)
    assert refusals(of, host=AS_MADE, vm1=Vgpu(profiles=(HALF,))) == []
    assert refusals(of, host=AS_MADE, vm1=Vgpu(profiles=(HALF,)), vm2=Vgpu(profiles=(HALF,)))
    assert refusals(of, vm1=Vgpu(profiles=(HALF,)), vm2=Vgpu(profiles=(HALF,))) == []


def test_a_vm_that_goes_back_to_its_own_instance():
    of = farm((1, HALF, "poweredOn"), instances=MADE)
    assert refusals(of, host=AS_MADE, vm1=VmHardware(memory_reservation="full")) == []


def test_an_instance_of_a_running_vm_is_not_there_for_another():
    of = farm((1, HALF, "poweredOn"), (2, "", "poweredOff"), instances=MADE)
    assert refusals(of, host=AS_MADE, vm2=Vgpu(profiles=(HALF,)))
    assert refusals(of, host=AS_MADE, vm2=Vgpu(profiles=(SMALL,))) == []
