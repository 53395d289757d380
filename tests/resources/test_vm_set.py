"""The kind `vm_set`: what a playbook may say of a set, and which faults are found before anything is read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.vm_sets import FARM as FARM
from support.vm_sets import KEY, play

from vsphere_ai.guests import cloud_init
from vsphere_ai.guests.netplan import GuestNic
from vsphere_ai.guests.ready import READY
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member, MemberNic, MemberPlace, options_of
from vsphere_ai.resources.vm_set import VmSet
from vsphere_ai.resources.vm_set.clone import is_ready
from vsphere_ai.resources.vm_set.disks import disk_problems
from vsphere_ai.resources.vm_set.linux_prep import slots_of

ALONE = """
- vms: new-[01:02]
  vm_set: {name: new, source: ubuntu-22.04, cluster: gpu-a, folder: ai, power_state: off}
"""
APART = "it makes VMs of a template, which the farm of the other kinds does not have"
NIC = {"name": "mgmt", "port_group": "dvpg-lan"}


def test_what_is_left_out_has_its_default():
    made = VmSet(name="train", source="ubuntu", nics=(NIC,))
    (nic,) = made.wanted_set().nics
    assert (nic.type, nic.pools, nic.primary) == ("vmxnet3", (), False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "1st"},
        {"nics": ({**NIC, "name": "a name with spaces"},)},
        {"nics": ({**NIC, "name": "longer-than-fifteen"},)},
        {"nics": (NIC,) * 11},
        {"nics": ({**NIC, "mtu": 100},)},
        {"users": ({"name": "ops", "ssh_authorized_keys": ("not a key",)},)},
        {"users": ({"name": "ops", "ssh_authorized_keys": ()},)},
        {"users": ({"name": "ops", "password": "secret"},)},
        {"users": ({"name": "Ops", "ssh_authorized_keys": (KEY,)},)},
        {"cpus": 0},
        {"power_state": "suspended"},
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValidationError):
        VmSet(**{"name": "train", "source": "ubuntu", **wrong})


@pytest.mark.parametrize("pattern", ["train-*", "all", "/DC0/vm/train-01", "train-[01:04]:&gpu"])
def test_a_pattern_that_only_finds_makes_nothing(pattern, tmp_path):
    from vsphere_ai.errors import InputError
    from vsphere_ai.language.playbooks.playbook import load_playbook
    from vsphere_ai.resources import kinds

    path = tmp_path / "play.yml"
    path.write_text(play(pattern), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_playbook(path, kinds())
    (fault,) = refused.value.diagnostics
    assert (fault.mark.line, fault.mark.column) == (2, 8)


@pytest.mark.parametrize(
    ("api", "taken", "nics", "slots"),
    [
        ("7.0.3.0", (), 5, (160, 192, 224, 256, 1184)),
        ("7.0.3.0", (160, 256), 3, (192, 224, 1184)),
        ("7.0.3.0", (), 1, ()),
        ("8.0.0.1", (), 5, ()),
    ],
)
def test_before_8_0_the_clone_names_the_slots_that_a_customization_goes_by(api, taken, nics, slots):
    ref = "VirtualMachine:vm-1"
    macs = [MemberNic(f"n{i}", f"00:50:56:00:00:0{i}") for i in range(nics)]
    member = Member("t", 1, "VirtualMachine:1", "t1", "1", place=MemberPlace(source=ref), nics=tuple(macs))
    devices = [{"_typeName": "VirtualVmxnet3", "key": 4000, "slotInfo": {"pciSlotNumber": 192}}]
    devices += [{"_typeName": "ParaVirtualSCSIController", "key": n, "slotInfo": {"pciSlotNumber": n}} for n in taken]
    source = Facts(ref, {"name": "u", "config.hardware.device": tuple(devices)})
    view = View(Estate(About("vCenter", api[:5], "1", api, "i"), {ref: source}))
    found = slots_of(VmSet(name="t", customize="linux_prep"), member, view)
    assert tuple(found.values()) == slots
    assert slots_of(VmSet(name="t"), member, view) == {}


def disk(thin, gb=40, key=2000):
    backing = {"fileName": f"[ds] u/u_{key}.vmdk", "thinProvisioned": thin}
    return {"_typeName": "VirtualDisk", "key": key, "capacityInKB": gb << 20, "backing": backing}


@pytest.mark.parametrize(
    ("thin", "free_gb", "disk_gb", "rules"),
    [
        (False, 80, None, set()),
        (False, 79, None, {"no-space"}),
        (False, 80, 41, {"no-space"}),
        (True, 20, None, set()),
        (True, 19, None, {"no-space"}),
        (False, 500, 39, {"disk-shrinks"}),
    ],
)
def test_all_new_vms_need_their_space(thin, free_gb, disk_gb, rules):
    place = MemberPlace(source="VirtualMachine:vm-1", datastore="Datastore:datastore-1")
    known = {
        f"VirtualMachine:{i}": Member("train", i, f"VirtualMachine:{i}", f"t{i}", str(i), place=place) for i in (1, 2)
    }
    farm = Estate(
        About("vCenter", "7.0.2", "1", "7.0.2.0", "i"),
        {
            "VirtualMachine:vm-1": Facts(
                "VirtualMachine:vm-1",
                {
                    "name": "u",
                    "config.hardware.device": (disk(thin),),
                    "storage.perDatastoreUsage": ({"committed": 10 << 30},) if thin else (),
                },
            ),
            "Datastore:datastore-1": Facts(
                "Datastore:datastore-1", {"name": "ds", "summary": {"freeSpace": free_gb << 30}}
            ),
            "VmSet:train": Facts("VmSet:train", {"name": "train", "members": known}),
        },
    )
    state = VmSet(name="train", source="u", disk_gb=disk_gb)
    found = disk_problems(state, known["VirtualMachine:1"], View(farm))
    assert {f.rule for f in found} == rules


FIRST_CLASS = {**disk(thin=False, key=2001), "vDiskId": "fcd-1"}


def old_vm(number, unshared_gb, **more):
    """A running VM of 4 GB, of which 1 GB is reserved, that is to be destroyed."""
    facts = {
        "name": f"old-{number}", "runtime.powerState": "poweredOn", "config.hardware.memoryMB": 4096,
        "config.memoryAllocation.reservation": 1024, "config.hardware.device": (disk(thin=False),),
        "storage.perDatastoreUsage": ({"datastore": "Datastore:datastore-1", "unshared": unshared_gb << 30},),
    }  # fmt: skip
    return Facts(f"VirtualMachine:{number}", {**facts, **more})


@pytest.mark.parametrize(
    ("old", "free_gb", "refused"),
    [
        ((), 80, False),
        ((), 79, True),
        # two clones of 40 GB; the old VM leaves 33 of which 3 are its swap file
        ((old_vm(11, 33),), 50, False),
        ((old_vm(11, 33),), 49, True),
        # what one leaves beyond the clone that takes its place is not for the other, which may be made before
        ((old_vm(11, 300),), 40, False),
        ((old_vm(11, 300),), 39, True),
        ((old_vm(11, 43), old_vm(12, 43)), 0, False),
        ((old_vm(11, 33, **{"config.memoryReservationLockedToMax": True}),), 47, False),
        ((old_vm(11, 33, **{"runtime.powerState": "poweredOff"}),), 47, False),
        ((old_vm(11, 33, **{"config.hardware.memoryMB": None}),), 79, True),
        ((old_vm(11, 33, **{"config.hardware.device": (disk(False), FIRST_CLASS)}),), 79, True),
    ],
)  # fmt: skip
def test_a_vm_that_is_destroyed_first_leaves_its_space_to_the_one_in_its_place(old, free_gb, refused):
    place = MemberPlace(source="VirtualMachine:vm-1", datastore="Datastore:datastore-1")
    new = [Member("train", i, f"VirtualMachine:{i}", f"t{i}", str(i), place=place) for i in (1, 2)]
    gone = [Member("train", n, vm.ref, vm.name, vm.ref, exists=True, leaving=True) for n, vm in enumerate(old, 1)]
    objects = [
        Facts("VirtualMachine:vm-1", {"name": "u", "config.hardware.device": (disk(thin=False),)}),
        Facts("Datastore:datastore-1", {"name": "ds", "summary": {"freeSpace": free_gb << 30}}),
        Facts("VmSet:train", {"name": "train", "members": {m.ref: m for m in (*new, *gone)}}),
        *old,
    ]
    farm = Estate(About("vCenter", "7.0.2", "1", "7.0.2.0", "i"), {facts.ref: facts for facts in objects})
    found = disk_problems(VmSet(name="train", source="u"), new[0], View(farm))
    assert {f.rule for f in found} == ({"no-space"} if refused else set())


@pytest.mark.parametrize("with_hash", [False, True])
def test_a_vm_whose_settings_hold_a_hash_is_not_ready(with_hash):
    user = cloud_init.User("ops", (KEY,), has_password=True)
    guest = cloud_init.Guest("t1", "i", (GuestNic("a", "00:50:56:00:00:01", ("10.0.0.5/24",), primary=True),), (user,))
    settings = cloud_init.extra_config(guest)
    settings = cloud_init.with_passwords(settings, {"ops": "$6$x$y"}) if with_hash else settings
    settings |= {READY: '{"generation":1,"not_probed":"x"}'}
    facts = Facts("VirtualMachine:vm-1", {"config.extraConfig": options_of(settings)})
    assert is_ready(facts, 1) is not with_hash
