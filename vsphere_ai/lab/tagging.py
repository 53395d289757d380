"""vSphere tags of the lab: categories, tags, the objects that they are attached to, and sessions of their API."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from vsphere_ai.lab.scenario import TagCategory
from vsphere_ai.lab.sessions import LabSession
from vsphere_ai.lab.store import ManagedObject, Store


@dataclass
class Tagging:
    """Tags by id with category and name, categories by id, and the objects that each tag is attached to."""

    store: Store
    categories: dict[str, str] = field(default_factory=dict)
    tags: dict[str, tuple[str, str]] = field(default_factory=dict)
    attached: dict[str, list[ManagedObject]] = field(default_factory=dict)
    sessions: dict[str, LabSession] = field(default_factory=dict)
    limits: dict[str, TagCategory] = field(default_factory=dict)
    """Categories, by id, that are not as usual."""

    def limit(self, category: TagCategory) -> None:
        """Make a category that allows one tag on an object, or tags on some types only."""
        of = _id("Category", category.name)
        self.categories[of] = category.name
        self.limits[of] = category

    def add(self, name: str) -> str:
        """Return the id of the tag ``Category/name``, made where it is not there."""
        category, _, tag = name.partition("/")
        of = _id("Category", category)
        self.categories[of] = category
        self.tags[_id("Tag", name)] = of, tag
        return _id("Tag", name)

    def attach(self, name: str, mo: ManagedObject) -> None:
        """Attach a tag to an object."""
        self.attached.setdefault(self.add(name), []).append(mo)

    def of_object(self, mo: ManagedObject) -> list[str]:
        """Return the ids of the tags that are attached to an object."""
        return [tag for tag, objects in self.attached.items() if mo in objects]

    def why_not(self, tag: str, mo: ManagedObject) -> str:
        """Return why a tag cannot be attached to an object; empty where it can."""
        limit = self.limits.get(self.tags[tag][0])
        if limit is not None and limit.types and mo.type_name not in limit.types:
            return f"Tags of the category {limit.name} cannot be attached to an object of the type {mo.type_name}."
        others = [t for t in self.of_object(mo) if t != tag and self.tags[t][0] == self.tags[tag][0]]
        if limit is not None and limit.single and others:
            return f"Only one tag of the category {limit.name} can be attached to an object."
        return ""

    def objects(self, tag: str) -> list[dict[str, str]]:
        """Return the objects that a tag is attached to, as the API shows them."""
        there = (mo for mo in self.attached.get(tag, ()) if mo.moid in self.store.objects)
        return [{"type": mo.type_name, "id": mo.moid} for mo in there]


def _id(kind: str, name: str) -> str:
    return f"urn:vmomi:InventoryService{kind}:{uuid.uuid5(uuid.NAMESPACE_DNS, name)}:GLOBAL"
