"""The vGPU kind: a multiset of profiles, what they imply, and which host will offer them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estates import (
    A100,
    ABOUT,
    ESX1,
    ESX2,
    H100,
    OFF,
    ON,
    PCI,
    estate,
    gpu_info,
    guest,
    host,
    made,
    pci_device,
    pvrdma_device,
    smi,
    state_of,
    vgpu_device,
    view,
    vm,
    wants,
)
from support.judging import judge, plan_one, rules, steps_of, words
from support.machines import kernel_listing
from support.plays import SHARED

from vsphere_ai.gpu.smi.live import GPUS, PLACEMENTS, PROFILES
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.kernel import ATS, Kernel
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

ALONE = f"{SHARED}- vms: train-01\n  hardware: {{version: 19}}\n  vgpu: [grid_a100-10c]\n"

VM = vm(1)
MIG, HALF, FULL = "grid_a100-3-20c", "grid_a100-20c", "grid_a100-40c"
LISTED = ("grid_a100-20c", "grid_a100-40c", "grid_a100-10c")
LISTED_MIG = ("grid_a100-3-20c", "grid_a100-2-10c", "grid_a100-1-5c")
NEWER = ({"_typeName": "SoftwarePackage", "name": "NVD-AIE_ESXi_7.0.2_Driver", "version": "535.183.01",
          "vendor": "NVIDIA"},)  # fmt: skip
READY = {"config__memoryReservationLockedToMax": True, "config__firmware": "efi"}


def keys(size, on="TRUE", **more):
    pairs = {"pciPassthru.use64bitMMIO": on, "pciPassthru.64bitMMIOSizeGB": str(size), **more}
    return tuple({"_typeName": "OptionValue", "key": k, "value": v} for k, v in pairs.items())


def around(*devices, listed=LISTED, about=ABOUT, gpu=None, **more):
    vm_ = guest(VM, ESX1, config__hardware__device=tuple(devices), **more)
    return estate(host(ESX1, active="sharedDirect", config__sharedPassthruGpuTypes=listed, **(gpu or {})), vm_,
                  about=about)  # fmt: skip


def want(*profiles, **more):
    return Vgpu(profiles=profiles, **more)


def operations(step):
    """(operation, profile, key) of each device change."""
    changes = step.device_changes
    return [(c["operation"], c["device"]["backing"]["vgpu"], c["device"].get("key")) for c in changes]


# -- what changes


def test_as_wanted():
    seen = around(vgpu_device(13000, FULL), config__extraConfig=keys(128), **READY)
    judged = judge(want(FULL), VM, seen)
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_the_first_vgpu_brings_memory_and_mmio_in_one_reconfigure():
    judged = judge(want(FULL), VM, around())
    assert judged.fields == {
        "profiles": ((), (FULL,)),
        "memory_locked": (False, True),
        "mmio_64bit": (False, True),
        "mmio_size_gb": (None, 128),
    }
    step = judged.step
    assert operations(step) == [("add", FULL, None)]
    assert step.device_changes[0]["_typeName"] == "VirtualDeviceConfigSpec"
    assert step.device_changes[0]["device"] == {
        "_typeName": "VirtualPCIPassthrough",
        "backing": {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo", "vgpu": FULL},
    }
    assert step.spec == {"memoryReservationLockedToMax": True}
    assert dict(step.extra_config) == {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "128"}
    assert step.needs_power_off


def test_a_guest_installed_under_bios_is_refused_unless_the_play_states_efi():
    refused = judge(want(FULL), VM, around(config__firmware="bios")).problems
    assert set(refused) == {"vgpu.firmware"}
    assert "BIOS" in refused["vgpu.firmware"].message
    efi = {(VM.ref, "hardware"): VmHardware(firmware="efi")}
    judged = judge(want(FULL), VM, around(config__firmware="bios"), stated=efi)
    assert judged.fields["firmware"] == ("bios", "efi")
    assert judged.step.spec["firmware"] == "efi"
    assert any("BIOS" in note for note in judged.notes)
    assert judge(want(FULL), VM, around()).notes == ()


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ([FULL], [HALF], [("remove", FULL, 13000), ("add", HALF, None)]),
        ([FULL], [FULL, FULL], [("add", FULL, None)]),
        ([FULL, FULL], [FULL], [("remove", FULL, 13001)]),
        ([FULL, HALF], [HALF], [("remove", FULL, 13000)]),
        ([FULL, HALF], [HALF, FULL], []),
        ([HALF], [], [("remove", HALF, 13000)]),
        ([FULL, FULL], [HALF, HALF],
         [("remove", FULL, 13000), ("remove", FULL, 13001), ("add", HALF, None), ("add", HALF, None)]),
    ],
)  # fmt: skip
def test_profiles_are_a_multiset(present, wanted, expected):
    devices = [vgpu_device(13000 + i, p) for i, p in enumerate(present)]
    judged = judge(want(*wanted), VM, around(*devices, about=EIGHT, config__extraConfig=keys(256), **READY))
    assert not judged.problems
    assert (operations(judged.step) if judged.steps else []) == expected


def test_other_devices_are_never_touched():
    raw = {"_typeName": "VirtualPCIPassthrough", "key": 13005,
           "backing": {"_typeName": "VirtualPCIPassthroughDeviceBackingInfo", "id": "0000:af:00.0"}}  # fmt: skip
    nic, disk = pvrdma_device(4000), {"_typeName": "VirtualDisk", "key": 2000}
    seen = around(disk, raw, nic, vgpu_device(13000, FULL), config__extraConfig=keys(128), **READY)
    judged = judge(want(HALF), VM, seen)
    assert operations(judged.step) == [("remove", FULL, 13000), ("add", HALF, None)]
    assert judged.step.spec == {}
    assert judged.step.extra_config == ()


def test_removing_all_removes_devices_and_nothing_else():
    seen = around(vgpu_device(13000, FULL), config__extraConfig=keys(128), **READY)
    judged = judge(want(), VM, seen)
    assert judged.fields == {"profiles": ((FULL,), ())}
    assert operations(judged.step) == [("remove", FULL, 13000)]
    assert (judged.step.spec, judged.step.extra_config) == ({}, ())
    assert judge(want(), VM, around(listed=())).problems == {}


def test_profiles_not_stated_are_left_and_their_needs_are_seen_to():
    judged = judge(Vgpu(uvm=True), VM, around(vgpu_device(13000, FULL)))
    assert "profiles" not in judged.fields
    assert operations(judged.step) == []
    assert judged.step.summary == "vGPU: settings a vGPU needs"
    assert ("pciPassthru0.cfg.enable_uvm", "1") in judged.step.extra_config


def test_a_profile_may_be_spelled_in_capitals():
    seen = around(vgpu_device(13000, "GRID_A100-40C"), config__extraConfig=keys(128), **READY)
    assert judge(want("grid_A100-40C"), VM, seen).fields == {}


# -- MMIO (VMware: framebuffer of the boards, rounded up to a power of two, then doubled)


EIGHT = replace(ABOUT, api="8.0.1.0")


@pytest.mark.parametrize(("count", "size"), [(1, 128), (2, 256), (3, 256), (4, 512)])
def test_mmio_window_counts_whole_boards(count, size):
    judged = judge(want(*[HALF] * count), VM, around(about=EIGHT))
    assert judged.settled.mmio_size_gb == size


def test_a_window_that_is_large_enough_stays():
    assert "mmio_size_gb" not in judge(want(FULL), VM, around(config__extraConfig=keys(512))).fields
    assert judge(want(FULL), VM, around(config__extraConfig=keys(64))).fields["mmio_size_gb"] == (64, 128)


@pytest.mark.parametrize("on", ["TRUE", "true", "True"])
def test_the_key_may_be_spelled_by_anybody(on):
    assert "mmio_64bit" not in judge(want(FULL), VM, around(config__extraConfig=keys(128, on))).fields


def test_an_odd_window_size_is_replaced():
    assert judge(want(FULL), VM, around(config__extraConfig=keys("big"))).fields["mmio_size_gb"] == (None, 128)


# -- unified memory

FIRST_ON = {"pciPassthru0.cfg.enable_uvm": "1"}


@pytest.mark.parametrize(
    ("keys_", "wanted", "expected"),
    [
        ({}, True, {"pciPassthru0.cfg.enable_uvm": "1", "pciPassthru1.cfg.enable_uvm": "1"}),
        (FIRST_ON, True, {"pciPassthru1.cfg.enable_uvm": "1"}),
        (FIRST_ON, False, {"pciPassthru0.cfg.enable_uvm": ""}),
        ({}, False, {}),
    ],
)
def test_unified_memory_is_set_for_every_vgpu(keys_, wanted, expected):
    devices = (vgpu_device(13000, FULL), vgpu_device(13001, FULL))
    seen = around(*devices, config__extraConfig=keys(256, **keys_), **READY)
    judged = judge(want(FULL, FULL, uvm=wanted), VM, seen)
    assert dict(judged.step.extra_config if judged.steps else ()) == expected


# -- which host offers what


def test_a_profile_has_to_be_in_the_hosts_own_list():
    judged = judge(want(MIG), VM, around())
    assert set(judged.problems) == {"vgpu.profile"}
    assert "grid_a100-40c" in judged.problems["vgpu.profile"].remedy


@pytest.mark.parametrize(
    ("profile", "more", "help_"),
    [
        ("a100-40c", {}, "did you mean"),
        (FULL, {"listed": ()}, "shared_direct"),
        ("nvidia_h100-80c", {}, "it lists"),
    ],
)
def test_why_a_profile_is_not_offered(profile, more, help_):
    judged = judge(want(profile), VM, around(**more))
    assert help_ in judged.problems["vgpu.profile"].remedy


def planned(profile, *states, device=A100, modes=OFF, active="shared", listed=()):
    more = {"probes": smi(dict.fromkeys(PCI, modes)), "device": device, "active": active}
    seen = estate(host(ESX1, config__sharedPassthruGpuTypes=listed, **more), guest(VM, ESX1))
    return made(seen, {ESX1: wants(*states), VM: wants(want(profile))})


SHARED_DIRECT, MIG_ON, MIG_OFF = HostGraphics(default_type="shared_direct"), Mig(mode="enabled"), Mig(mode="disabled")


@pytest.mark.parametrize(
    ("profile", "states", "more", "offered"),
    [
        (MIG, (SHARED_DIRECT, MIG_ON), {}, True),
        (FULL, (SHARED_DIRECT,), {}, True),
        (MIG, (SHARED_DIRECT,), {}, False),
        (FULL, (SHARED_DIRECT, MIG_ON), {}, False),
        (MIG, (MIG_ON,), {}, False),
        (MIG, (MIG_ON,), {"active": "sharedDirect", "listed": LISTED}, True),
        (FULL, (MIG_ON,), {"active": "sharedDirect", "listed": LISTED}, False),
        (FULL, (MIG_OFF,), {"active": "sharedDirect", "listed": LISTED_MIG, "modes": ON}, True),
        (MIG, (MIG_OFF,), {"active": "sharedDirect", "listed": LISTED_MIG, "modes": ON}, False),
        ("grid_a100-3-40c", (SHARED_DIRECT, MIG_ON), {}, False),
        ("grid_a100-7c", (SHARED_DIRECT,), {}, False),
        ("nvidia_h100-40c", (SHARED_DIRECT,), {}, False),
        (MIG, (MIG_ON, SHARED_DIRECT), {"device": 0x7777}, False),
    ],
)
def test_a_profile_may_follow_from_this_plans_host_changes(profile, states, more, offered):
    assert ((VM.name, "vgpu.profile") not in rules(planned(profile, *states, **more))) is offered


SXM_80, SXM_40, PCIE_80, A800 = 0x20B2, 0x20B0, 0x20B5, 0x20F6


@pytest.mark.parametrize(
    ("device", "profile", "help_"),
    [
        (SXM_80, "grid_a100d-3-40c", "write grid_a100dx-3-40c: its GPUs are A100 SXM4 80GB"),
        (SXM_80, "grid_a100dx-3-40c", None),
        (PCIE_80, "grid_a100dx-3-40c", "write grid_a100d-3-40c: its GPUs are A100 PCIe 80GB"),
        (PCIE_80, "grid_a100x-3-20c", "the types of its GPUs begin with grid_a100d-: vsphere-ai vgpu list a100-80gb"),
        (A100, "grid_a100x-3-20c", "write grid_a100-3-20c: its GPUs are A100 PCIe 40GB"),
        (A100, "nvidia_a100-3-20c", "write grid_a100-3-20c: its GPUs are A100 PCIe 40GB"),
        (A100, "grid_a800d-3-40c", "the types of its GPUs begin with grid_a100-: vsphere-ai vgpu list a100-40gb"),
        (A100, "grid_a800-3-20c", "write grid_a100-3-20c"),
        (SXM_40, "grid_a100x-3-20c", None),
        (A800, "grid_a800-3-20c", None),
        (A800, "nvidia_a800-3-20c", None),
        (A800, "grid_a100-3-20c", "write grid_a800-3-20c or nvidia_a800-3-20c: its GPUs are A800 PCIe 40GB"),
        (SXM_80, "grid_a100dx-3-20c", "has no such type: vsphere-ai vgpu list a100-80gb"),
        (0x20BD, "grid_a100-3-20c", "no GPU of esx01 is known to have vGPU types"),
    ],
)
def test_names_are_those_of_the_device(device, profile, help_):
    plan = planned(profile, SHARED_DIRECT, MIG_ON, device=device)
    (found,) = [p for p in plan.problems if p.rule == "vgpu.profile"] or (None,)
    assert (found is None) is (help_ is None)
    assert help_ is None or help_ in found.remedy


def test_the_names_a_host_lists_win_over_the_catalogue():
    """Its GPUs are time-sliced now and are going to be divided: the list tells how its names begin."""
    for listed, profile, offered in (
        (("grid_a100dx-80c",), "grid_a100dx-3-40c", True),
        (("grid_a100d-80c",), "grid_a100d-3-40c", True),  # the host says otherwise than the catalogue
        (("grid_a100d-80c",), "grid_a100dx-3-40c", False),
        (("nvidia_a800-40c",), "nvidia_a800-3-20c", True),
        (("nvidia_a800-40c",), "grid_a800-3-20c", False),
    ):
        device = A800 if "a800" in profile else SXM_80
        plan = planned(profile, MIG_ON, device=device, active="sharedDirect", listed=listed)
        assert ((VM.name, "vgpu.profile") not in rules(plan)) is offered, (listed, profile)


PRO_NAME = "nvidia_rtx_pro_6000_blackwell_dc-1-3q"


@pytest.mark.parametrize(
    ("version", "driver", "help_"),
    [
        ("9.0.1", "580.65.05", None),
        ("9.0.0", "580.65.05", "need ESXi 9.0.1 and driver R580 (vGPU 19); esx01 has ESXi 9.0.0"),
        ("9.0.1", "570.133.20", "has driver R570"),
    ],
)
def test_vgpus_that_share_a_gpu_instance_need_newer_software(version, driver, help_):
    seen = estate(
        host(ESX1, probes=smi(dict.fromkeys(PCI, OFF), driver=driver), device=0x2BB5,
             config__product={"version": version, "build": "1", "_typeName": "AboutInfo"}),
        guest(VM, ESX1),
    )  # fmt: skip
    plan = made(seen, {ESX1: wants(SHARED_DIRECT, MIG_ON), VM: wants(want(PRO_NAME))})
    (found,) = [p for p in plan.problems if p.rule == "vgpu.profile"] or (None,)
    assert (found is None) is (help_ is None)
    assert help_ is None or help_ in found.remedy


def test_the_order_of_plays_does_not_matter_for_what_follows():
    seen = estate(host(ESX1), guest(VM, ESX1))
    wanted = {VM: wants(want(MIG)), ESX1: wants(MIG_ON, SHARED_DIRECT)}
    plan = made(seen, wanted)
    assert plan.problems == ()
    assert words(steps_of(plan, VM)) == ["power-off", "reconfigure", "as-planned", "power-on"]


def test_a_host_whose_list_is_of_mig_profiles_stays_divided_when_only_its_graphics_change():
    seen = estate(host(ESX1, probes={}, active="sharedDirect", configured="shared",
                       config__sharedPassthruGpuTypes=LISTED_MIG), guest(VM, ESX1))  # fmt: skip
    for profile, offered in ((MIG, True), (FULL, False)):
        plan = made(seen, {ESX1: wants(SHARED_DIRECT), VM: wants(want(profile))})
        assert ((VM.name, "vgpu.profile") not in rules(plan)) is offered


def test_the_vm_runs_only_where_every_profile_is_offered():
    other = host(ESX2, active="sharedDirect", config__sharedPassthruGpuTypes=("grid_a100-10c",))
    base = around()
    seen = view(estate(*(base[r] for r in (ESX1.ref, VM.ref)), other))
    one = want(FULL).settle(VM, seen)
    assert [h for h in (ESX1, ESX2) if one.runs_on(h, seen)] == [ESX1]
    assert seen.with_planned(VM.ref, one).candidates(VM.ref) == (ESX1,)
    assert len(seen.with_planned(VM.ref, want().settle(VM, seen)).candidates(VM.ref)) == 2


# -- how many, which together


@pytest.mark.parametrize(
    ("profiles", "about", "more", "found"),
    [
        ([FULL] * 4, ABOUT, {}, set()),
        ([FULL] * 5, ABOUT, {}, {"vgpu.count"}),
        ([FULL] * 5, EIGHT, {}, set()),
        ([HALF], ABOUT, {}, set()),
        ([HALF] * 2, ABOUT, {}, {"vgpu.partial"}),
        ([HALF] * 2, EIGHT, {}, set()),
        ([HALF, FULL], ABOUT, {}, {"vgpu.mixed", "vgpu.partial"}),
        ([HALF, FULL], EIGHT, {}, set()),
        ([FULL, FULL], ABOUT, {"config__version": "vmx-14"}, {"vgpu.hardware-version"}),
        ([FULL], ABOUT, {"config__version": "vmx-14"}, set()),
        ([HALF, "grid_a100-10c"] * 3, ABOUT, {"config__version": "vmx-14"},
         {"vgpu.count", "vgpu.mixed", "vgpu.partial", "vgpu.hardware-version"}),
    ],
)  # fmt: skip
def test_limits(profiles, about, more, found):
    assert set(judge(want(*profiles), VM, around(about=about, **more)).problems) == found


def test_vgpus_of_one_vm_come_from_one_type_of_board():
    listed = (*LISTED, "nvidia_h100-80c")
    judged = judge(want(FULL, "nvidia_h100-80c"), VM, around(listed=listed, about=EIGHT))
    assert set(judged.problems) == {"vgpu.boards"}


def test_the_upgrade_of_the_same_plan_counts_for_the_limit():
    seen = around(config__version="vmx-14")
    plan = plan_one(seen, VM, want(FULL, FULL), VmHardware(version=19))
    assert plan.problems == ()
    assert (VM.name, "vgpu.hardware-version") in rules(plan_one(seen, VM, want(FULL, FULL)))


def test_several_mig_backed_vgpus_wait_for_vsphere_8():
    judged = judge(want(MIG, MIG), VM, around(listed=LISTED_MIG))
    assert set(judged.problems) == {"vgpu.partial"}
    assert MIG in judged.problems["vgpu.partial"].message
    assert judge(want(MIG, MIG), VM, around(listed=LISTED_MIG, about=EIGHT)).problems == {}


def test_a_vm_without_a_readable_host():
    judged = judge(want(FULL), VM, around(runtime__host=None))
    assert set(judged.problems) == {"vgpu.host-unknown"}


# -- show


def test_show_states_profiles_of_vms_that_have_some():
    seen = view(around(vgpu_device(13000, FULL)))
    assert seen.state(VM.ref, "vgpu").export(VM, seen, "playbook").state.profiles == (FULL,)
    bare = view(around())
    assert bare.state(VM.ref, "vgpu").export(VM, bare, "playbook").state is None
    assert state_of(Vgpu, Facts("VirtualMachine:vm-9")) is None


def test_h100_profiles_follow_too():
    seen = estate(host(ESX1, device=H100, software=NEWER), guest(VM, ESX1))
    plan = made(seen, {ESX1: wants(SHARED_DIRECT, MIG_ON), VM: wants(want("nvidia_h100-3-40c"))})
    assert plan.problems == ()
    (reconfigure,) = (s for s in steps_of(plan, VM) if isinstance(s, Reconfigure))
    assert dict(reconfigure.extra_config)["pciPassthru.64bitMMIOSizeGB"] == "256"


# -- boards that only their host knows


UNKNOWN = 0x7777
X9_LISTS = {
    PROFILES.name: CommandOutput(0, "+-+\n|=|\n| 0 MIG 1g.12gb 14 4/4 11.6 No 24 1 1 |\n| 1 1 0 |\n"
                             "| 0 MIG 4g.48gb 0 1/1 47.4 No 110 3 3 |\n| 4 1 1 |\n+-+\n"),
    PLACEMENTS.name: CommandOutput(
        0, "GPU 0 Profile ID 14 Placements: {0,3,6,9}:3\nGPU 0 Profile ID 0 Placement : {0}:12\n"
    ),
}  # fmt: skip


def beside_unknown(*listed, modes=OFF, configured="sharedDirect"):
    facts = host(
        ESX1,
        active="sharedDirect",
        configured=configured,
        probes={**smi({PCI[0]: modes}, driver="580.1"), **X9_LISTS},
        hardware__pciDevice=(pci_device(PCI[0], UNKNOWN),),
        config__graphicsInfo=(gpu_info(PCI[0], "sharedDirect"),),
        config__sharedPassthruGpuTypes=listed,
        software=NEWER,
    )
    return estate(facts, guest(VM, ESX1), about=EIGHT)


@pytest.mark.parametrize(
    ("profile", "state", "offered"),
    [
        ("nvidia_x9-1-12c", MIG_ON, True),  # the host lists a profile 1g.12gb
        ("nvidia_x9-2-24c", MIG_ON, False),
        ("nvidia_x9-48c", MIG_ON, False),
        ("nvidia_x9-1-12c", SHARED_DIRECT, False),
        ("nvidia_x9-48c", SHARED_DIRECT, True),  # the host lists it today, and its mode stays
        ("nvidia_x9-16c", SHARED_DIRECT, False),
    ],
)
def test_what_a_host_lists_of_a_board_the_catalogue_does_not_know_counts(profile, state, offered):
    configured = "shared" if state is SHARED_DIRECT else "sharedDirect"
    seen = beside_unknown("nvidia_x9-48c", "nvidia_x9-24c", configured=configured)
    plan = made(seen, {ESX1: wants(state), VM: wants(want(profile))})
    assert ((VM.name, "vgpu.profile") not in rules(plan)) is offered


def test_the_gate_knows_a_board_its_host_lists():
    findings = made(beside_unknown(), {ESX1: wants(MIG_ON)}).findings
    assert [f.verdict for f in findings if f.rule == "gpu.mig-capable"] == ["pass"]


def test_the_window_counts_the_whole_board_its_host_lists():
    seen = beside_unknown("nvidia_x9-48c", "nvidia_x9-24c")
    assert judge(want("nvidia_x9-24c"), VM, seen).settled.mmio_size_gb == 128
    # of a board that nobody knows only the part is known
    assert judge(want("nvidia_y1-24c"), VM, seen).settled.mmio_size_gb == 64


def test_a_part_of_a_board_only_its_host_knows_is_a_part():
    seen = replace(beside_unknown("nvidia_x9-48c", "nvidia_x9-24c"), about=ABOUT)
    assert set(judge(want("nvidia_x9-24c", "nvidia_x9-24c"), VM, seen).problems) == {"vgpu.partial"}
    assert judge(want("nvidia_x9-48c", "nvidia_x9-48c"), VM, seen).problems == {}


def test_names_nobody_knows_yet_are_said_to_be_unknown():
    plan = made(beside_unknown(configured="shared"), {ESX1: wants(SHARED_DIRECT), VM: wants(want("nvidia_x9-48c"))})
    (problem,) = (p for p in plan.problems if p.rule == "vgpu.profile")
    assert problem.remedy.endswith("are not published: apply the play for esx01, then it lists its own")


# -- what was not read


UNREAD = "the GPU instances of esx01 are not known"


@pytest.mark.parametrize(
    ("profile", "probes", "more", "noted"),
    [
        (MIG, {}, {}, True),
        (MIG, {GPUS.name: ProbeFailure("ssh.stopped", "the SSH service of esx01 is stopped")}, {}, True),
        (MIG, smi(dict.fromkeys(PCI, ON)), {}, False),
        (FULL, {}, {}, False),  # time-sliced: there are no instances
        (MIG, {}, {"runtime__host": None}, False),  # problems() says so
    ],
)
def test_what_is_not_known_of_the_hosts_gpus_is_noted(profile, probes, more, noted):
    seen = around(listed=(MIG, FULL), gpu={"probes": probes}, **more)
    notes = [n for n in judge(want(profile), VM, seen).notes if n.startswith(UNREAD)]
    assert bool(notes) == noted
    if probes and noted:
        assert "the SSH service of esx01 is stopped" in notes[0]


def test_a_vm_that_has_its_vgpu_and_runs_needs_no_note():
    device = vgpu_device(13000, MIG)
    ready = {"config__extraConfig": keys(128), **READY}
    for state, noted in (("poweredOn", False), ("poweredOff", True)):
        seen = around(device, listed=(MIG,), gpu={"probes": {}}, runtime__powerState=state, **ready)
        judged = judge(want(MIG), VM, seen)
        assert judged.fields == {}
        assert any(n.startswith(UNREAD) for n in judged.notes) == noted
    # nothing stands there after a reboot
    seen = around(device, listed=(MIG,), gpu={"probes": {}}, runtime__powerState="poweredOff", **ready)
    assert not judge(want(MIG), VM, seen, rebooting=frozenset({ESX1.ref})).notes


@pytest.mark.parametrize(("profile", "fits"), [("nvidia_h100-40c", True), ("nvidia_h100-3-40c", False)])
def test_a_reboot_that_takes_the_mig_mode_changes_what_a_host_lists(profile, fits):
    """A Hopper board comes back with MIG off: `mode: disabled` is no step of its own, the reboot is for the kernel."""
    probes = {**smi(dict.fromkeys(PCI, ON)), ATS.name: kernel_listing("FALSE", "FALSE")}
    listed = ("nvidia_h100-3-40c", "nvidia_h100-2-20c", "nvidia_h100-1-10c")
    shared = {"active": "sharedDirect", "device": H100, "software": NEWER, "probes": probes}
    seen = estate(host(ESX1, config__sharedPassthruGpuTypes=listed, **shared), guest(VM, ESX1))
    desired = {ESX1: wants(Mig(mode="disabled"), Kernel(ats_support=True)), VM: wants(Vgpu(profiles=(profile,)))}
    plan = made(seen, desired)
    assert plan.impact.reboots == (ESX1,)
    assert ((VM.name, "vgpu.profile") in rules(plan)) is not fits
