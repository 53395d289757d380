"""Conditions of selectors: which hosts and VMs they mean, what they need to know, and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.raising import refused

from vsphere_ai.errors import InputError, Mark
from vsphere_ai.language.inventories.inventory import Inventory, InventoryGroup
from vsphere_ai.language.inventories.patterns import PatternError, condition, condition_of, members, parse
from vsphere_ai.language.inventories.selected import ASKED, RECORD
from vsphere_ai.language.inventories.selection import narrow, select
from vsphere_ai.language.inventories.selectors import SELECTORS, HostGroup, Unread, VmSelector
from vsphere_ai.model.facts import About, Estate, Facts

HERE = Mark("play.yml", 3, 10)
VMS = [f"VirtualMachine:vm-{n}" for n in range(1, 8)]
HOSTS = [f"HostSystem:host-{n}" for n in (1, 2, 3, 4, 9)]
WANTS = [
    *(("tag", tag) for tag in ("Team/ml", "Team/*", "Team/web", "Stage/frozen", "Teem/ml", "Team/mll", "Team/empty")),
    ("attribute", ""),
    ("pool", ""),
    ("power", ""),
    ("gpu", "host"),
    ("gpu", "vm"),
]
RECORDED = {
    ASKED: frozenset(WANTS),
    "categories": ("Stage", "Team"),
    "tags": {
        "Team/ml": frozenset({VMS[0], VMS[1], HOSTS[0]}),
        "Team/web": frozenset({VMS[4]}),
        "Team/empty": frozenset(),
        "Stage/frozen": frozenset({VMS[1]}),
    },
    "attributes": ("owner", "rack"),
    "attribute": {VMS[0]: {"owner": "ml-a"}, VMS[2]: {"owner": "ml-b"}, HOSTS[1]: {"rack": "r1:2"}},
    "pools": {"ResourcePool:1": "gpu-a/research/llm", "ResourcePool:2": "gpu-b/llm", "ResourcePool:3": "gpu-a/prod"},
    "pool": {VMS[0]: ("ResourcePool:1",), VMS[2]: ("ResourcePool:3",), VMS[3]: ("ResourcePool:2",)},
    "power": {**dict.fromkeys(VMS[:4], "on"), **dict.fromkeys(VMS[4:], "off"), **dict.fromkeys(HOSTS, "on")},
    "gpu:host": {HOSTS[0]: ("A100", "a100-40gb"), HOSTS[1]: ("H100", "h100-80gb-sxm5")},
    "gpu:vm": {VMS[0]: ("A100", "a100-40gb"), VMS[1]: ("H100", "h100-80gb-sxm5")},
    "boards": ("A100", "a100-40gb", "a100-80gb", "H100", "h100-80gb-sxm5", "A30"),
}


@pytest.fixture
def inventory():
    tagged = InventoryGroup(
        "tagged", VmSelector(tag=("Team/ml",), without=({"tag": "Stage/frozen"},)), Mark("inventory.yml", 7, 3)
    )
    return Inventory(Path("inventory.yml"), vms={"tagged": tagged})


@pytest.fixture
def known(estate):
    return estate.with_objects([Facts(RECORD, {"name": RECORD, **RECORDED})])


OF_VMS = {
    "tag=Team/ml": [1, 2],
    "tag=Team/*": [1, 2, 5],
    "tag=Team/ml:!tag=Stage/frozen": [1],
    "train-*:&tag=Team/ml": [1, 2],
    "all:!tag=Team/ml:&power=on": [3, 4],
    "attribute=owner": [1, 3],
    "attribute=owner=ml-*": [1, 3],
    "attribute=owner=ml-b": [3],
    "pool=research/llm": [1],
    "pool=gpu-b/llm": [4],
    "gpu=a100": [1],
    "gpu=h100-*": [2],
    "gpu=A100,gpu=H100": [1, 2],
    "power=off": [5, 6, 7],
    "folder=/DC1/vm/ai:&power=on": [1, 2, 3, 4],
    "cluster=gpu-b": [6, 7],
    "tagged": [1],
    "tagged,train-03": [1, 3],
}


@pytest.mark.parametrize("pattern", OF_VMS)
def test_whom_conditions_in_a_pattern_mean(pattern, inventory, known):
    found = select(pattern, "vm", inventory, known, mark=HERE)
    assert sorted(int(t.ref.rpartition("-")[2]) for t in found) == OF_VMS[pattern]


SELECTED = [
    ({"tag": "Team/ml", "power": "on"}, [1, 2]),
    ({"tag": ["Team/ml", "Team/web"]}, [1, 2, 5]),
    ({"tag": "Team/*", "without": {"tag": "Stage/frozen"}}, [1, 5]),
    ({"attribute": {"owner": ["ml-a", "ml-b"]}, "power": "on"}, [1, 3]),
    ({"any": ["train-03", {"gpu": "H100"}]}, [2, 3]),
    ({"names": "train-*", "without": ["train-01", {"attribute": {"owner": "ml-*"}}]}, [2, 4]),
    ({"names": "tagged"}, [1]),
    ({"any": [{"power": "off", "cluster": "gpu-b"}, {"pool": "prod"}]}, [3, 6, 7]),
]


@pytest.mark.parametrize(("given", "numbers"), SELECTED)
def test_whom_conditions_of_a_play_mean(given, numbers, inventory, known):
    selector = VmSelector.model_validate(tuples(given))
    found = select(selector, "vm", inventory, known, mark=HERE)
    assert sorted(int(t.ref.rpartition("-")[2]) for t in found) == numbers
    again = SELECTORS["vm"].model_validate_json(selector.model_dump_json(exclude_none=True))
    assert again == selector, "as a saved plan keeps it"


def tuples(given):
    """Return lists as the reader of YAML gives them."""
    if isinstance(given, list):
        return tuple(tuples(each) for each in given)
    return {key: tuples(each) for key, each in given.items()} if isinstance(given, dict) else given


REFUSED = {
    "tag=Teem/ml": ("no tag category 'Teem'", "'Team'"),
    "tag=Team/mll": ("no tag 'Team/mll'", "'Team/ml'"),
    "tag=Team/empty": ("selects no virtual machine", ""),
    "attribute=ownr=x": ("no custom attribute 'ownr'", "'owner'"),
    "attribute=owner=ml-c": ("selects no virtual machine", "'ml-a'"),
    "pool=lln": ("no resource pool 'lln'", "'llm'"),
    "pool=llm": ("2 resource pools are called 'llm'", "gpu-a/research/llm, gpu-b/llm"),
    "gpu=A1000": ("'A1000' is no GPU model", "'A100'"),
    "gpu=A30": ("selects no virtual machine", "A100"),
    "power=onn": ("'onn' is no power state", "on, off or suspended"),
    "power=suspended": ("selects no virtual machine", ""),
    "cluster=gpu-q": ("no cluster 'gpu-q'", "'gpu-b'"),
    "train-*:&power=off": ("leaves no virtual machine", ""),
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_condition_that_fits_nothing_is_an_error_with_a_way_out(pattern, inventory, known):
    said, advised = REFUSED[pattern]
    with pytest.raises(InputError) as caught:
        select(pattern, "vm", inventory, known, mark=HERE)
    (fault,) = caught.value.diagnostics
    assert (fault.mark, said in fault.message, advised in fault.help) == (HERE, True, True), fault


def test_what_cannot_choose_hosts_says_so(inventory, known):
    with refused(InputError, "input", "'pool=prod'"):
        select("pool=prod", "host", inventory, known, mark=HERE)


def test_a_limit_takes_hosts_and_vms_by_conditions(inventory, known):
    assert [t.ref for t in narrow("tag=Team/ml", inventory, known, mark=HERE)] == [HOSTS[0], *VMS[:2]]
    assert [t.ref for t in narrow("gpu=A100", inventory, known, mark=HERE)] == [HOSTS[0], VMS[0]]
    assert {t.ref for t in narrow("pool=prod", inventory, known, mark=HERE)} == {VMS[2]}
    assert {t.kind for t in narrow("cluster=gpu-b", inventory, known, mark=HERE)} == {"host", "vm"}


def test_all_that_is_not_known_is_asked_for_at_once(inventory, estate):
    group = VmSelector(tag=("Team/ml", "Team/web"), gpu=("A100",), without=({"power": "off"},))
    with pytest.raises(Unread) as caught:
        select(group, "vm", inventory, estate, mark=HERE)
    assert caught.value.wants == {("tag", "Team/ml"), ("tag", "Team/web"), ("gpu", "vm"), ("power", "")}
    with pytest.raises(Unread) as caught:
        narrow("tagged,gpu=A100", inventory, estate, mark=HERE)
    assert caught.value.wants == {("tag", "Team/ml"), ("tag", "Stage/frozen"), ("gpu", "host"), ("gpu", "vm")}


def test_what_the_tree_answers_needs_no_reading(inventory, estate):
    assert select(HostGroup(cluster=("gpu-b",)), "host", inventory, estate, mark=HERE)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tag=Team/ml", ("tag", "Team/ml")),
        ('tag="A, b:c/d"', ("tag", "A, b:c/d")),
        ("attribute=owner=a=b", ("attribute", "owner=a=b")),
        ("tags=x", None),
        ("a-tag=x", None),
        ("tag", None),
    ],
)
def test_a_condition_is_a_known_word_and_a_value(name, found):
    assert condition_of(name) == found
    if found:
        assert condition_of(condition(*found)) == found


@pytest.mark.parametrize("value", ["a", "a b", "a:b", "a,b", "[01:02]", " a", "ünï", "a=b"])
def test_a_condition_that_is_shown_can_be_written(value):
    (term,) = parse(condition("tag", value))
    assert condition_of(term.name) == ("tag", value)


@pytest.mark.parametrize("pattern", ["tag=", 'tag=""', "tag= :a"])
def test_a_condition_without_a_value_is_refused(pattern):
    with pytest.raises(PatternError):
        parse(pattern)


def test_vms_are_not_made_by_a_condition():
    with pytest.raises(PatternError, match="does not say which VMs to make"):
        members("tag=Team/ml")


class Counted(dict):
    """Answers of a record that counts look-ups."""

    looked = 0

    def __getitem__(self, key):
        type(self).looked += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("size", [1_000, 10_000])
def test_conditions_take_work_in_proportion_to_the_estate(size):
    """Each VM is looked at a fixed number of times, whatever their number."""
    refs = [f"VirtualMachine:vm-{n}" for n in range(size)]
    objects = {ref: Facts(ref, {"name": f"vm-{n:05}", "parent": "Folder:1"}) for n, ref in enumerate(refs)}
    objects["Folder:1"] = Facts("Folder:1", {"name": "vm", "parent": None})
    record = {
        ASKED: frozenset(WANTS),
        "categories": ("Team",),
        "tags": {"Team/ml": frozenset(refs[::2])},
        "attributes": ("owner",),
        "attribute": {ref: {"owner": "ml"} for ref in refs},
        "power": dict.fromkeys(refs, "on"),
    }
    objects[RECORD] = Facts(RECORD, record)
    objects = Counted(objects)
    Counted.looked = 0
    estate = Estate(About("lab", "7.0.2", "1", "7.0.2.0", "uuid"), objects)
    selector = VmSelector(
        tag=("Team/ml",), attribute={"owner": ("ml",)}, power=("on",), without=({"names": "vm-00000"},)
    )
    found = select(selector, "vm", Inventory(Path("inventory.yml")), estate, mark=HERE)
    assert len(found) == size // 2 - 1
    assert Counted.looked < 12 * size
