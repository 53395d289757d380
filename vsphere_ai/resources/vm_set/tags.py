"""vSphere tags of the VMs of a set: what is read, why they cannot be set, and what sets them.

Source: Broadcom's API reference, Cis Tagging Category (cardinality, associable types) and TagAssociation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import Change
from vsphere_ai.model.steps import SetTags
from vsphere_ai.model.vm_sets import MemberFault
from vsphere_ai.model.vm_tags import ATTACHED, CATEGORIES, TAG_SERVICE, TagCategory
from vsphere_ai.resources.vm_set.settings import VmSetFields

OF_CATEGORY = "tags of "
"""Begins the name of the field that a plan shows for a category."""
IN_CLIENT = "in the vSphere Client under Tags & Custom Attributes"


def tags_of(facts: Facts) -> Mapping[str, tuple[str, ...]] | None:
    """Return the tags of a VM by field; None where they were not read."""
    attached = facts.get(ATTACHED)
    return None if attached is None else {f"{OF_CATEGORY}{name}": names for name, names in attached.items()}


def settled_tags(said: VmSetFields, now: VmSetFields | None) -> dict[str, object]:
    """Return the field `tags` in full, as far as the play sets it; `now` is None for a new VM, which has none."""
    if said.tags is None:
        return {}
    have = (now.tags if now is not None else None) or {}
    wanted = {f"{OF_CATEGORY}{name}": names for name, names in said.tags.items()}
    return {"tags": {field: names for field, names in wanted.items() if names or field in have}}


def tag_problems(said: VmSetFields, estate: Estate) -> Iterator[MemberFault]:
    """Yield the tags that cannot be attached to a VM: not there, not for VMs, or several where one is allowed."""
    if not said.tags:
        return
    service = next(estate.of_type(TAG_SERVICE), None)
    if service is None:
        yield MemberFault("tags-unknown", "the tags of this vCenter were not read", "grant read rights on tags")
        return
    known: Mapping[str, TagCategory | None] = service.get(CATEGORIES) or {}
    for name, tags in said.tags.items():
        category = known.get(name)
        if category is None:
            near = suggest(name, known, "there is")
            what = f"there is no category of tags '{name}', or the account may not read it"
            yield MemberFault("no-tag-category", what, "; ".join(filter(None, (f"make it {IN_CLIENT}", near))))
            continue
        yield from _of_category(name, category, tags)


def _of_category(name: str, category: TagCategory, tags: tuple[str, ...]) -> Iterator[MemberFault]:
    if tags and not category.is_for_vms:
        what = f"tags of the category '{name}' are not for virtual machines, but for {', '.join(category.types)}"
        yield MemberFault("tag-types", what, f"add virtual machines to the category {IN_CLIENT}")
    if len(tags) > 1 and category.single:
        what = f"an object has one tag of the category '{name}' at most; the play has {', '.join(tags)}"
        yield MemberFault("one-tag", what, "name one of them, or allow several in the category")
    for tag in tags:
        if tag not in category.tags:
            near = suggest(tag, category.tags, "there is")
            what = f"the category '{name}' has no tag '{tag}'"
            yield MemberFault("no-tag", what, "; ".join(filter(None, (f"make it {IN_CLIENT}", near))))


def tag_steps(wanted: VmSetFields, change: Change) -> Iterator[SetTags]:
    """Yield one step for the tags of all categories that differ."""
    fields = {f.name: f for f in change.fields if f.name.startswith(OF_CATEGORY)}
    if not fields:
        return
    own = {field.removeprefix(OF_CATEGORY): names for field, names in (wanted.tags or {}).items() if field in fields}
    before = (change.before.tags if change.before is not None else None) or {}
    was = {field.removeprefix(OF_CATEGORY): names for field, names in before.items() if field in fields}
    words = "; ".join(f"{name}: {', '.join(names) or 'none'}" for name, names in own.items())
    yield SetTags(target=change.target, kinds=(change.kind,), tags=own, before=was, summary=f"set tags ({words})")
