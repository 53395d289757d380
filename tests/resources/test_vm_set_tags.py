"""Tags of `vm_set`, as values: what is observed, which are refused and why, and the one step that sets them."""

from __future__ import annotations

import pytest

from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.state import Change, Target
from vsphere_ai.model.vm_tags import ATTACHED, CATEGORIES, TagCategory
from vsphere_ai.resources.vm_set import VmSet, tags

TEAM = TagCategory("c1", tags={"ml": "t1", "web": "t2"})
STAGE = TagCategory("c2", single=True, tags={"test": "t3", "prod": "t4"})
RACK = TagCategory("c3", types=("HostSystem",), tags={"a7": "t5"})
VM = Target("vm", "train-01", "VirtualMachine:vm-1")


def estate(**known):
    service = Facts("TagService:TagService", {"name": "TagService", CATEGORIES: known})
    return Estate(About("vCenter", "8.0", "1", "8.0.0.1", "i"), {service.ref: service})


def said(**wanted):
    return VmSet(name="t", source="u", tags=wanted)


def settled(wanted, now=None):
    return wanted.model_copy(update=tags.settled_tags(wanted, now))


@pytest.mark.parametrize(
    ("wanted", "rules", "words"),
    [
        ({"Team": ("ml", "web"), "Stage": ("prod",)}, [], ""),
        ({"Team": ()}, [], ""),
        ({"Rack": ()}, [], ""),
        ({"Team": ("mll",)}, ["no-tag"], "did you mean 'ml'?"),
        ({"Teem": ("ml",)}, ["no-tag-category"], "did you mean 'Team'?"),
        ({"Other": ("x",)}, ["no-tag-category"], "make it"),
        ({"Stage": ("test", "prod")}, ["one-tag"], "several"),
        ({"Rack": ("a7",)}, ["tag-types"], "virtual machines"),
        ({"Rack": ("a8",)}, ["tag-types", "no-tag"], "virtual machines"),
    ],
)
def test_tags_that_a_vm_cannot_have_are_refused(wanted, rules, words):
    faults = [*tags.tag_problems(said(**wanted), estate(Team=TEAM, Stage=STAGE, Rack=RACK, Other=None))]
    assert [f.rule for f in faults] == rules
    assert words in "".join(f.help for f in faults)


def test_tags_that_were_not_read_are_unknown():
    empty = Estate(About("vCenter", "8.0", "1", "8.0.0.1", "i"), {})
    assert [f.rule for f in tags.tag_problems(said(Team=("ml",)), empty)] == ["tags-unknown"]
    assert [*tags.tag_problems(VmSet(name="t", source="u"), empty)] == []
    assert tags.tags_of(Facts(VM.ref, {})) is None
    assert tags.tags_of(Facts(VM.ref, {ATTACHED: {"Team": ()}})) == {"tags of Team": ()}


def test_one_text_is_one_tag_and_the_order_does_not_count():
    assert VmSet.model_validate({"name": "t", "tags": {"Team": "ml"}}).tags == {"Team": ("ml",)}
    assert VmSet.model_validate({"name": "t", "tags": {"Team": ["web", "ml", "web"]}}).tags == {"Team": ("ml", "web")}


def test_a_new_vm_has_no_tags_so_that_none_are_taken_away():
    assert settled(said(Team=(), Stage=("prod",))).tags == {"tags of Stage": ("prod",)}
    now = VmSet.model_construct(tags={"tags of Team": ("ml",)})
    assert settled(said(Team=()), now).tags == {"tags of Team": ()}
    assert settled(VmSet(name="t", source="u"), now).tags is None


def test_one_step_has_the_categories_that_differ():
    now = VmSet.model_construct(tags={"tags of Team": ("ml",), "tags of Stage": ("test",)})
    wanted = settled(said(Team=("ml",), Stage=("prod",)), now)
    (step,) = tags.tag_steps(wanted, Change(VM, now, wanted))
    assert (step.tags, step.before) == ({"Stage": ("prod",)}, {"Stage": ("test",)})
    assert step.summary == "set tags (Stage: prod)"
    assert [*tags.tag_steps(wanted, Change(VM, wanted, wanted))] == []
    (made,) = tags.tag_steps(wanted, Change(VM, None, wanted))
    assert (dict(made.tags), dict(made.before)) == ({"Team": ("ml",), "Stage": ("prod",)}, {})
