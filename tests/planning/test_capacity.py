import pytest
from support import estates as make

from vsphere_ai.admission.gpus import question_of, slots_of
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, NoFit
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.smi.live import PLACEMENTS, PROFILES, RUNNING
from vsphere_ai.model.facts import CommandOutput
from vsphere_ai.model.view import View
from vsphere_ai.planning import capacity
from vsphere_ai.planning.capacity import problems_of
from vsphere_ai.planning.observing import observe
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import GpuMig, Mig
from vsphere_ai.resources.tuning import Tuning
from vsphere_ai.resources.vgpu import Vgpu

LISTED_MIG = tuple(f"grid_a100-{s}c" for s in ("1-5", "1-10", "2-10", "3-20", "4-20", "7-40"))
LISTED_SLICED = tuple(f"grid_a100-{s}c" for s in (4, 5, 8, 10, 20, 40))
ON = make.smi(dict.fromkeys(make.PCI, make.ON))


def host(target=make.ESX1, *, vms=((), ()), probes=ON, listed=LISTED_MIG, **more):
    infos = tuple(make.gpu_info(p, "sharedDirect", v) for p, v in zip(make.PCI, vms, strict=True))
    more = {"config__graphicsInfo": infos, "config__sharedPassthruGpuTypes": listed, **more}
    return make.host(target, active="sharedDirect", probes=probes, **more)


def guest(number, *profiles, on=make.ESX1, state="poweredOn"):
    devices = tuple(make.vgpu_device(1000 + n, p) for n, p in enumerate(profiles))
    return make.guest(make.vm(number), on, config__hardware__device=devices, runtime__powerState=state)


def refs(*numbers):
    return frozenset(make.vm(n).ref for n in numbers)


def view(*facts, **more):
    return make.view(make.estate(*facts), **more)


def said(found):
    return [(p.target.name, p.rule, p.message, p.remedy) for p in found]


# -- the GPUs of a host


def test_gpus_in_mig_mode_with_what_runs_on_them():
    probes = make.smi(dict.fromkeys(make.PCI, make.ON), [(0, "3g.20gb", 9, 2, "4:4"), (1, "1g.5gb", 19, 9, "2:1")])
    facts = host(vms=([make.vm(1).ref], ()), probes=probes)
    one = view(facts, guest(1, "grid_a100-3-20c"))
    first, second = slots_of(one, make.ESX1, refs(1))
    assert (first.host, first.pci, first.board.key, first.mode) == ("esx01", make.PCI[0], "a100-40gb", "mig")
    assert first.present == (Instance("3g.20gb", 4, None, in_use=True),)
    assert not first.guessed
    assert second.present == (Instance("1g.5gb", 2),)
    assert (first.driver_major, first.offered) == (535, frozenset(LISTED_MIG))


def test_without_ssh_the_place_of_a_running_vm_is_assumed():
    facts = host(vms=([make.vm(1).ref], ()), probes={})
    first, second = slots_of(view(facts, guest(1, "grid_a100-3-20c")), make.ESX1, refs(1))
    assert first.mode == second.mode == "mig"  # the host lists MIG-backed profiles
    assert first.present == (Instance("3g.20gb", 4, None, in_use=True),)
    # nobody has seen what was made there beforehand
    assert first.guessed
    assert second.guessed


def test_the_mode_without_ssh():
    def modes(*facts):
        return [s.mode for s in slots_of(view(*facts), make.ESX1, refs(1))]

    assert modes(host(probes={}, listed=LISTED_SLICED)) == ["time_sliced"] * 2
    both = (*LISTED_SLICED, *LISTED_MIG)
    # what runs on a GPU tells more than the host's list, and vCenter 8.0 U3 tells it for every GPU
    assert modes(host(probes={}, listed=both, vms=([make.vm(1).ref], ())), guest(1, "grid_a100-20c")) == [
        "time_sliced", "mig",
    ]  # fmt: skip
    info = [make.gpu_info(p, "sharedDirect") for p in make.PCI]
    shown = ({**info[0], "vgpuMode": "multiInstanceGpu"}, {**info[1], "vgpuMode": "mixedSize"})
    facts = host(probes={}, listed=both, config__graphicsInfo=shown, config__product={"version": "8.0.3"})
    first, second = slots_of(view(facts), make.ESX1, ())
    assert (first.mode, second.mode) == ("mig", "time_sliced")
    assert (first.sharing.mixed, second.sharing.mixed, second.sharing.any_series) == (False, True, True)


def listed(*vgpus):
    """What nvidia-smi lists as running on the first GPU: (VM name, GPU instance) of 3-20c."""
    text = f"GPU 0000{make.PCI[0].upper()}\n    Active vGPUs : {len(vgpus)}\n"
    for number, (name, gi) in enumerate(vgpus, 1):
        rows = {"VM ID": number, "VM Name": name, "vGPU Name": "GRID A100-3-20C", "Guest Driver Version": "N/A",
                "License Status": "N/A", "GPU Instance ID": gi}  # fmt: skip
        text += f"    vGPU ID : {number}\n" + "".join(f"        {key} : {value}\n" for key, value in rows.items())
    return {RUNNING.name: CommandOutput(0, text)}


def test_the_instance_of_a_vm_that_leaves_is_gone_and_that_of_another_stays_where_nvidia_smi_shows_it():
    table = [(0, "3g.20gb", 9, 1, "0:4"), (0, "3g.20gb", 9, 2, "4:4")]
    probes = make.smi(dict.fromkeys(make.PCI, make.ON), table)
    names = [make.vm(n).name for n in (1, 2)]
    for stays, start in ((1, 0), (2, 4)):
        facts = host(vms=(refs(1, 2), ()), probes={**probes, **listed((names[0], 1), (names[1], 2))})
        guests = [guest(n, "grid_a100-3-20c") for n in (1, 2)]
        first, _ = slots_of(view(facts, *guests), make.ESX1, refs(stays))
        assert first.present == (Instance("3g.20gb", start, None, in_use=True),)
        assert [r.start for r in first.running] == [start]


def mixed(*vgpus):
    """A GPU in mixed-size mode, with what nvidia-smi lists there: (number of the VM, size, placement ID)."""
    text = f"GPU 0000{make.PCI[0].upper()}\n    Active vGPUs : {len(vgpus)}\n"
    for number, size, place in vgpus:
        rows = {"VM ID": number, "VM Name": make.vm(number).name, "vGPU Name": f"GRID A100-{size}C",
                "Guest Driver Version": "N/A", "License Status": "N/A", "GPU Instance ID": "N/A"}  # fmt: skip
        rows |= {} if place is None else {"Placement ID": place}
        text += f"    vGPU ID : {number}\n" + "".join(f"        {key} : {value}\n" for key, value in rows.items())
    infos = ({**make.gpu_info(make.PCI[0], "sharedDirect", refs(*(v[0] for v in vgpus))), "vgpuMode": "mixedSize"},)
    facts = host(probes={RUNNING.name: CommandOutput(0, text)}, listed=LISTED_SLICED, config__graphicsInfo=infos,
                 hardware__pciDevice=(make.pci_device(make.PCI[0], make.A100),))  # fmt: skip
    return [facts, *(guest(number, f"grid_a100-{size}c") for number, size, _ in vgpus)]


def test_places_of_mixed_sizes_are_those_that_nvidia_smi_shows():
    big = guest(3, "grid_a100-20c", state="poweredOff")
    apart = view(*mixed((1, 10, 0), (2, 10, 20)), big)
    (slot,) = slots_of(apart, make.ESX1, refs(1, 2))
    assert ([r.start for r in slot.running], slot.guessed) == ([0, 20], False)
    (found,) = problems_of(apart, refs(1, 2, 3))
    assert found.message.startswith("train-03 cannot power on: 1 of grid_a100-20c")
    assert not list(problems_of(view(*mixed((1, 10, 0), (2, 10, 10)), big), refs(1, 2, 3)))
    # VM 2 powers off
    assert not list(problems_of(apart, refs(1, 3)))


@pytest.mark.parametrize("place", [None, "N/A", "7"])
def test_where_places_are_not_shown_only_what_is_too_much_is_refused(place):
    facts = mixed((1, 10, place), (2, 10, 20))
    (slot,) = slots_of(view(*facts), make.ESX1, refs(1, 2))
    assert slot.guessed
    assert not list(problems_of(view(*facts, guest(3, "grid_a100-20c", state="poweredOff")), refs(1, 2, 3)))
    both = [guest(n, "grid_a100-20c", state="poweredOff") for n in (3, 4)]
    (found,) = problems_of(view(*facts, *both), refs(1, 2, 3, 4))
    assert found.rule == "capacity.no-room"


def test_no_vm_keeps_its_gpus_in_a_window_without_a_reboot():
    profiles = ("grid_a100-10c", "grid_a100-20c")
    infos = ({**make.gpu_info(make.PCI[0], "sharedDirect", refs(1, 2)), "vgpuMode": "sameSize"},)
    facts = host(probes={}, listed=LISTED_SLICED, config__graphicsInfo=infos,
                 hardware__pciDevice=(make.pci_device(make.PCI[0], make.A100),))  # fmt: skip
    one = view(facts, *(guest(n, p) for n, p in enumerate(profiles, 1)))
    assert {d.running_on for d in question_of(one, refs(1, 2)).demands} == {"esx01"}
    assert not list(problems_of(one, refs(1, 2)))
    emptied = one.emptying(frozenset({make.ESX1.ref}))
    assert {d.running_on for d in question_of(emptied, refs(1, 2)).demands} == {None}
    assert [p.rule for p in problems_of(emptied, refs(1, 2))] == ["capacity.no-room"]


def test_gpus_that_give_no_vgpus_are_left_out():
    passed = tuple(make.gpu_info(p, t) for p, t in zip(make.PCI, ("direct", "sharedDirect"), strict=True))
    planned = view(host()).with_facts([host(config__graphicsInfo=passed)])  # the first is passed through by the plan
    assert [s.pci for s in slots_of(planned, make.ESX1, ())] == [make.PCI[1]]
    assert slots_of(view(make.host(make.ESX1, probes=ON)), make.ESX1, ()) == ()  # shared, not shared direct
    unknown = tuple(make.pci_device(p, 0x1234) for p in make.PCI)
    assert slots_of(view(host(probes={}, hardware__pciDevice=unknown)), make.ESX1, ()) == ()


def test_a_board_without_mig_is_time_sliced_whatever_else_is_shown():
    t4 = tuple(make.pci_device(p, 0x1EB8) for p in make.PCI)
    slots = slots_of(view(host(hardware__pciDevice=t4)), make.ESX1, ())
    assert [(s.board.key, s.mode) for s in slots] == [("t4-16gb", "time_sliced")] * 2


def test_a_listed_type_that_is_no_vgpu_name_says_nothing_about_the_mode():
    for more in (LISTED_MIG, LISTED_SLICED):
        read = slots_of(view(host(probes={}, listed=more)), make.ESX1, ())
        slots = slots_of(view(host(probes={}, listed=("Some passthru GPU", *more))), make.ESX1, ())
        assert [s.mode for s in slots] == [s.mode for s in read]
        assert [s.spellings for s in slots] == [("grid_a100",)] * 2


def test_a_running_vgpu_that_no_gpu_of_the_host_gives_stands_nowhere():
    facts = host(vms=([make.vm(1).ref], ()))  # MIG mode
    slots = slots_of(view(facts, guest(1, "grid_a100-40c", "grid_a100-3-20c")), make.ESX1, refs(1))
    assert [[r.profile for r in s.running] for s in slots] == [["grid_a100-3-20c"], []]


def test_a_vm_on_two_gpus_has_one_vgpu_on_each():
    facts = host(vms=([make.vm(1).ref], [make.vm(1).ref]), probes={}, listed=LISTED_SLICED)
    slots = slots_of(view(facts, guest(1, "grid_a100-40c", "grid_a100-40c")), make.ESX1, refs(1))
    assert [[r.profile for r in s.running] for s in slots] == [["grid_a100-40c"], ["grid_a100-40c"]]


def test_a_planned_layout_is_what_there_will_be():
    one = view(host())
    planned = Mig.model_construct(
        mode=None,
        layout=None,
        gpus={make.PCI[0]: GpuMig.model_construct(mode="enabled", layout=("3g.20gb:4", "19:0", "9"))},
    )
    first = slots_of(one.with_planned(make.ESX1.ref, planned), make.ESX1, ())[0]
    assert first.instances == (Instance("3g.20gb", 4), Instance("1g.5gb", 0))
    assert first.offered is None  # the list of today says nothing about tomorrow
    assert first.spellings == ("grid_a100",)


def test_instances_are_gone_after_a_reboot_and_with_their_vm():
    probes = make.smi(dict.fromkeys(make.PCI, make.ON), [(0, "3g.20gb", 9, 2, "4:4"), (0, "2g.10gb", 14, 3, "0:2")])
    facts = host(vms=([make.vm(1).ref], ()), probes=probes)
    guests = guest(1, "grid_a100-3-20c")
    staying = slots_of(view(facts, guests), make.ESX1, refs(1))[0]
    assert {i.profile_name for i in staying.present} == {"3g.20gb", "2g.10gb"}
    leaving = slots_of(view(facts, guests), make.ESX1, ())[0]
    assert [i.profile_name for i in leaving.present] == ["2g.10gb"]
    rebooted = View(
        make.estate(facts, guests), observe(make.estate(facts, guests), kinds()), frozenset({make.ESX1.ref})
    )
    assert slots_of(rebooted, make.ESX1, ())[0].present == ()


# -- the question


def test_who_stays_and_who_powers_on():
    facts = host(vms=([make.vm(1).ref], [make.vm(3).ref]))
    guests = [guest(n, "grid_a100-3-20c", state="poweredOff" if n == 2 else "poweredOn") for n in (1, 2, 3, 4)]
    one = view(facts, *guests, guest(5))
    changed = one.with_planned(make.vm(3).ref, Vgpu.model_construct(profiles=("grid_a100-4-20c",)))
    found = {d.name: (d.profiles, d.running_on) for d in question_of(changed, refs(1, 2, 3, 5)).demands}
    assert found == {
        make.vm(1).ref: (("grid_a100-3-20c",), "esx01"),
        make.vm(2).ref: (("grid_a100-3-20c",), None),
        make.vm(3).ref: (("grid_a100-4-20c",), None),  # it is switched off for the change
    }


def test_vms_of_a_cluster_may_run_on_any_host_of_it():
    one = view(host(), host(make.ESX2), guest(1, "grid_a100-7-40c", state="poweredOff"))
    (demand,) = question_of(one, refs(1)).demands
    assert demand.hosts == {"esx01", "esx02"}
    assert question_of(one, refs(1), [make.ESX1]).demands[0].hosts == {"esx01"}
    assert question_of(one, refs(1), [make.ESX2]).demands == ()


def test_the_policy_is_the_hosts():
    packed = HostGraphics.model_construct(assignment_policy="consolidation", gpus=None, default_type=None)
    one = view(host(), host(make.ESX2)).with_planned(make.ESX2.ref, packed)
    assert question_of(one, frozenset()).farm.policies == {"esx01": "performance", "esx02": "consolidation"}


# -- problems of a plan


def test_a_host_on_which_everybody_fits():
    guests = [guest(n, "grid_a100-3-20c", state="poweredOff") for n in (1, 2, 3, 4)]
    assert said(problems_of(view(host(), *guests), refs(1, 2, 3, 4))) == []


def test_a_host_with_a_vm_too_many():
    guests = [guest(n, "grid_a100-3-20c", state="poweredOff") for n in (1, 2, 3, 4, 5)]
    assert said(problems_of(view(host(), *guests), refs(1, 2, 3, 4, 5))) == [
        (
            "esx01", "capacity.no-room",
            "train-05 cannot power on: 5 of grid_a100-3-20c are to power on on the 2 GPUs of esx01, where 4 fit",
            "room for 4 more grid_a100-3-20c",
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "refused"),
    [(Tuning(cpus=32), False), (Vgpu(profiles=("grid_a100-3-20c",)), True)],
    ids=["tuning", "vgpu"],
)
def test_a_vm_that_is_off_and_gets_no_gpu_needs_none(state, refused):
    """Four run, which is all that fits; what a plan sets of the fifth, which is off and stays so, takes no GPU."""
    guests = [guest(n, "grid_a100-3-20c") for n in (1, 2, 3, 4)]
    fifth = guest(5, "grid_a100-1-5c" if refused else "grid_a100-3-20c", state="poweredOff")
    instances = [(gpu, "3g.20gb", 9, gi, f"{start}:4") for gpu in (0, 1) for gi, start in ((1, 0), (2, 4))]
    probes = make.smi(dict.fromkeys(make.PCI, make.ON), instances)
    full = host(vms=([make.vm(n).ref for n in (1, 2)], [make.vm(n).ref for n in (3, 4)]), probes=probes)
    plan = make.made(view(full, *guests, fifth).estate, {make.vm(5): make.wants(state)})
    assert [p.rule for p in plan.problems if p.rule.startswith("capacity")] == ["capacity.no-room"] * refused


def test_another_host_of_the_cluster_does_not_help_but_is_not_blamed():
    guests = [guest(n, "grid_a100-7-40c", state="poweredOff") for n in (1, 2, 3)]
    found = list(problems_of(view(host(), host(make.ESX2), *guests), refs(1, 2, 3)))
    assert [(p.target, p.rule) for p in found] == [(make.ESX1, "capacity.no-room")]


def test_a_running_vm_that_blocks_the_only_place():
    probes = make.smi(dict.fromkeys(make.PCI, make.ON), [(0, "1g.5gb", 19, 9, "0:1"), (1, "1g.5gb", 19, 9, "2:1")])
    facts = host(vms=([make.vm(1).ref], [make.vm(2).ref]), probes=probes)
    small = [guest(n, "grid_a100-1-5c") for n in (1, 2)]
    (found,) = problems_of(view(facts, *small, guest(3, "grid_a100-4-20c", state="poweredOff")), refs(1, 2, 3))
    assert found.message.startswith("train-03 cannot power on: 1 of grid_a100-4-20c")
    assert found.remedy == "room for no more grid_a100-4-20c"
    # the same VMs elsewhere on the GPUs leave room for it
    probes = make.smi(dict.fromkeys(make.PCI, make.ON), [(0, "1g.5gb", 19, 9, "6:1"), (1, "1g.5gb", 19, 9, "2:1")])
    facts = host(vms=([make.vm(1).ref], [make.vm(2).ref]), probes=probes)
    assert not list(problems_of(view(facts, *small, guest(3, "grid_a100-4-20c", state="poweredOff")), refs(1, 2, 3)))


def test_a_set_that_no_order_reaches():
    sizes = ("4-20", "1-10", "1-5", "1-5", "7-40")
    guests = [guest(n, f"grid_a100-{s}c", state="poweredOff") for n, s in enumerate(sizes)]
    (found,) = problems_of(view(host(), *guests), refs(*range(5)))
    assert found.rule == "capacity.no-room"
    # with its double-memory instance made beforehand it does
    probes = make.smi(dict.fromkeys(make.PCI, make.ON), [(0, "1g.10gb", 15, 9, "6:2")])
    assert not list(problems_of(view(host(probes=probes), *guests), refs(*range(5))))


def test_profiles_nobody_offers_are_left_to_the_vgpu_kind():
    assert not list(problems_of(view(host(), guest(1, "grid_a100-40c", state="poweredOff")), refs(1)))


def test_a_guess_does_not_refuse_a_plan():
    facts = host(vms=([make.vm(1).ref], [make.vm(1).ref]), probes={})
    guests = [guest(1, "grid_a100-3-20c", "grid_a100-3-20c"), guest(2, "grid_a100-7-40c", state="poweredOff")]
    one = view(facts, *guests)
    answer = solve(question_of(one, refs(1, 2)).farm, question_of(one, refs(1, 2)).demands)
    assert isinstance(answer, NoFit)
    assert not answer.exact
    assert not list(problems_of(one, refs(1, 2), spare_hosts=1))


# -- with a spare host


@pytest.mark.parametrize(("vms", "ok"), [(2, True), (3, False)])
def test_all_restart_when_one_host_fails(vms, ok):
    on = {1: make.ESX1, 2: make.ESX2, 3: make.ESX1}
    guests = [guest(n, "grid_a100-7-40c", on=on[n], state="poweredOff") for n in range(1, vms + 1)]
    one = view(host(), host(make.ESX2), *guests)
    numbers = refs(*range(1, vms + 1))
    assert not list(problems_of(one, numbers))
    found = list(problems_of(one, numbers, spare_hosts=1))
    assert bool(found) != ok
    if found:
        assert (found[0].target, found[0].rule) == (make.ESX1, "capacity.no-spare")
        assert found[0].message.startswith("if esx01 failed, train-0")


def test_a_vm_on_a_lone_host_cannot_restart():
    alone = host(parent="ComputeResource:domain-s1")
    found = list(problems_of(view(alone, guest(1, "grid_a100-7-40c", state="poweredOff")), refs(1), 1))
    assert [p.rule for p in found] == ["capacity.no-spare"]
    assert "no host" in found[0].message


def test_running_vms_count_when_their_host_fails():
    probes = make.smi(dict.fromkeys(make.PCI, make.ON), [(0, "7g.40gb", 0, 0, "0:8"), (1, "7g.40gb", 0, 0, "0:8")])
    full = host(vms=([make.vm(1).ref], [make.vm(2).ref]), probes=probes)
    guests = [guest(1, "grid_a100-7-40c"), guest(2, "grid_a100-7-40c")]
    assert not list(problems_of(view(full, host(make.ESX2), *guests), refs(1, 2), 1))
    more = guest(3, "grid_a100-1-5c", on=make.ESX2, state="poweredOff")
    found = list(problems_of(view(full, host(make.ESX2), *guests, more), refs(1, 2, 3), 1))
    assert {p.rule for p in found} == {"capacity.no-spare"}


def test_the_answer_is_the_same_for_a_view_that_was_read_twice():
    guests = [guest(n, "grid_a100-3-20c", state="poweredOff") for n in (1, 2, 3)]
    answers = []
    for _ in range(2):
        question = question_of(view(host(), *guests), refs(1, 2, 3))
        answers.append(solve(question.farm, question.demands))
    assert isinstance(answers[0], Fit)
    assert answers[0] == answers[1]
    assert capacity.room_words({"a": 0, "b": 2}) == "room for no more a; room for 2 more b"


def test_a_running_vm_that_was_not_read_makes_its_gpu_unsure():
    facts = host(vms=(["VirtualMachine:vm-99"], ()))
    first, second = slots_of(view(facts), make.ESX1, ())
    assert (first.guessed, second.guessed) == (True, False)
    # after a reboot nobody is there
    rebooted = View(make.estate(facts), observe(make.estate(facts), kinds()), frozenset({make.ESX1.ref}))
    assert not slots_of(rebooted, make.ESX1, ())[0].guessed


def test_a_vm_whose_own_order_of_vgpus_blocks_it():
    both = guest(1, "grid_a100-2-10c", "grid_a100-3-20c", state="poweredOff")
    more = [guest(2, "grid_a100-2-10c", state="poweredOff"), guest(3, "grid_a100-7-40c", state="poweredOff")]
    (found,) = problems_of(view(host(), both, *more), refs(1, 2, 3))
    assert (found.rule, found.target) == ("capacity.no-room", make.ESX1)
    assert "but in no power-on order" in found.message
    assert "explicit starts" in found.remedy


# -- what was not read is not silently assumed


def test_gpus_in_mig_mode_that_nobody_asked_are_not_certain():
    slots = slots_of(view(host(probes={})), make.ESX1, ())
    assert [s.guessed for s in slots] == [True, True]
    assert [s.guessed for s in slots_of(view(host()), make.ESX1, ())] == [False, False]
    assert [s.guessed for s in slots_of(view(host(probes={}, listed=LISTED_SLICED)), make.ESX1, ())] == [False, False]
    # one of them is not in nvidia-smi's list
    half = host(probes=make.smi({make.PCI[0]: make.ON}))
    assert [s.guessed for s in slots_of(view(half), make.ESX1, ())] == [False, True]
    # what this plan makes there is known
    gpus = dict.fromkeys(make.PCI, GpuMig.model_construct(mode="enabled", layout=("3g.20gb:4",)))
    planned = Mig.model_construct(mode=None, layout=None, gpus=gpus)
    cut = view(host(probes={})).with_planned(make.ESX1.ref, planned)
    assert [s.guessed for s in slots_of(cut, make.ESX1, ())] == [False, False]


def test_too_many_vms_are_refused_even_where_the_gpus_were_not_read():
    guests = [guest(n, "grid_a100-3-20c", state="poweredOff") for n in (1, 2, 3, 4, 5)]
    (found,) = problems_of(view(host(probes={}), *guests), refs(1, 2, 3, 4, 5))
    assert "where 4 fit" in found.message
    assert found.remedy == "room for 4 more grid_a100-3-20c, if nothing stands on its GPUs that was not read"
    assert not list(problems_of(view(host(probes={}), *guests), refs(1, 2, 3, 4)))


@pytest.mark.parametrize(("probes", "rules"), [(ON, ["capacity.no-room"]), ({}, [])])
def test_no_order_is_no_refusal_where_instances_may_have_been_made_beforehand(monkeypatch, probes, rules):
    vm = make.vm(1).ref
    stuck = NoFit("no order", (vm,), no_order=("esx01",), assignment={vm: ("esx01", ())}, assumed=True)
    monkeypatch.setattr(capacity, "solve", lambda *_, **__: stuck)
    one = view(host(probes=probes), guest(1, "grid_a100-3-20c", state="poweredOff"))
    assert [p.rule for p in problems_of(one, refs(1))] == rules


# -- what the host lists wins


PRO_5000 = 0x2BB3
LISTS = {
    PROFILES.name: CommandOutput(0, "+-+\n|=|\n| 0 MIG 1g.12gb 14 4/4 11.6 No 24 1 1 |\n| 1 1 0 |\n"
                             "| 0 MIG 4g.48gb 0 1/1 47.4 No 110 3 3 |\n| 4 1 1 |\n+-+\n"),
    PLACEMENTS.name: CommandOutput(
        0, "GPU 0 Profile ID 14 Placements: {0,3,6,9}:3\nGPU 0 Profile ID 0 Placement : {0}:12\n"
    ),
}  # fmt: skip
ON_PRO = "nvidia_rtx_pro_5000_blackwell-1-12q"


def host_of(device, lists, *listed):
    devices = (make.pci_device(make.PCI[0], device),)
    return host(probes={**make.smi({make.PCI[0]: make.ON}, driver="580.1"), **lists}, listed=listed,
                hardware__pciDevice=devices)  # fmt: skip


@pytest.mark.parametrize("device", [PRO_5000, 0x7777])
def test_a_board_only_its_host_knows_takes_what_the_host_lists(device):
    facts = host_of(device, LISTS, ON_PRO)
    (slot,) = slots_of(view(facts), make.ESX1, ())
    assert (slot.mode, slot.spellings) == ("mig", ("nvidia_rtx_pro_5000_blackwell",))
    guests = [guest(n, ON_PRO, state="poweredOff") for n in (1, 2, 3, 4, 5)]
    assert not list(problems_of(view(facts, *guests), refs(1, 2, 3, 4)))
    (found,) = problems_of(view(facts, *guests), refs(1, 2, 3, 4, 5))
    assert "where 4 fit" in found.message


def test_a_board_in_mig_mode_nobody_knows_the_placements_of_is_left_out():
    assert slots_of(view(host_of(PRO_5000, {}, ON_PRO)), make.ESX1, ()) == ()
