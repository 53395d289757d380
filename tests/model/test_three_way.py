"""Three-way comparison: what was read at planning, what is there now, what is wanted."""

from __future__ import annotations

import pytest

from vsphere_ai.model.three_way import SettingPart, compare

UNCHANGED, DONE, CONFLICT = (True, False), (False, True), (False, False)


def only(planned, now, wanted, **more):
    (part,) = compare(
        {} if planned is ... else {"x": planned}, {} if now is None else {"x": now}, {"x": wanted}, **more
    )
    return part


@pytest.mark.parametrize(
    ("planned", "now", "wanted", "verdict"),
    [
        (1500, 1500, 9000, UNCHANGED),
        (1500, 9000, 9000, DONE),
        (1500, 1400, 9000, CONFLICT),
        (None, 1400, 9000, CONFLICT),  # it was not set when it was read
        (..., 1400, 9000, UNCHANGED),  # it was not read
        (1500, None, 9000, CONFLICT),
        ({"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 3}, UNCHANGED),  # b is not set by the step
        ({"a": 1}, {"a": 2}, {"a": 3}, CONFLICT),
        ({"a": 1}, {"a": 3, "server": "adds"}, {"a": 3}, DONE),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 1, "c": 2}}, {"a": {"b": 9}}, UNCHANGED),
        (("a",), ("b",), ("c",), CONFLICT),  # no structures: the whole list counts
        (({"n": 1},), ({"n": 2},), ({"n": 3},), CONFLICT),  # nothing identifies them
        ({"inherited": True, "v": 1}, {"inherited": True, "v": 2}, {"inherited": False, "v": 3}, UNCHANGED),
        ({"inherited": False, "v": 1}, {"inherited": True, "v": 2}, {"inherited": False, "v": 3}, CONFLICT),
    ],
)
def test_each_setting_is_unchanged_done_or_in_conflict(planned, now, wanted, verdict):
    part = only(planned, now, wanted)
    assert (part.unchanged, part.done) == verdict
    assert part.conflict is (verdict == CONFLICT)


def member(key, value):
    return {"key": key, "value": value}


@pytest.mark.parametrize(
    ("now", "conflict"),
    [
        ((member("a", 1), member("b", 7)), False),  # b is not among the wanted ones
        ((member("b", 1), member("a", 1)), False),  # the order does not matter
        ((member("a", 7), member("b", 1)), True),
        ((member("b", 1),), True),
    ],
)
def test_elements_of_a_list_are_matched_by_what_identifies_them(now, conflict):
    planned, wanted = (member("a", 1), member("b", 1)), (member("a", 3),)
    assert only(planned, now, wanted).conflict is conflict
    named = [tuple({"id": m["key"], "value": m["value"]} for m in each) for each in (planned, now, wanted)]
    assert only(*named, identity=("id",)).conflict is conflict


def test_a_host_of_a_switch_is_matched_although_it_is_read_in_another_shape_than_it_is_set():
    def read(nic):
        return {"config": {"host": "HostSystem:host-1", "nic": nic}, "status": "up"}

    wanted = ({"operation": "edit", "host": "HostSystem:host-1", "nic": "vmnic4"},)
    assert only((read("vmnic2"),), (read("vmnic3"),), wanted).conflict
    other = {"config": {"host": "HostSystem:host-2", "nic": "vmnic9"}, "status": "up"}
    assert not only((read("vmnic2"),), (read("vmnic2"), other), wanted).conflict


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (SettingPart("config.maxMtu", 1500, 1400, False), "maxMtu is 1400, was 1500"),
        (SettingPart("x", None, True, False), "x is yes, was none"),
        (SettingPart("config.host", ({"host": 1},), (), False), "host"),
        (SettingPart("x", {"a": 1}, None, False), "x"),
        (SettingPart("x", ("a", "a"), (), False), "x is none, was a ×2"),
    ],
)
def test_a_part_in_words(part, text):
    assert str(part) == text
