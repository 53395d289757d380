"""Tags of objects: which ones of some categories are attached, and attaching and detaching them by name.

Sources: Broadcom's API reference, Cis Tagging Category and TagAssociation; no real vCenter was asked (unverified).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from vsphere_ai.connect.soap.tag_service import ATTACH, CATEGORIES, DETACH, OF_CATEGORY, TAGS, TagService
from vsphere_ai.errors import Conflict
from vsphere_ai.model.vm_tags import TagCategory

Table = Mapping[str, TagCategory | None]
"""Name of a category -> what it is; None for one that was not asked for."""
Names = Mapping[str, tuple[str, ...]]
"""Name of a category -> names of tags, sorted."""
Pair = tuple[str, str]
"""Names of a category and of a tag."""


def table_of(service: TagService, categories: Collection[str]) -> Table:
    """Return all categories by name, and of these the tags; categories that the account may not see are left out."""
    table: dict[str, TagCategory | None] = {}
    for identity in service.listed(CATEGORIES):
        category = service.described(CATEGORIES, identity)
        name = str(category.get("name") or "")
        if name:
            table[name] = _category(service, identity, category) if name in categories else None
    return table


def _category(service: TagService, identity: str, category: Mapping[str, object]) -> TagCategory:
    types: Any = category.get("associable_types") or ()
    if not isinstance(types, list | tuple):
        raise service.unparsed(f"{CATEGORIES} is not answered with associable types")
    tags = {service.name_of(TAGS, tag): tag for tag in service.listed(OF_CATEGORY, {"category_id": identity})}
    # a type may be written with a namespace: urn:vim25:VirtualMachine
    return TagCategory(
        id=identity,
        single=category.get("cardinality") == "SINGLE",
        types=tuple(sorted({str(each).rpartition(":")[2] for each in types})),
        tags={name: tag for name, tag in tags.items() if name},
    )


def attached_names(service: TagService, table: Table, refs: Sequence[str]) -> dict[str, Names]:
    """Return the tags of objects (references ``VirtualMachine:vm-1``), of each category that was asked for."""
    objects = [(kind, moid) for kind, _, moid in (ref.partition(":") for ref in refs)]
    ids = service.attached_to(objects) if objects else {}
    asked = {name: category for name, category in table.items() if category is not None}
    return {
        ref: {
            name: tuple(sorted(tag for tag, identity in category.tags.items() if identity in ids.get(moid, ())))
            for name, category in asked.items()
        }
        for ref, (_, moid) in zip(refs, objects, strict=True)
    }


def change(service: TagService, table: Table, ref: str, attach: Iterable[Pair], detach: Iterable[Pair]) -> None:
    """Detach tags, then attach others; `Conflict` where one of them is gone, before anything is sent.

    Tags are detached first, because a category may allow one tag on an object.
    """
    kind, _, moid = ref.partition(":")
    planned = [(DETACH, _id(table, *pair)) for pair in detach] + [(ATTACH, _id(table, *pair)) for pair in attach]
    for action, tag in planned:
        service.change(tag, action, kind, moid)


def _id(table: Table, category: str, name: str) -> str:
    known = table.get(category)
    if known is None or name not in known.tags:
        raise Conflict(f"there is no tag {category}/{name} any more", "plan again", rule="object.gone")
    return known.tags[name]
