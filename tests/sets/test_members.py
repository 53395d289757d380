"""Members of sets: identities that do not change, and patterns that name what is made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.language.inventories.patterns import PatternError, members
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.vm_sets import (
    MemberMark,
    MemberNic,
    has_copied_mark,
    instance_uuid,
    is_planned_ref,
    mac_address,
    mac_of,
    mark_of,
    planned_ref,
)

UUID = instance_uuid("vcenter", "train", 1, 1)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("train-[01:03]", {1: "train-01", 2: "train-02", 3: "train-03"}),
        ("train-[01:03]:!train-02", {1: "train-01", 3: "train-03"}),
        ("a,b,a", {1: "a", 2: "b"}),
        ("rack-[a:b]-[1:2]", {1: "rack-a-1", 2: "rack-a-2", 3: "rack-b-1", 4: "rack-b-2"}),
    ],
)
def test_places_of_names(pattern, found):
    assert members(pattern) == found


@pytest.mark.parametrize("pattern", ["train-*", "all", "a:&b", "!a", "train-?", ""])
def test_patterns_that_name_nothing_to_make(pattern):
    with pytest.raises(PatternError):
        members(pattern)


def test_every_member_has_another_identity():
    many = {instance_uuid("vcenter", name, i, g) for name in ("a", "b") for i in range(1, 200) for g in (1, 2)}
    assert len(many) == 2 * 199 * 2
    assert all(is_planned_ref(planned_ref(uuid)) for uuid in many)
    assert not is_planned_ref("VirtualMachine:vm-12")


@given(st.text(min_size=1, max_size=20), st.integers(1, 4096), st.text(min_size=1, max_size=15))
def test_mac_addresses_lie_in_the_range_for_those_given_by_hand(name, index, nic):
    parts = [int(part, 16) for part in mac_address("vcenter", name, index, nic).split(":")]
    assert parts[:3] == [0x00, 0x50, 0x56]
    assert parts[3] <= 0x3F


def test_no_two_nics_of_a_set_have_one_address_behind_a_prefix():
    found = {mac_of("00:50:56:3F", index, position) for index in range(1, 4097) for position in range(16)}
    assert len(found) == 4096 * 16
    assert min(found) == "00:50:56:3f:00:00"
    assert max(found) == "00:50:56:3f:ff:ff"


@pytest.mark.parametrize(("index", "position"), [(0, 0), (4097, 0), (1, 16), (1, -1)])
def test_beyond_a_prefix_there_is_no_address(index, position):
    with pytest.raises(ValueError, match="no address"):
        mac_of("00:50:56:12", index, position)


def test_mac_addresses_and_identities_stay_over_versions_of_the_tool():
    """VMs that an earlier version made are found, and made anew with the same MAC address."""
    assert mac_address("vcenter", "train", 1, "mgmt") == "00:50:56:25:59:7f"
    assert instance_uuid("vcenter", "train", 1, 1) == "58e8854e-1cab-5504-81ce-874d271219a8"


def vm(mark, uuid=UUID):
    options = tuple({"key": k, "value": v} for k, v in mark.settings().items())
    return Facts("VirtualMachine:vm-1", {"config.extraConfig": options, "config.instanceUuid": uuid})


MARK = MemberMark(
    "train", 1, UUID, "play.yml", 1, (MemberNic("mgmt", "00:50:56:00:00:01", ("10.0.0.1/24",)),), "u", "g"
)


def test_a_mark_is_read_back_as_it_was_written():
    assert mark_of(vm(MARK)) == MARK


def test_a_copied_mark_is_none():
    clone = vm(MARK, uuid="50000000-0000-0000-0000-000000000001")
    assert mark_of(clone) is None
    assert has_copied_mark(clone)
    assert not has_copied_mark(vm(MARK))


@pytest.mark.parametrize("lost", ["set", "index", "instance-uuid", "generation", "nics"])
def test_a_damaged_mark_is_none(lost):
    kept = {k: v for k, v in MARK.settings().items() if k != f"vsphere-ai.{lost}"}
    assert MemberMark.read(kept) is None
    assert MemberMark.read({**MARK.settings(), "vsphere-ai.nics": "{"}) is None
