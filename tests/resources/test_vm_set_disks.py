"""Disks of sets: where added ones are connected, how they are known again, and the space that all of them take."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import MarkedDisk, Member, MemberMark, MemberPlace
from vsphere_ai.resources.vm_set import VmSet
from vsphere_ai.resources.vm_set.added_disks import as_shown, laid, named_disks, observed_disks
from vsphere_ai.resources.vm_set.destruction import destroy_problems
from vsphere_ai.resources.vm_set.disks import disk_problems, with_present
from vsphere_ai.resources.vm_set.settings import SetDisk

PVSCSI = {"_typeName": "ParaVirtualSCSIController", "key": 1000, "busNumber": 0}
LSI = {"_typeName": "VirtualLsiLogicController", "key": 1000, "busNumber": 0}


def disk(key=2000, unit=0, controller=1000, file="[ds] train-01/train-01.vmdk", gb=40, **backing):
    return {
        "_typeName": "VirtualDisk",
        "key": key,
        "controllerKey": controller,
        "unitNumber": unit,
        "capacityInKB": gb << 20,
        "backing": {"fileName": file, **backing},
    }


def vm(*devices, marked=()):
    mark = MemberMark("train", 1, "uuid-1", disks=tuple(marked))
    settings = tuple({"key": k, "value": v} for k, v in mark.settings().items())
    known = {"name": "train-01", "config.instanceUuid": "uuid-1", "config.extraConfig": settings}
    return Facts(
        "VirtualMachine:1", {**known, "runtime.connectionState": "connected", "config.hardware.device": devices}
    )


def added(*names, **more):
    return [SetDisk(name=name, gb=10, **more) for name in names]


def test_a_mark_says_what_it_was_given():
    given = MemberMark("train", 1, "u", disks=(MarkedDisk("a", "scsi0:1"), MarkedDisk("b", "nvme0:0", "ds2")))
    assert MemberMark.read(given.settings()) == given


def test_disks_are_connected_to_what_is_there_then_to_new_controllers():
    found = laid((PVSCSI, disk()), [*added("a", "b"), *added("c", "d", controller="nvme")])
    assert [each.at for each in found] == ["scsi0:1", "scsi0:2", "nvme0:0", "nvme0:1"]
    assert [each.controller is not None for each in found] == [False, False, True, False]


def test_a_controller_of_another_type_is_not_used_and_its_bus_number_is_taken():
    (found,) = laid((LSI, disk()), added("a"))
    assert found.at == "scsi1:0"
    assert found.controller["busNumber"] == 1


def test_no_disk_has_the_unit_of_the_controller_and_those_without_room_are_left_out():
    found = laid((PVSCSI, disk()), added(*(f"d{n}" for n in range(70))))
    places = [each.at for each in found]
    assert len(places) == len(set(places)) == 4 * 15 - 1
    assert not [p for p in places if p.endswith(":7")]


def test_what_is_shown_after_the_clone_is_known_again_by_its_place():
    found = laid((PVSCSI, disk()), added("a", "b", controller="nvme"))
    there = vm(PVSCSI, disk(), *as_shown(found, 2000), marked=[each.marked for each in found])
    assert set(named_disks(there)) == {"a", "b"}
    assert [d.key for d in observed_disks(there)] == ["1", "a", "b"]


def test_what_a_playbook_does_not_name_stays():
    now = (SetDisk(number=1, gb=40), SetDisk(name="a", gb=10))
    wanted = with_present((SetDisk(name="a", gb=20), SetDisk(name="b", gb=5)), now)
    assert [(d.key, d.gb) for d in wanted] == [("1", 40), ("a", 20), ("b", 5)]


MARKED = [MarkedDisk("scratch", "scsi0:1", "nfs")]


@pytest.mark.parametrize(
    ("file", "unit", "foreign"),
    [
        ("[nfs] train-01/train-01.vmdk", 1, False),
        ("[nfs] 52c3-9a/train-01_2.vmdk", 1, False),
        ("[nfs] train-01/train-01.vmdk", 2, True),
        ("[other] train-01/train-01.vmdk", 1, True),
        ("[nfs] data/data.vmdk", 1, True),
        ("[nfs] train-011/train-011.vmdk", 1, True),
    ],
)
def test_a_disk_elsewhere_is_the_sets_own_by_its_place_datastore_and_name(file, unit, foreign):
    there = vm(PVSCSI, disk(), disk(2001, unit, file=file), marked=MARKED)
    assert {f.rule for f in destroy_problems(there, None)} == ({"foreign-disk"} if foreign else set())


@pytest.mark.parametrize(
    "wrong",
    [
        {"gb": 10},
        {"name": "a", "number": 1, "gb": 10},
        {"number": 1, "gb": 10, "controller": "nvme"},
        {"name": "A b", "gb": 10},
        {"name": "a", "gb": 0},
    ],
)
def test_what_cannot_be_a_disk_is_refused(wrong):
    with pytest.raises(ValidationError):
        SetDisk(**wrong)


@pytest.mark.parametrize(
    "more", [{"disk_gb": 10, "disks": ({"number": 1, "gb": 9},)}, {"disks": ({"name": "a", "gb": 9},) * 2}]
)
def test_no_disk_is_there_twice(more):
    with pytest.raises(ValidationError):
        VmSet(name="train", source="u", **more)


@pytest.mark.parametrize(
    ("disks", "rules"),
    [
        (({"name": "a", "gb": 30, "provisioning": "thick"},), set()),
        (({"name": "a", "gb": 31, "provisioning": "eager"},), {"no-space"}),
        (({"name": "a", "gb": 500},), set()),
        (({"name": "a", "gb": 201, "provisioning": "thick", "datastore": "nfs"},), {"no-space"}),
        (({"number": 2, "gb": 50},), {"no-disk"}),
        (({"name": "a", "gb": 5, "controller": "nvme"},), {"disk-controller"}),
    ],
)
def test_thick_disks_that_are_added_need_their_space_on_their_datastores(disks, rules):
    place = MemberPlace(source="VirtualMachine:u", datastore="Datastore:1")
    known = {
        f"VirtualMachine:{i}": Member("train", i, f"VirtualMachine:{i}", f"t{i}", str(i), place=place) for i in (1, 2)
    }
    source = {"name": "u", "config.version": "vmx-11", "config.hardware.device": (PVSCSI, disk(thinProvisioned=True))}
    farm = Estate(
        About("vCenter", "7.0.2", "1", "7.0.2.0", "i"),
        {
            "VirtualMachine:u": Facts("VirtualMachine:u", source),
            "Datastore:1": Facts("Datastore:1", {"name": "ds", "summary": {"freeSpace": 60 << 30}}),
            "Datastore:2": Facts("Datastore:2", {"name": "nfs", "summary": {"freeSpace": 400 << 30}}),
            "VmSet:train": Facts("VmSet:train", {"name": "train", "members": known}),
        },
    )
    state = VmSet(name="train", source="u", disks=disks)
    assert {f.rule for f in disk_problems(state, known["VirtualMachine:1"], View(farm))} == rules
