from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.raising import refused

from vsphere_ai.errors import InputError, Mark
from vsphere_ai.language.inventories.inventory import HostGroup, Inventory, InventoryGroup, VmSelector
from vsphere_ai.language.inventories.patterns import MAX_NAMES, PatternError, Term, expand, parse
from vsphere_ai.language.inventories.selection import narrow, select
from vsphere_ai.model.facts import About, Estate, Facts

HERE = Mark("play.yml", 3, 10)


def group(name, selector):
    return name, InventoryGroup(name, selector, Mark("inventory.yml", 7, 3), "   7 | excerpt")


@pytest.fixture
def inventory():
    return Inventory(
        Path("inventory.yml"),
        hosts=dict(
            [
                group("gpu_hosts", HostGroup(cluster="gpu-a", names=("esx[01:02].lab.local",))),
                group("whole", HostGroup(cluster="gpu-a")),
                group("standalone", HostGroup(cluster="esx-odd.lab.local")),
                group("site2", HostGroup(datacenter="DC2")),
                group("typo", HostGroup(cluster="gpu-q")),
                group("nobody", HostGroup(cluster="empty")),
                group("both_wrong", HostGroup(cluster="gpu-q", names=("esx77",))),
                group("esx-b.lab.local", HostGroup(cluster="gpu-a")),
            ]
        ),
        vms=dict(
            [
                group("training", VmSelector(folder="ai/training")),
                group("ai1", VmSelector(folder="/DC1/vm/ai")),
                group("ai", VmSelector(folder="ai")),
                group("cluster_b", VmSelector(cluster="gpu-b")),
                group("some", VmSelector(cluster="gpu-a", names=("train-*", "!train-04"))),
                group("chained", VmSelector(names=("training",))),
            ]
        ),
    )


HOSTS = {
    "esx01.lab.local": [1],
    "esx0?.lab.local": [1, 2, 3],
    "esx0[12].lab.local": [1, 2],
    "esx[01:03].lab.local": [1, 2, 3],
    "esx0[1:2].lab.local": [1, 2],
    "esx-[a:b].*,esx01.lab.local": None,
    "gpu_hosts": [1, 2],
    "whole:!esx02.lab.local": [1, 3],
    "!esx02.lab.local:whole": [1, 3],
    "whole:&gpu_hosts": [1, 2],
    "&gpu_hosts:&esx*1*:whole": [1],
    "gpu_hosts, esx03.lab.local": [1, 2, 3],
    "all:!whole": [4, 9],
    "*": [4, 9, 1, 2, 3],
    "standalone": [9],
    "site2": [4],
    "HostSystem:host-2:esx01.lab.local": [1, 2],
    "HostSystem:host-2": [2],
    "/DC1/host/gpu-a/esx03.lab.local": [3],
    "/DC1/host/gpu-a/*": [1, 2, 3],
}


@pytest.mark.parametrize("pattern", HOSTS)
def test_what_a_pattern_of_hosts_means(pattern, inventory, estate):
    numbers = HOSTS[pattern]
    if numbers is None:
        with refused(InputError, "input", "'esx-a.*'"):
            select(pattern, "host", inventory, estate, mark=HERE)
        return
    found = select(pattern, "host", inventory, estate, mark=HERE)
    assert [target.ref for target in found] == [f"HostSystem:host-{number}" for number in numbers]
    assert all(target.kind == "host" for target in found)


VMS = {
    "train-[01:04]": [1, 2, 3, 4],
    "training:!train-[02:03]": [1, 4],
    "ai1": [1, 2, 3, 4],
    "cluster_b": [6, 7],
    "some": [1, 2, 3],
    "infra-*": [5, 6],
    "VirtualMachine:vm-6": [6],
    "/DC2/vm/infra-01": [6],
    "train-01,VirtualMachine:vm-5": [5, 1],
    "odd, one:[x]": [7],
}


@pytest.mark.parametrize("pattern", VMS)
def test_what_a_pattern_of_vms_means(pattern, inventory, estate):
    found = select(pattern, "vm", inventory, estate, mark=HERE)
    assert [target.ref for target in found] == [f"VirtualMachine:vm-{number}" for number in VMS[pattern]]


REFUSED = {
    "esx09.lab.local": ("'esx09.lab.local' is no host and no group", "did you mean 'esx0"),
    "esx01": ("'esx01' is no host", "esx01.lab.local"),
    "ESX01.lab.local": ("is no host", "did you mean 'esx01.lab.local'"),
    "gpu_host": ("is no host and no group", "did you mean 'gpu_hosts'?"),
    "zzz": ("is no host and no group", "there is: "),
    "esx[01:09].lab.local": ("'esx04.lab.local', 'esx05.lab.local', 'esx06.lab.local', 'esx07.lab.local', ", "did you"),
    "gpu_hosts:!esx09.lab.local": ("'esx09.lab.local' is no host", "did you mean"),
    "gpu_hosts:!whole": ("leaves no host", "takes away"),
    "gpu_hosts:&site2": ("leaves no host", ""),
    "typo": ("there is no cluster 'gpu-q'", "did you mean 'gpu-b' or 'gpu-a'?"),
    "nobody": ("the group 'nobody' is empty", ""),
    "esx-b.lab.local": ("is both a group and a host", "HostSystem:host-4"),
    "HostSystem:host-77": ("is no host", ""),
    "/DC1/host/gpu-a/esx09.lab.local": ("is no host", "did you mean '/DC1/host/gpu-a/esx0"),
    "a::b": ("has an empty part", "gpu_hosts"),
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_fits_nothing_is_an_error_with_a_way_out(pattern, inventory, estate):
    said, advised = REFUSED[pattern]
    with pytest.raises(InputError) as caught:
        select(pattern, "host", inventory, estate, mark=HERE)
    (fault,) = caught.value.diagnostics
    assert said in fault.message
    assert advised in fault.help


def test_a_name_of_several_vms_is_never_picked_from(inventory, estate):
    with pytest.raises(InputError) as caught:
        select("infra-01", "vm", inventory, estate, mark=HERE)
    (fault,) = caught.value.diagnostics
    assert fault.mark == HERE
    assert fault.message == "2 objects are called 'infra-01'"
    assert "/DC1/vm/infra-01 (VirtualMachine:vm-5)" in fault.help
    assert "/DC2/vm/infra-01 (VirtualMachine:vm-6)" in fault.help


def test_a_folder_of_several_datacenters_is_never_picked_from(inventory, estate):
    with pytest.raises(InputError) as caught:
        select("ai", "vm", inventory, estate, mark=HERE)
    (fault,) = caught.value.diagnostics
    assert "2 objects are the VM folder 'ai'" in fault.message
    assert fault.help == "write the inventory path: /DC1/vm/ai, /DC2/vm/ai"


def test_a_fault_of_a_group_is_shown_where_the_group_is_written(inventory, estate):
    with pytest.raises(InputError) as caught:
        select("both_wrong:typo", "host", inventory, estate, mark=HERE)
    assert {str(d.mark) for d in caught.value.diagnostics} == {"inventory.yml:7:3"}
    assert {d.excerpt for d in caught.value.diagnostics} == {"   7 | excerpt"}
    assert [d.message for d in caught.value.diagnostics] == ["'esx77' is no host", "there is no cluster 'gpu-q'"]


def test_groups_do_not_hold_groups(inventory, estate):
    with refused(InputError, "input", "'training'"):
        select("chained", "vm", inventory, estate, mark=HERE)


def test_a_template_is_no_target_and_said_to_be_one(inventory, estate):
    with pytest.raises(InputError) as caught:
        select("golden", "vm", inventory, estate, mark=HERE)
    assert "template" in caught.value.diagnostics[0].help


def test_every_fault_of_a_pattern_is_named(inventory, estate):
    with pytest.raises(InputError) as caught:
        select("esx08,whole,&esx09,!typo", "host", inventory, estate, mark=HERE)
    assert len(caught.value.diagnostics) == 3


def test_a_limit_may_name_hosts_and_vms(inventory, estate):
    found = narrow("gpu_hosts,train-01", inventory, estate, mark=Mark("--limit"))
    assert [target.name for target in found] == ["esx01.lab.local", "esx02.lab.local", "train-01"]
    with refused(InputError, "input", "--limit", "'nothing'"):
        narrow("nothing", inventory, estate, mark=Mark("--limit"))


def test_a_limit_may_name_what_hosts_and_vms_share(inventory, estate):
    found = narrow("DC1,esx01.lab.local", inventory, estate, mark=Mark("--limit"))
    assert [(target.kind, target.name) for target in found] == [("datacenter", "DC1"), ("host", "esx01.lab.local")]


def test_an_empty_estate_has_nothing_to_select(inventory):
    nothing = Estate(About("lab", "7.0.2", "1", "7.0.2.0", "uuid"), {})
    with pytest.raises(InputError, match="leaves no host"):
        select("all", "host", inventory, nothing, mark=HERE)


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("a", ("a",)),
        ("a[1:3]", ("a1", "a2", "a3")),
        ("a[08:11]b", ("a08b", "a09b", "a10b", "a11b")),
        ("a[9:11]", ("a9", "a10", "a11")),
        ("[a:c]", ("a", "b", "c")),
        ("[A:B][0:1]", ("A0", "A1", "B0", "B1")),
        ("a[0:0]", ("a0",)),
        ("a[bc]", ("a[bc]",)),
    ],
)
def test_a_range_stands_for_its_names(name, names):
    assert expand(name) == names


@pytest.mark.parametrize(
    "name", ["a[2:1]", "a[b:a]", "a[01:100]", "a[1:b]", "a[:3]", "a[1:2:3]", "a[1", f"[0:{MAX_NAMES}]", "[00:99]" * 3]
)
def test_a_range_that_cannot_be_read_is_refused(name):
    with pytest.raises(PatternError):
        expand(name)


@pytest.mark.parametrize(
    ("pattern", "terms"),
    [
        ("a", [("", "a")]),
        ("a:b,c", [("", "a"), ("", "b"), ("", "c")]),
        ("a : !b , &c", [("", "a"), ("!", "b"), ("&", "c")]),
        ("a-[01:16]:!a-09", [("", "a-[01:16]"), ("!", "a-09")]),
        ("VirtualMachine:vm-1:a", [("", "VirtualMachine:vm-1"), ("", "a")]),
        ("my vm, other vm", [("", "my vm"), ("", "other vm")]),
    ],
)
def test_a_pattern_is_split_at_its_separators(pattern, terms):
    assert parse(pattern) == tuple(Term(sign, name) for sign, name in terms)


@pytest.mark.parametrize("pattern", ["", " ", ":", "a:", ",a", "a::b", "!", "a:!", "!a", "&a:!b", "a[1", "a[2:1]"])
def test_a_pattern_that_cannot_be_read_is_refused(pattern):
    with pytest.raises(PatternError) as caught:
        parse(pattern)
    assert caught.value.help


def test_thousands_of_names_are_looked_up_at_once(inventory):
    objects = {
        f"VirtualMachine:vm-{n}": Facts(f"VirtualMachine:vm-{n}", {"name": f"train-{n:04}"}) for n in range(5000)
    }
    estate = Estate(About("lab", "7.0.2", "1", "7.0.2.0", "uuid"), objects)
    start = time.process_time()
    assert len(select("train-[0000:4999]", "vm", inventory, estate, mark=HERE)) == 5000
    assert time.process_time() - start < 1
