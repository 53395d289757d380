"""The device_groups kind: whole groups, what they imply, who else has such devices, and what no playbook can state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.device_groups import FOUR, PAIR, SCENARIO, WHOLE
from support.estates import ABOUT, ESX1, ESX2, estate, host, state_of, view, vm
from support.judging import judge, plan_one, rules
from support.machines import keys, tuned

from vsphere_ai.execution.actions import conflicts
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import Query
from vsphere_ai.resources.device_groups import OFFER, DeviceGroups, meaning
from vsphere_ai.resources.device_groups.group import GROUP
from vsphere_ai.resources.gpudirect import GpuDirect
from vsphere_ai.resources.pci_devices import PassthroughDevice, PciDevices
from vsphere_ai.resources.topics import Topic
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

ALONE = f'- vms: train-01\n  device_groups: ["{PAIR}"]\n'
FARM = SCENARIO
APART = "the lab's own farm has vSphere 7.0, where no host offers a device group"

VM = vm(1)
CARD = "nvidia_h100l-94c"
VMIOP = "VirtualPCIPassthroughVmiopBackingInfo"
READY = {
    "config__version": "vmx-20",
    "config__memoryReservationLockedToMax": True,
    "config__extraConfig": keys(pciPassthru__use64bitMMIO="TRUE", pciPassthru__64bitMMIOSizeGB="512"),
}
NIC = {"type": "sriovNic", "device": {"_typeName": "VirtualSriovEthernetCard"}}


def component(number, profile=CARD, kind="nvidiaVgpu"):
    membership = {"_typeName": "VirtualDeviceDeviceGroupInfo", "groupInstanceKey": -1, "sequenceId": number}
    backing = {"_typeName": VMIOP, "vgpu": profile}
    if kind == "pciPassthru":
        allowed = ({"_typeName": "VirtualPCIPassthroughAllowedDevice", "vendorId": 0x10DE, "deviceId": 0x2321},)
        backing = {"_typeName": "VirtualPCIPassthroughDynamicBackingInfo", "deviceName": "", "allowedDevice": allowed}
    return {"type": kind, "device": {"_typeName": "VirtualPCIPassthrough", "key": -number, "backing": backing,
                                     "deviceGroupInfo": membership}}  # fmt: skip


def offering(**groups):
    """What hosts answer: name -> members; without any, those of two pairs, four, and two whole GPUs."""
    known = groups or {
        PAIR: [component(1), component(2)],
        FOUR: [component(n) for n in (1, 2, 3, 4)],
        WHOLE: [component(n, kind="pciPassthru") for n in (1, 2)],
    }
    return tuple({"deviceGroupName": name, "componentDeviceInfo": tuple(parts)} for name, parts in known.items())


def vgpu(key, group=None, profile=CARD, sequence=1):
    membership = {"deviceGroupInfo": {"groupInstanceKey": group, "sequenceId": sequence}} if group is not None else {}
    return {"_typeName": "VirtualPCIPassthrough", "key": key, "backing": {"_typeName": VMIOP, "vgpu": profile},
            **membership}  # fmt: skip


def having(*groups, devices=(), **more):
    """A VM with (key, name) groups of two vGPUs each, and other devices."""
    members = [vgpu(13000 + 10 * key + n, key, sequence=n + 1) for key, _ in groups for n in (0, 1)]
    listed = tuple({"_typeName": GROUP, "groupInstanceKey": k, "deviceGroupName": n} for k, n in groups)
    held = {"config__deviceGroups": {"deviceGroup": listed}} if listed else {}
    return tuned(VM, ESX1, *members, *devices, **{**READY, **held, **more})


def around(facts, offer=None, **of_host):
    answer = offering() if offer is None else offer
    one, two = (replace_query(host(t, **of_host), answer) for t in (ESX1, ESX2))
    return estate(one, two, facts, about=replace(ABOUT, version="8.0.2", api="8.0.2.0"))


def replace_query(facts, answer):
    return Facts(facts.ref, {**facts.properties, f"query:{OFFER}": answer}, facts.unreadable, facts.probes)


def want(*names):
    return DeviceGroups(groups=names)


def operations(step):
    return [(c["operation"], c["device"].get("key")) for c in step.device_changes]


def listed(step):
    return [(g["groupInstanceKey"], g["deviceGroupName"]) for g in step.spec["deviceGroups"]["deviceGroup"]]


# -- what changes


def test_as_wanted():
    judged = judge(want(PAIR), VM, around(having((1, PAIR))))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_a_first_group_implies_what_it_needs():
    bare = tuned(VM, ESX1, config__version="vmx-20", config__firmware="bios")
    assert set(judge(want(PAIR), VM, around(bare)).problems) == {"device_groups.firmware"}
    judged = judge(want(PAIR), VM, around(bare), stated={(VM.ref, "hardware"): VmHardware(firmware="efi")})
    assert judged.problems == {}
    assert judged.settled.members == (CARD, CARD)
    step = judged.step
    assert step.needs_power_off
    assert step.spec["memoryReservationLockedToMax"] is True
    assert step.spec["firmware"] == "efi"
    assert listed(step) == [(-1, PAIR)]
    # two boards of 94 GB: 188, to the power of two above it, doubled
    assert dict(step.extra_config) == {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "512"}
    members = [c["device"] for c in step.device_changes]
    assert [m["deviceGroupInfo"]["sequenceId"] for m in members] == [1, 2]
    assert {m["deviceGroupInfo"]["groupInstanceKey"] for m in members} == {-1}
    assert [m["backing"]["vgpu"] for m in members] == [CARD, CARD]
    assert any("joined by NVLink" in note for note in judged.notes)
    assert any("BIOS" in note for note in judged.notes)


def test_two_of_one_name_are_two_groups():
    judged = judge(want(PAIR, PAIR), VM, around(having((1, PAIR))))
    assert listed(judged.step) == [(1, PAIR), (-1, PAIR)]
    assert operations(judged.step) == [("add", None)] * 2
    assert judged.settled.mmio_size_gb == 1024


def test_of_two_alike_the_older_stays():
    judged = judge(want(PAIR), VM, around(having((7, PAIR), (2, PAIR))))
    assert listed(judged.step) == [(2, PAIR)]
    assert operations(judged.step) == [("remove", 13070), ("remove", 13071)]


def test_the_last_one_goes_with_an_empty_list():
    judged = judge(want(), VM, around(having((1, PAIR))))
    assert judged.step.spec == {"deviceGroups": {"_typeName": "VirtualMachineVirtualDeviceGroups", "deviceGroup": ()}}
    assert operations(judged.step) == [("remove", 13010), ("remove", 13011)]


def test_left_open_it_stays():
    assert judge(DeviceGroups(), VM, around(having((1, PAIR)))).fields == {}


def test_whole_devices():
    devices = tuple(
        {"_typeName": "HostPciDevice", "id": a, "classId": 0x0302, "vendorId": 0x10DE, "deviceId": 0x2321,
         "subDeviceId": 1, "deviceName": "H100"} for a in ("0000:3b:00.0", "0000:86:00.0"))  # fmt: skip
    passed = [
        {"_typeName": "HostPciPassthruInfo", "id": d["id"], "passthruEnabled": True, "passthruActive": True}
        for d in devices
    ]

    def asked(*infos):
        of_host = {"hardware__pciDevice": devices, "config__pciPassthruInfo": infos}
        return judge(want(WHOLE), VM, around(having(), **of_host))

    both = asked(*passed)
    assert both.problems == {}
    assert both.settled.members == ("10de:2321", "10de:2321")
    assert both.settled.mmio_size_gb == 512
    assert "1 of 10de:2321" in asked(passed[0]).problems["device_groups.room"].message


def test_the_window_counts_all_gpus_of_the_vm_whoever_gives_them():
    free = (vgpu(13500),)
    of = around(having((1, PAIR), devices=free))
    assert judge(want(PAIR), VM, of).settled.mmio_size_gb == 1024  # 3 × 94
    assert judge(Vgpu(profiles=(CARD,)), VM, of).settled.mmio_size_gb == 1024
    assert judge(PciDevices(devices=()), VM, of).fields == {}
    stated = {(VM.ref, "device_groups"): want(PAIR, PAIR)}
    assert judge(Vgpu(profiles=(CARD,)), VM, of, stated=stated).settled.mmio_size_gb == 1024  # 5 × 94 = 470
    direct = judge(GpuDirect(enabled=True), VM, of)
    assert direct.settled.mmio_size_gb == 1024
    assert "gpudirect.no-gpu" not in direct.problems


# -- whose device is whose


def test_members_are_neither_vgpus_nor_pci_devices_of_the_vm():
    of = around(having((1, PAIR)))
    assert judge(Vgpu(profiles=()), VM, of).fields == {}
    assert judge(PciDevices(devices=()), VM, of).fields == {}
    state = view(of)
    assert state.state(VM.ref, "vgpu").export(VM, state, "playbook").state is None
    assert state.state(VM.ref, "vgpu").export(VM, state, "playbook").left_out == ""
    assert state.state(VM.ref, "pci_devices").export(VM, state, "playbook").left_out == ""


def test_unified_memory_is_for_every_vgpu_those_of_groups_included():
    on = [f"pciPassthru{n}.cfg.enable_uvm" for n in range(3)]
    of = around(having((1, PAIR), devices=(vgpu(13500),)), config__sharedPassthruGpuTypes=(CARD,))
    step = judge(Vgpu(profiles=(CARD,), uvm=True), VM, of).step
    assert [k for k, v in step.extra_config if v == "1"] == on
    two = {**{k.replace(".", "__"): "1" for k in on[:2]}}
    facts = having((1, PAIR), devices=(vgpu(13500),), config__extraConfig=keys(**two))
    assert state_of(Vgpu, facts).uvm is None


def test_a_member_is_not_the_vgpu_that_was_planned_to_go():
    of = around(having(devices=(vgpu(13500),)))
    step = judge(Vgpu(profiles=()), VM, of).step
    assert conflicts.differences(step, of[VM.ref], of[VM.ref]) == ()
    assert conflicts.differences(step, of[VM.ref], having(devices=(vgpu(13500, 1),)))


def test_what_is_marked_but_in_no_group_is_told_and_left():
    lost = (vgpu(13500, 9), vgpu(13501, 3))
    other = {"_typeName": "VirtualMachineVirtualDeviceGroupsDeviceGroup", "groupInstanceKey": 3}
    empty = {"_typeName": GROUP, "groupInstanceKey": 4, "deviceGroupName": FOUR}
    facts = having((1, PAIR), devices=lost)
    known = facts.properties["config.deviceGroups"]["deviceGroup"]
    facts = Facts(facts.ref, {**facts.properties, "config.deviceGroups": {"deviceGroup": (*known, other, empty)}})
    of = around(facts)
    state = view(of).state(VM.ref, "device_groups")
    assert state.groups == (PAIR,)
    said = state.export(VM, view(of), "playbook").left_out
    assert "device 13500 (nvidia_h100l-94c) of no group (9)" in said
    assert "device 13501 (nvidia_h100l-94c) of another kind of group" in said
    assert f"group {FOUR} without members" in said
    judged = judge(want(), VM, of)
    assert operations(judged.step) == [("remove", 13010), ("remove", 13011)]
    assert judged.step.spec["deviceGroups"]["deviceGroup"] == (other, empty)
    assert any("left as it is" in note for note in judged.notes)


@given(st.data())
def test_only_whole_groups_that_are_listed_come_and_go(data):
    """Reordered, foreign and duplicate devices change nothing of what a list of groups means."""
    names = st.sampled_from([PAIR, FOUR, "Acme:1@x"])
    there = data.draw(st.dictionaries(st.integers(0, 9), names, max_size=4), label="there")
    members = [vgpu(20000 + 100 * k + n, k, sequence=n) for k in there for n in range(data.draw(st.integers(1, 3)))]
    conflicts = [vgpu(30000 + n, g) for n, g in enumerate(data.draw(st.lists(st.sampled_from([None, 50, 51]))))]
    devices = data.draw(st.permutations([*members, *conflicts]), label="devices")
    entries = data.draw(st.permutations(sorted(there.items())), label="entries")
    listing = tuple({"_typeName": GROUP, "groupInstanceKey": k, "deviceGroupName": n} for k, n in entries)
    facts = tuned(VM, ESX1, *devices, **{**READY, "config__deviceGroups": {"deviceGroup": listing}})
    wanted = data.draw(st.lists(st.sampled_from([PAIR, FOUR, *there.values()]), max_size=4), label="wanted")
    wanted = [n for n in wanted if n != "Acme:1@x"] + [n for n in there.values() if n == "Acme:1@x"]
    of = around(facts)
    judged = judge(want(*wanted), VM, of)
    assert set(judged.problems) == set()
    assert judge(want(*reversed(wanted)), VM, of).fields == judged.fields
    if Counter(wanted) == Counter(there.values()):
        assert "groups" not in judged.fields
        return
    step = judged.step
    gone = {c["device"]["key"] for c in step.device_changes if c["operation"] == "remove"}
    kept = dict(entry for entry in listed(step) if entry[0] >= 0)
    assert kept.items() <= there.items()
    assert gone == {d["key"] for d in members if d["deviceGroupInfo"]["groupInstanceKey"] not in kept}
    new = [name for key, name in listed(step) if key < 0]
    assert Counter(kept.values()) + Counter(new) == Counter(wanted)
    assert not (Counter(there.values()) - Counter(kept.values())) & Counter(new)  # nothing is made anew that was there
    added = Counter(
        c["device"]["deviceGroupInfo"]["groupInstanceKey"] for c in step.device_changes if c["operation"] == "add"
    )
    assert added == {key: {PAIR: 2, FOUR: 4}[name] for key, name in listed(step) if key < 0}


# -- what cannot be


@pytest.mark.parametrize(
    ("name", "words"),
    [(PAIR.upper(), f"did you mean {PAIR}?"), (PAIR.replace("94", "47"), f"did you mean {PAIR}?"), ("x", FOUR)],
)
def test_a_name_the_host_does_not_offer(name, words):
    problem = judge(want(name), VM, around(having())).problems["device_groups.unknown"]
    assert words in problem.remedy
    assert ESX1.name in problem.message


def test_a_host_that_offers_none():
    assert "ESXi 8.0" in judge(want(PAIR), VM, around(having(), offer=())).problems["device_groups.unknown"].remedy


def test_a_group_that_stays_need_not_be_offered():
    """A host that was given another driver no longer lists what a VM already has; nothing changes there."""
    judged = judge(want(PAIR), VM, around(having((1, PAIR)), offer=()))
    assert (judged.fields, judged.problems) == ({}, {})


def test_members_that_need_settings_of_their_own():
    offer = offering(**{PAIR: [component(1), NIC]})
    assert "sriovNic" in judge(want(PAIR), VM, around(having(), offer=offer)).problems["device_groups.member"].message


def test_an_older_vcenter_is_not_asked_and_refused():
    old = estate(host(ESX1), host(ESX2), having())
    assert list(DeviceGroups.questions({VM: [want(PAIR)]}, old)) == []
    assert "7.0.2.0" in judge(want(PAIR), VM, old).problems["device_groups.vsphere"].message
    assert judge(want(), VM, old).problems == {}


def test_every_host_the_vm_may_run_on_is_asked_once():
    of = around(having())
    wanted = {VM: [want(PAIR)], vm(2): [VmHardware(version=20)]}
    asked = list(DeviceGroups.questions(wanted, of))
    assert {q.on for q in asked} == {ESX1.ref, ESX2.ref}
    path, method = "configManager.assignableHardwareManager", "RetrieveVendorDeviceGroupInfo"
    assert asked[0] == Query(OFFER, path, method, on=asked[0].on)


def test_an_answer_that_was_refused_is_no_empty_offer():
    of = around(having())
    facts = of[ESX1.ref]
    found = {k: v for k, v in facts.properties.items() if not k.startswith("query:")}
    denied = Facts(facts.ref, found, {f"query:{OFFER}": "no permission"}, facts.probes)
    of = replace(of, objects={**of.objects, ESX1.ref: denied})
    assert set(judge(want(PAIR), VM, of).problems) == {"device_groups.unreadable"}


@pytest.mark.parametrize(
    ("stated", "rule"),
    [
        (VmHardware(memory_reservation=1024), "device_groups.memory"),
        (VmHardware(firmware="bios"), "device_groups.firmware"),
    ],
)
def test_settings_that_contradict(stated, rule):
    assert (VM.name, rule) in rules(plan_one(around(having()), VM, want(PAIR), stated))


def test_an_old_hardware_version():
    rule, old = "device_groups.hardware-version", having(config__version="vmx-19")
    newer = around(old, config__product={"version": "8.0.1", "build": "1"})
    assert judge(want(PAIR), VM, newer).problems[rule].remedy == "add hardware: {version: 20} to the play"
    assert judge(want(PAIR), VM, around(old)).problems[rule].remedy == (
        "hardware version 20 needs ESXi 8.0.0 or later on every host of the VM: esx01, esx02 run ESXi 7.0.2"
    )


def test_a_vm_without_a_host():
    assert "device_groups.host-unknown" in judge(want(PAIR), VM, around(having(runtime__host=None))).problems


# -- where it runs, how it is shown


def test_it_runs_where_its_groups_are_offered():
    of = around(having((1, PAIR)))
    two = replace_query(of[ESX2.ref], offering(**{FOUR: []}))
    seen = view(replace(of, objects={**of.objects, ESX2.ref: two}))
    state = seen.state(VM.ref, "device_groups")
    assert (state.runs_on(ESX1, seen), state.runs_on(ESX2, seen)) == (True, False)


def test_it_is_shown_as_a_playbook_states_it():
    seen = view(around(having((2, PAIR), (1, PAIR))))
    state = seen.state(VM.ref, "device_groups")
    assert state.export(VM, seen, "playbook").state.groups == (PAIR, PAIR)
    assert view(around(having())).state(VM.ref, "device_groups").export(VM, seen, "playbook").state is None


def test_rules_about_vgpus_concern_a_group_of_vgpus():
    assert DeviceGroups.concerns(DeviceGroups.model_construct(groups=(PAIR,), members=(CARD,))) == (
        Topic.DEVICE_GROUPS | Topic.VGPU
    )
    whole = DeviceGroups.model_construct(groups=(WHOLE,), members=("10de:2321",))
    assert DeviceGroups.concerns(whole) == Topic.DEVICE_GROUPS
    assert DeviceGroups.concerns(DeviceGroups(groups=())) == Topic.NONE


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (PAIR, "2 × nvidia_h100l-94c, joined by NVLink"),
        ("Nvidia:8@nvidia_h100xm-80c%NVSwitch", "8 × nvidia_h100xm-80c, joined by NVSwitch"),
        ("anything", ""),
    ],
)
def test_a_name_in_words(name, words):
    assert words in meaning(name)
    assert bool(meaning(name)) == bool(words)


def test_fixed_members_are_told_by_their_ids():
    fixed = {"_typeName": "VirtualPCIPassthroughDeviceBackingInfo", "id": "0000:3b:00.0", "vendorId": -32634,
             "deviceId": "0x7a"}  # fmt: skip
    member = {"_typeName": "VirtualPCIPassthrough", "key": 1, "backing": fixed,
              "deviceGroupInfo": {"groupInstanceKey": 1, "sequenceId": 1}}  # fmt: skip
    entry = {"_typeName": GROUP, "groupInstanceKey": 1, "deviceGroupName": "x"}
    facts = tuned(VM, ESX1, member, **READY, config__deviceGroups={"deviceGroup": (entry,)})
    assert state_of(DeviceGroups, facts).members == ("8086:007a",)
    assert PassthroughDevice(host_device="0000:3b:00.0") not in (PciDevices.observe(facts, around(facts)).devices or ())
