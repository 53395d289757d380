"""The MIG kind: modes and layouts from nvidia-smi's answers to nvidia-smi's commands, and every refusal."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import (
    ESX1,
    H100,
    OFF,
    ON,
    PCI,
    estate,
    gpu_info,
    guest,
    host,
    smi,
    state_of,
    view,
    vm,
)
from support.judging import judge, plan_one, steps_of, words
from support.plays import SHARED

from vsphere_ai.gpu.smi.live import COMPUTE, GPUS, INSTANCES, PLACEMENTS, PROFILES
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure
from vsphere_ai.model.steps import Shell
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import GpuMig, Mig

ALONE = f"{SHARED}  mig: {{mode: enabled}}\n"

FIRST, SECOND = PCI
A, B = "00000000:3B:00.0", "00000000:86:00.0"
BOTH_ON, BOTH_OFF = dict.fromkeys(PCI, ON), dict.fromkeys(PCI, OFF)
WAITS = ("Disabled", "Enabled")


def commands(steps):
    """Every command after `nvidia-smi`, in order."""
    return [" ".join(s.argv[1:]) for s in steps if isinstance(s, Shell)]


def on(modes, instances=(), **more):
    """An estate of one host; the driver is one that lets 4g and 3g share a GPU."""
    return estate(host(ESX1, probes=smi(modes, instances), **more))


# -- mode


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_the_mode_is_as_wanted(mode):
    judged = judge(Mig(mode=mode), ESX1, on(BOTH_ON if mode == "enabled" else BOTH_OFF))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


@pytest.mark.parametrize(
    ("modes", "wanted", "expected"),
    [
        (BOTH_OFF, "enabled", [f"-i {A} -mig 1", f"-i {B} -mig 1"]),
        (BOTH_ON, "disabled", [f"-i {A} -mig 0", f"-i {B} -mig 0"]),
        ({FIRST: ON, SECOND: OFF}, "enabled", [f"-i {B} -mig 1"]),
    ],
)
def test_ampere_switches_the_mode_per_gpu_with_a_reboot(modes, wanted, expected):
    judged = judge(Mig(mode=wanted), ESX1, on(modes))
    assert commands(judged.steps) == expected
    assert all(s.needs_reboot and s.needs_maintenance and not s.after_reboot for s in judged.steps)
    assert words(steps_of(plan_one(on(modes), ESX1, Mig(mode=wanted)), ESX1)).count("reboot") == 1


def test_two_gpus_are_told_apart():
    judged = judge(Mig(gpus={FIRST: {"mode": "enabled"}}), ESX1, on(BOTH_OFF))
    assert judged.fields == {f"{FIRST} mode": ("disabled", "enabled")}
    assert commands(judged.steps) == [f"-i {A} -mig 1"]


def test_a_pci_address_may_be_written_as_nvidia_smi_does():
    judged = judge(Mig(gpus={A: {"mode": "enabled"}}), ESX1, on(BOTH_OFF))
    assert list(judged.fields) == [f"{FIRST} mode"]


def test_a_pending_mode_needs_the_reboot_only():
    judged = judge(Mig(mode="enabled"), ESX1, on({FIRST: WAITS, SECOND: ON}))
    assert judged.fields == {f"{FIRST} mode": ("disabled (enabled after a reboot)", "enabled")}
    assert commands(judged.steps) == []
    assert (judged.step.needs_reboot, judged.step.needs_maintenance) == (True, True)


def test_a_pending_mode_nobody_wants_is_taken_back():
    seen = on({FIRST: WAITS, SECOND: OFF})
    judged = judge(Mig(mode="disabled"), ESX1, seen)
    assert commands(judged.steps) == [f"-i {A} -mig 0"]
    assert not judged.step.needs_reboot  # the GPU still is in the desired state
    assert "reboot" not in words(steps_of(plan_one(seen, ESX1, Mig(mode="disabled")), ESX1))


NEWER = (
    {
        "_typeName": "SoftwarePackage",
        "name": "NVD-AIE_ESXi_7.0.2_Driver",
        "version": "535.183.01-1OEM",
        "vendor": "NVIDIA",
    },
)


def test_hopper_switches_without_a_reboot():
    plan = plan_one(on(BOTH_OFF, device=H100, software=NEWER), ESX1, Mig(mode="enabled"))
    assert plan.problems == ()
    done = words(steps_of(plan, ESX1))
    assert "reboot" not in done
    assert done[0] == "enter-maintenance"
    assert f"nvidia-smi -i {A} -mig 1" in done


def test_hopper_loses_its_mode_when_the_host_reboots_for_another_reason():
    seen = on(BOTH_ON, device=H100, software=NEWER)
    plan = plan_one(seen, ESX1, HostGraphics(default_type="shared_direct"), Mig(mode="enabled"))
    assert plan.problems == ()
    done = words(steps_of(plan, ESX1))
    assert done.count("reboot") == 1
    assert done.index(f"nvidia-smi -i {A} -mig 1") > done.index("gpus-answer")
    (item,) = (i for i in plan.items if i.kind == "mig")
    assert (item.fields, item.recreate) == ((), True)


def test_ampere_keeps_its_mode_when_the_host_reboots_for_another_reason():
    plan = plan_one(on(BOTH_ON), ESX1, HostGraphics(default_type="shared_direct"), Mig(mode="enabled"))
    assert commands(steps_of(plan, ESX1)) == []


def test_leaving_mig_mode_destroys_idle_instances_first_compute_before_gpu_instance():
    judged = judge(Mig(mode="disabled"), ESX1, on(BOTH_ON, [(0, "3g.20gb", 9, 2, "4:4"), (0, "1g.5gb", 19, 7, "0:1")]))
    assert commands(judged.steps) == [
        f"mig -i {A} -dci -gi 7 -ci 0",
        f"mig -i {A} -dgi -gi 7",
        f"mig -i {A} -dci -gi 2 -ci 0",
        f"mig -i {A} -dgi -gi 2",
        f"-i {A} -mig 0",
        f"-i {B} -mig 0",
    ]


def test_leaving_mig_mode_leaves_the_instances_of_running_vms_to_vsphere():
    seen = estate(
        host(ESX1, probes=smi(BOTH_ON, [(0, "3g.20gb", 9, 2, "4:4")]),
             config__graphicsInfo=(gpu_info(FIRST, "sharedDirect", [vm(1).ref]), gpu_info(SECOND, "sharedDirect"))),
        guest(vm(1), ESX1),
    )  # fmt: skip
    assert commands(judge(Mig(mode="disabled"), ESX1, seen).steps) == [f"-i {A} -mig 0", f"-i {B} -mig 0"]


# -- layout


def layout(*items, gpu=FIRST):
    return Mig(gpus={gpu: {"mode": "enabled", "layout": items}})


SEVEN = ("3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb")


def test_a_layout_is_made_with_one_command_and_explicit_starts():
    judged = judge(layout(*SEVEN), ESX1, on(BOTH_ON))
    (command,) = commands(judged.steps)
    head, _, places = command.partition("-cgi ")
    assert head == f"mig -i {A} "
    listed, tail = places.split(" ")
    assert tail == "-C"
    profiles = sorted(p.split(":")[0] for p in listed.split(","))
    assert profiles == ["14", "19", "19", "9"]
    assert "9:4" in listed.split(",")  # anywhere else a 1g would have to start at memory slice 7, which none may
    assert not judged.step.needs_reboot


def test_names_ids_and_the_pasted_command_mean_the_same():
    by_name = judge(layout(*SEVEN), ESX1, on(BOTH_ON)).steps
    assert judge(layout(9, 14, 19, 19), ESX1, on(BOTH_ON)).steps == by_name
    pasted = Mig(gpus={FIRST: {"mode": "enabled", "layout": "nvidia-smi mig -i 0 -cgi 9,14,19,19 -C"}})
    assert judge(pasted, ESX1, on(BOTH_ON)).steps == by_name


def test_starts_that_were_asked_for_are_used():
    judged = judge(layout("3g.20gb:0", "3g.20gb:4"), ESX1, on(BOTH_ON))
    assert judged.settled.gpus[FIRST].layout == ("3g.20gb:0", "3g.20gb:4")


def test_a_layout_for_all_gpus_enables_the_mode_and_follows_the_reboot():
    plan = plan_one(on(BOTH_OFF), ESX1, Mig(layout=("7g.40gb",)))
    assert plan.problems == ()
    done = words(steps_of(plan, ESX1))
    assert done.count("reboot") == 1
    for gpu in (A, B):
        mode, made_ = done.index(f"nvidia-smi -i {gpu} -mig 1"), done.index(f"nvidia-smi mig -i {gpu} -cgi 0:0 -C")
        assert mode < done.index("reboot") < done.index("gpus-answer") < made_ < done.index("as-planned")


def test_only_the_difference_is_changed():
    present = [(0, "3g.20gb", 9, 2, "4:4"), (0, "1g.5gb", 19, 7, "0:1"), (0, "1g.5gb", 19, 8, "1:1")]
    judged = judge(layout("3g.20gb", "1g.5gb", "2g.10gb"), ESX1, on(BOTH_ON, present))
    destroy_compute, destroy, create = commands(judged.steps)
    gone = destroy.removeprefix(f"mig -i {A} -dgi -gi ")
    assert gone in ("7", "8")  # one of the two slices that 2g.10gb needs; 3g.20gb and the other one stay
    assert destroy_compute == f"mig -i {A} -dci -gi {gone} -ci 0"
    assert create == f"mig -i {A} -cgi 14:2 -C"


def test_the_layout_as_it_is_needs_nothing_wherever_its_instances_stand():
    present = [(0, "3g.20gb", 9, 2, "0:4"), (0, "1g.5gb", 19, 7, "6:1")]
    judged = judge(layout("1g.5gb", "3g.20gb"), ESX1, on(BOTH_ON, present))
    assert (judged.fields, judged.problems) == ({}, {})


def test_an_empty_layout_destroys_what_is_there():
    for empty in (layout(), Mig(gpus={FIRST: []}), Mig(layout=[])):
        judged = judge(empty, ESX1, on(BOTH_ON, [(0, "7g.40gb", 0, 0, "0:8")]))
        assert judged.fields[f"{FIRST} layout"] == (("7g.40gb:0",), ())
        assert commands(judged.steps) == [f"mig -i {A} -dci -gi 0 -ci 0", f"mig -i {A} -dgi -gi 0"]


def busy(instances):
    return estate(
        host(ESX1, active="sharedDirect", probes=smi(BOTH_ON, instances),
             config__graphicsInfo=(gpu_info(FIRST, "sharedDirect", [vm(1).ref]), gpu_info(SECOND, "sharedDirect"))),
        guest(vm(1), ESX1),
    )  # fmt: skip


def test_instances_of_a_gpu_with_a_running_vm_are_never_destroyed():
    judged = judge(layout("7g.40gb"), ESX1, busy([(0, "3g.20gb", 9, 2, "4:4")]))
    assert set(judged.problems) == {"mig.layout"}
    message = judged.problems["mig.layout"].message
    assert "GPU instance 2: 3g.20gb at 4 is in use by train-01 and not part of the layout" in message


def test_a_gpu_with_a_running_vm_is_not_emptied():
    for empty in (layout(), Mig(gpus={FIRST: []}), Mig(layout=[])):
        judged = judge(empty, ESX1, busy([(0, "3g.20gb", 9, 2, "4:4")]))
        assert (set(judged.problems), judged.steps) == ({"mig.layout"}, ())
        assert judged.problems["mig.layout"].message.endswith(
            "cannot be emptied: GPU instance 2: 3g.20gb at 4 is in use by train-01 and not part of the layout"
        )


def test_instances_are_added_beside_those_in_use():
    judged = judge(layout("3g.20gb", "3g.20gb"), ESX1, busy([(0, "3g.20gb", 9, 2, "4:4")]))
    assert commands(judged.steps) == [f"mig -i {A} -cgi 9:0 -C"]


def test_instances_are_made_again_when_the_host_reboots_for_another_reason():
    seen = on(BOTH_ON, [(0, "7g.40gb", 0, 0, "0:8")])
    plan = plan_one(seen, ESX1, HostGraphics(default_type="shared_direct"), layout("7g.40gb"))
    assert plan.problems == ()
    done = words(steps_of(plan, ESX1))
    assert commands(steps_of(plan, ESX1)) == [f"mig -i {A} -cgi 0:0 -C"]  # they are gone, so nothing is destroyed
    assert done.index("reboot") < done.index(f"nvidia-smi mig -i {A} -cgi 0:0 -C")
    (item,) = (i for i in plan.items if i.kind == "mig")
    assert (item.fields, item.recreate) == ((), True)


def test_the_seed_command_is_refused_with_the_arithmetic():
    plan = plan_one(on(BOTH_OFF), ESX1, Mig(layout="-cgi 19,14,9,5,5,2"))
    first, second = (p for p in plan.problems if p.rule == "mig.layout")
    for part in ("14 of 7 compute slices", "15 of 8 memory slices", "no profile 2 on this GPU", "4g.20gb fits once"):
        assert part in first.message
    assert FIRST in first.message
    assert SECOND in second.message
    assert "closest legal layouts" in first.remedy
    assert "-cgi" in first.remedy
    assert commands(steps_of(plan, ESX1)) == []


def test_4g_and_3g_need_a_newer_driver():
    old = estate(host(ESX1, probes=smi(BOTH_ON, driver="470.63")))
    judged = judge(layout("4g.20gb", "3g.20gb"), ESX1, old)
    assert "R510" in judged.problems["mig.layout"].message
    assert judge(layout("4g.20gb", "3g.20gb"), ESX1, on(BOTH_ON)).problems == {}


@pytest.mark.parametrize("text", ["19,", "9:x", "3G.20GB", "9:-4", [1.5], {"a": 1}])
def test_a_layout_nvidia_smi_would_misread_is_refused_while_the_place_is_known(text):
    with pytest.raises(ValidationError):
        Mig(layout=text)


def test_a_mode_is_spelled_enabled_or_disabled():
    with pytest.raises(ValidationError, match="enabled"):
        GpuMig(mode="on")


# -- what the host lists


def listed(*profiles, gpus=(0,)):
    """Answers of `-lgip` and `-lgipp`; a profile is (name, id, maximum, starts, memory slices)."""
    rows = "".join(
        f"| {g} MIG {name} {number} {most}/{most} 9.5 No 14 0 0 |\n| 1 0 0 |\n"
        for g in gpus for name, number, most, _, _ in profiles
    )  # fmt: skip
    places = "".join(
        f"GPU {g} Profile ID {number} Placements: {{{','.join(map(str, starts))}}}:{size}\n"
        for g in gpus for _, number, _, starts, size in profiles
    )  # fmt: skip
    return {PROFILES.name: CommandOutput(0, f"|==|\n{rows}"), PLACEMENTS.name: CommandOutput(0, places)}


def listing(answers, *, modes=BOTH_ON, **more):
    return estate(host(ESX1, probes={**smi(modes), **answers}, **more))


HALVES = (("3g.20gb", 9, 2, (0, 4), 4), ("7g.40gb", 0, 1, (0,), 8))


def test_a_layout_is_placed_where_the_host_allows_it():
    odd = listed(("3g.20gb", 9, 2, (1, 4), 3), ("7g.40gb", 0, 1, (0,), 8))
    judged = judge(layout("3g.20gb", "3g.20gb"), ESX1, listing(odd))
    assert judged.problems == {}
    assert judged.settled.gpus[FIRST].layout == ("3g.20gb:1", "3g.20gb:4")
    assert any(f"GPU {FIRST}: 3g.20gb: the host lists starts 1,4" in n for n in judged.notes)
    assert all(SECOND not in n for n in judged.notes)


def test_a_profile_the_host_does_not_list_is_not_there():
    judged = judge(layout("4g.20gb"), ESX1, listing(listed(*HALVES)))
    assert "no profile 4g.20gb on this GPU" in judged.problems["mig.layout"].message


def test_a_difference_on_both_gpus_is_told_once():
    both = listed(*HALVES, gpus=(0, 1))
    notes = judge(Mig(mode="enabled"), ESX1, listing(both)).notes
    assert len([n for n in notes if "does not list 1g.5gb " in n]) == 1
    assert all(n.startswith(f"GPU {FIRST}, {SECOND}: ") for n in notes)


def test_a_board_nobody_documents_can_be_cut_once_the_host_lists_its_profiles():
    unknown = listing(listed(*HALVES), device=0x7777)
    judged = judge(layout("3g.20gb", "3g.20gb"), ESX1, unknown)
    assert judged.problems == {}
    assert commands(judged.steps) == [f"mig -i {A} -cgi 9:0,9:4 -C"]
    assert set(judge(layout("3g.20gb", gpu=SECOND), ESX1, unknown).problems) == {"mig.not-capable"}


def test_an_id_that_means_something_else_on_this_host_is_refused():
    other = listing(listed(("1g.5gb", 9, 7, tuple(range(7)), 1), ("7g.40gb", 0, 1, (0,), 8)))
    problem = judge(layout(9), ESX1, other).problems["mig.id"]
    assert "id 9 is 1g.5gb on this host, 3g.20gb in the catalogue" in problem.message
    assert judge(layout("1g.5gb"), ESX1, other).problems == {}
    assert judge(layout(0), ESX1, other).problems == {}


def mixed(first, second):
    from support.estates import pci_device

    devices = (pci_device(FIRST, first), pci_device(SECOND, second))
    return estate(host(ESX1, probes=smi(BOTH_ON), hardware__pciDevice=devices))


A30 = 0x20B7


def test_one_number_for_an_a100_and_an_a30_is_refused():
    problem = judge(Mig(layout=("14", "14")), ESX1, mixed(0x20F1, A30)).problems["mig.id"]
    assert f"id 14 is 2g.10gb on {FIRST} and 1g.6gb on {SECOND}" in problem.message
    apart = Mig(gpus={FIRST: [14, 14], SECOND: ["1g.6gb"]})
    assert judge(apart, ESX1, mixed(0x20F1, A30)).problems == {}
    # 2g on both, of another size
    assert judge(Mig(layout=("14", "14")), ESX1, mixed(0x20F1, 0x20B5)).problems == {}


def test_settling_twice_forgets_no_number():
    seen_ = view(mixed(0x20F1, A30))
    once = Mig(layout=("14", "14")).settle(ESX1, seen_)
    assert {p.rule for p in once.settle(ESX1, seen_).problems(ESX1, seen_)} == {"mig.id"}


def test_numbers_for_gpus_that_are_not_there_are_no_further_problem():
    wanted = Mig(gpus={"0000:af:00.0": {"mode": "enabled", "layout": [14]}, FIRST: [99]})
    assert set(judge(wanted, ESX1, on(BOTH_ON)).problems) == {"mig.gpu-unknown", "mig.layout"}
    unknown = judge(layout(14), ESX1, on(BOTH_ON, device=0x7777))
    assert set(unknown.problems) == {"mig.not-capable"}


# -- problems


UNKNOWN_GPU = {"gpus": {"0000:af:00.0": {"mode": "enabled"}}}


@pytest.mark.parametrize(
    ("wanted", "more", "rule"),
    [
        (UNKNOWN_GPU, {}, "mig.gpu-unknown"),
        ({"gpus": {"0000:ff:00.0": {"mode": "enabled"}}}, {}, "mig.gpu-unknown"),
        ({"gpus": {FIRST: {"mode": "enabled"}}}, {"device": 0x1EB8}, "mig.not-capable"),
        ({"gpus": {FIRST: {"mode": "enabled"}}}, {"device": 0x7777}, "mig.not-capable"),
        ({"mode": "enabled"}, {"device": 0x1EB8}, "mig.no-gpu"),
        ({"mode": "enabled"}, {"hardware__pciDevice": ()}, "mig.no-gpu"),
        ({"gpus": {FIRST: {"mode": "disabled", "layout": ("7g.40gb",)}}}, {}, "mig.contradiction"),
        ({"mode": "enabled"}, {"probes": {}}, "mig.not-read"),
    ],
)
def test_problems(wanted, more, rule):
    judged = judge(Mig(**wanted), ESX1, estate(host(ESX1, **more)))
    assert set(judged.problems) == {rule}


@pytest.mark.parametrize("rule", ["ssh.stopped", "ssh.lockdown", "ssh.unreachable", "ssh.denied"])
def test_ssh_failures_are_problems_of_the_plan(rule):
    failed = ProbeFailure(rule, "the reason", "what to do")
    judged = judge(Mig(mode="enabled"), ESX1, estate(host(ESX1, probes=dict.fromkeys(smi(BOTH_ON), failed))))
    assert set(judged.problems) == {rule}
    assert "the reason" in judged.problems[rule].message
    assert judged.problems[rule].remedy == "what to do"


@pytest.mark.parametrize("probe", [GPUS, INSTANCES, COMPUTE])
def test_an_answer_nobody_understands_is_a_problem_not_a_guess(probe):
    odd = {**smi(BOTH_ON), probe.name: CommandOutput(9, "NVIDIA-SMI has failed because it couldn't communicate\n")}
    judged = judge(Mig(mode="enabled"), ESX1, estate(host(ESX1, probes=odd)))
    assert set(judged.problems) == {"mig.unreadable"}
    assert "couldn't communicate" in judged.problems["mig.unreadable"].message


@pytest.mark.parametrize("spelled", [FIRST.removeprefix("0000:"), f"0000{FIRST.upper()}"])
def test_an_address_is_known_in_every_spelling(spelled):
    judged = judge(Mig(gpus={spelled: {"mode": "enabled"}}), ESX1, on(BOTH_OFF))
    assert not judged.problems
    assert judged.steps


def test_every_problem_is_named_not_only_the_first():
    wanted = Mig(gpus={"0000:af:00.0": {"mode": "enabled"}, FIRST: {"mode": "disabled", "layout": ("3g.40gb",)}})
    assert set(judge(wanted, ESX1, on(BOTH_OFF)).problems) == {"mig.gpu-unknown", "mig.contradiction", "mig.layout"}


# -- words


def test_a_layout_says_that_vsphere_needs_none_and_a_mode_says_nothing():
    assert len(judge(layout("7g.40gb"), ESX1, on(BOTH_ON)).notes) == 1
    assert judge(Mig(mode="enabled"), ESX1, on(BOTH_OFF)).notes == ()


def shown(seen):
    its = view(seen)
    return its.state(ESX1.ref, "mig").export(ESX1, its, "playbook").state


def test_show_states_modes_and_layouts():
    stated = shown(on(BOTH_ON, [(0, "3g.20gb", 9, 2, "4:4")]))
    assert stated.gpus[FIRST] == GpuMig(mode="enabled", layout=("3g.20gb:4",))
    assert stated.gpus[SECOND] == GpuMig(mode="enabled", layout=())


def test_show_leaves_out_what_no_playbook_can_say():
    assert shown(on({FIRST: WAITS, SECOND: WAITS})) is None
    assert list(shown(on({FIRST: WAITS, SECOND: OFF})).gpus) == [SECOND]
    assert shown(on({FIRST: ("[N/A]", "[N/A]"), SECOND: ("[N/A]", "[N/A]")})) is None


def test_show_leaves_instances_of_running_vms_to_vsphere():
    stated = shown(busy([(0, "3g.20gb", 9, 2, "4:4")]))
    assert stated.gpus[FIRST].layout is None
    assert stated.gpus[SECOND].layout == ()


def test_unread_is_not_observed():
    assert state_of(Mig, Facts("HostSystem:host-9")) is None
    assert state_of(Mig, host(ESX1, probes={**smi(BOTH_ON), GPUS.name: CommandOutput(9, "failed")})) is None


def test_show_says_which_modes_it_leaves_out():
    def said(seen):
        its = view(seen)
        return its.state(ESX1.ref, "mig").export(ESX1, its, "playbook").left_out

    assert said(on({FIRST: WAITS, SECOND: OFF})) == f"MIG left out: GPU {FIRST} is disabled (enabled after a reboot)"
    assert said(on(BOTH_ON)) == ""


def test_a_board_whose_placements_are_not_published_waits_for_its_hosts_list():
    seen = estate(host(ESX1, device=0x2BB3, probes=smi(BOTH_OFF, driver="580.1")))
    assert judge(Mig(mode="enabled"), ESX1, seen).problems == {}
    problem = judge(Mig(mode="enabled", layout=("1g.12gb",)), ESX1, seen).problems["mig.layout"]
    assert "placements of this board are not published" in problem.message
    assert problem.remedy.startswith("have mode: enabled applied first")
