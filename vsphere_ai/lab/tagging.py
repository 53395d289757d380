"""vSphere tags of the lab: categories, tags, the objects that they are attached to, and sessions of their API."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

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

    def objects(self, tag: str) -> list[dict[str, str]]:
        """Return the objects that a tag is attached to, as the API shows them."""
        there = (mo for mo in self.attached.get(tag, ()) if mo.moid in self.store.objects)
        return [{"type": mo.type_name, "id": mo.moid} for mo in there]


def _id(kind: str, name: str) -> str:
    return f"urn:vmomi:InventoryService{kind}:{uuid.uuid5(uuid.NAMESPACE_DNS, name)}:GLOBAL"
