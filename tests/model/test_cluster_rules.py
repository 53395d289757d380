"""Rules of a set: what differs from what a cluster has, and rules of others that stand against them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vsphere_ai.model.cluster_rules import APART, HOSTS, ON_HOSTS, TOGETHER, VMS, WantedRules, difference, foreign_rules

VM = tuple(f"VirtualMachine:vm-{n}" for n in range(4))
HOST = tuple(f"HostSystem:host-{n}" for n in range(3))
WANTED = WantedRules("a", VM[:2], "must", HOST[:2], "should", overridden=VM[:1], automatic=VM[1:2])
AS_WANTED = {
    "group": (
        {"_typeName": VMS, "name": "vsphere-ai set a VMs", "vm": VM[1::-1]},
        {"_typeName": HOSTS, "name": "vsphere-ai set a hosts", "host": HOST[:2]},
        {"_typeName": VMS, "name": "other", "vm": VM},
    ),
    "rule": (
        {
            "_typeName": APART,
            "name": "vsphere-ai set a apart",
            "key": 3,
            "vm": VM[:2],
            "enabled": True,
            "mandatory": True,
        },
        {
            "_typeName": ON_HOSTS,
            "name": "vsphere-ai set a hosts",
            "key": 4,
            "enabled": True,
            "mandatory": False,
            "vmGroupName": "vsphere-ai set a VMs",
            "affineHostGroupName": "vsphere-ai set a hosts",
        },
        {"_typeName": APART, "name": "other", "key": 5, "vm": VM, "enabled": True},
    ),
    "drsVmConfig": ({"key": VM[0], "enabled": False}, {"key": VM[3], "enabled": False}),
}


def operations(spec):
    found = [each for field in ("groupSpec", "rulesSpec", "drsVmConfigSpec") for each in spec.get(field, ())]
    return [(s["operation"], s.get("removeKey") or s["info"].get("name") or s["info"]["key"]) for s in found]


def test_nothing_is_sent_where_a_cluster_is_as_wanted():
    assert difference(AS_WANTED, WANTED) == {}


def test_everything_is_added_once():
    spec = difference({}, WANTED)
    assert [op for op, _ in operations(spec)] == ["add"] * 5
    assert difference({}, WantedRules("a")) == {}


def test_what_is_wanted_no_longer_is_removed_and_what_others_made_stays():
    spec = difference(AS_WANTED, WantedRules("a", VM[:2], automatic=VM[:2]))
    removed = operations(spec)
    assert {op for op, _ in removed} == {"remove"}
    keys = [key["value"] if isinstance(key, dict) else key for _, key in removed]
    assert keys == ["vsphere-ai set a VMs", "vsphere-ai set a hosts", 3, 4, VM[0]]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"vms": VM[:3]}, [("edit", "vsphere-ai set a VMs"), ("edit", "vsphere-ai set a apart")]),
        ({"vms": VM[:1]}, [("edit", "vsphere-ai set a VMs"), ("remove", 3)]),
        ({"apart": "should"}, [("edit", "vsphere-ai set a apart")]),
        ({"on_hosts": "must"}, [("edit", "vsphere-ai set a hosts")]),
        ({"hosts": HOST}, [("edit", "vsphere-ai set a hosts")]),
        ({"overridden": VM[:3]}, [("add", VM[1]), ("add", VM[2])]),
    ],
)
def test_only_what_differs_is_changed(change, found):
    assert operations(difference(AS_WANTED, replace(WANTED, automatic=(), **change))) == found


def test_a_rule_that_was_disabled_is_enabled_again():
    off = {**AS_WANTED, "rule": ({**AS_WANTED["rule"][0], "enabled": False}, *AS_WANTED["rule"][1:])}
    assert operations(difference(off, WANTED)) == [("edit", "vsphere-ai set a apart")]


def rule(kind, **more):
    return {"_typeName": kind, "name": "other", "key": 9, "enabled": True, **more}


GROUPS = (
    {"_typeName": VMS, "name": "theirs", "vm": VM[:1]},
    {"_typeName": HOSTS, "name": "far", "host": HOST[2:]},
    {"_typeName": HOSTS, "name": "both", "host": HOST[:2]},
)


@pytest.mark.parametrize(
    ("foreign", "conflicts"),
    [
        (rule(TOGETHER, vm=VM[:2]), True),
        (rule(TOGETHER, vm=VM[1:]), False),
        (rule(TOGETHER, vm=VM[:2], enabled=False), False),
        (rule(APART, vm=VM), False),
        (rule(ON_HOSTS, vmGroupName="theirs", affineHostGroupName="far"), True),
        (rule(ON_HOSTS, vmGroupName="theirs", affineHostGroupName="both"), False),
        (rule(ON_HOSTS, vmGroupName="theirs", antiAffineHostGroupName="both"), True),
        (rule(ON_HOSTS, vmGroupName="theirs", antiAffineHostGroupName="far"), False),
        (rule(ON_HOSTS, vmGroupName="missing", affineHostGroupName="far"), False),
    ],
)
def test_rules_of_others_that_contradict(foreign, conflicts):
    assert bool(list(foreign_rules({"group": GROUPS, "rule": (foreign,)}, WANTED, str))) is conflicts
