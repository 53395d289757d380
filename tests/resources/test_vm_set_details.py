"""Notes, custom attributes and CD drives of `vm_set`, as values: what is observed, and what is unknown."""

from __future__ import annotations

import pytest

from vsphere_ai.fabric import drives
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.resources.vm_set import VmSet, details

ISO = {"_typeName": "VirtualCdromIsoBackingInfo", "fileName": "[isos] linux.iso"}
CLIENT = {"_typeName": "VirtualCdromRemotePassthroughBackingInfo", "deviceName": ""}
HOST = {"_typeName": "VirtualCdromAtapiBackingInfo", "deviceName": "mpx.vmhba0"}


def estate(fields=(), **more):
    manager = Facts("CustomFieldsManager:1", {"field": tuple(fields)} if fields is not None else {}, **more)
    return Estate(About("vCenter", "8.0", "1", "8.0.0.1", "i"), {manager.ref: manager})


def drive(backing, *, starts=False, key=3000):
    connect = {"startConnected": starts, "connected": False}
    return {"_typeName": "VirtualCdrom", "key": key, "controllerKey": 200, "backing": backing, "connectable": connect}


@pytest.mark.parametrize(
    ("devices", "media"),
    [
        (None, None),
        ((), "none"),
        ((drive(CLIENT),), "none"),
        ((drive(CLIENT, starts=True),), drives.OF_CLIENT),
        ((drive(ISO),), "[isos] linux.iso"),
        ((drive(ISO), drive(HOST, key=3001)), f"[isos] linux.iso, {drives.OF_HOST}"),
        ((drives.emptied(drive(ISO, starts=True)),), "none"),
    ],
)
def test_what_is_in_the_drives(devices, media):
    known = {} if devices is None else {"config.hardware.device": devices}
    assert details.media_of(Facts("VirtualMachine:vm-1", known)) == media


@pytest.mark.parametrize("managed", ["VirtualMachine", "vim.VirtualMachine", "", None])
def test_an_attribute_for_vms_or_for_all_objects_counts(managed):
    fields = ({"key": 1, "name": "Owner", "managedObjectType": managed},)
    vm = Facts("VirtualMachine:vm-1", {"customValue": ({"key": 1, "value": "ml"}, {"key": 9, "value": "gone"})})
    assert details.attributes_of(vm, estate(fields)) == {"attribute Owner": "ml"}


def test_attributes_that_were_not_read_are_unknown():
    vm, unread = Facts("VirtualMachine:vm-1", {}), estate(None, unreadable={"field": "no permission"})
    assert details.attributes_of(vm, Estate(unread.about, {})) is None
    said = VmSet(name="t", source="u", custom_attributes={"Owner": "ml"})
    for world in (unread, Estate(unread.about, {})):
        assert [f.rule for f in details.detail_problems(said, world)] == ["attributes-unknown"]


def test_an_empty_text_asks_for_nothing_where_nothing_is():
    said = VmSet(name="t", source="u", custom_attributes={"Owner": "", "Team": "ml"})
    assert details.settled_details(said, None) == {"custom_attributes": {"attribute Team": "ml"}}
    now = VmSet.model_construct(custom_attributes={"attribute Owner": "x"})
    expected = {"attribute Owner": "", "attribute Team": "ml"}
    assert details.settled_details(said, now) == {"custom_attributes": expected}


def test_a_new_vm_is_planned_as_its_clone_brings_it():
    source = Facts("VirtualMachine:vm-1", {"config.annotation": "image", "config.hardware.device": (drive(ISO),)})
    made = details.details_of_new(source, VmSet(name="t", source="u", notes="", cdrom="none"))
    assert (made.get("config.annotation"), details.media_of(made)) == ("", "none")
    assert details.details_of_new(source, VmSet(name="t", source="u")) is source
