"""Notes, custom attributes and CD drives of the VMs of a set: what is read, why it cannot be set, and what sets it.

Sources: vSphere Web Services API reference, VirtualMachineConfigSpec.annotation, ExtensibleManagedObject.setCustomValue
and CustomFieldDef.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.fabric import drives
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.plain import Plain, PlainObject
from vsphere_ai.model.state import Change
from vsphere_ai.model.steps import DeviceChange, Step
from vsphere_ai.model.vm_sets import MemberFault
from vsphere_ai.resources._helpers.factories import invoke
from vsphere_ai.resources._helpers.vm_devices import device_change
from vsphere_ai.resources.vm_set.settings import VmSetFields
from vsphere_ai.resources.vm_set.tags import settled_tags, tag_problems

NOTES, ATTRIBUTES, DEVICES = "config.annotation", "customValue", "config.hardware.device"
DEFINITIONS, DEFINED = "CustomFieldsManager", "field"
ATTRIBUTE = "attribute "
"""Begins the name of the field that a plan shows for a custom attribute: NICs have fields of their own names."""
OWN = "vsphere-ai"
"""Begins the custom attributes in which this tool keeps addresses and locks."""
NONE = "none"


def attributes_of(facts: Facts, estate: Estate) -> Mapping[str, str] | None:
    """Return the values of a VM's custom attributes, by field; None where the names of attributes were not read."""
    names = _defined(estate)
    if names is None:
        return None
    values = ((names.get(int(v["key"])), str(v.get("value") or "")) for v in facts.get(ATTRIBUTES) or ())
    return {f"{ATTRIBUTE}{name}": value for name, value in values if name and value}


def media_of(facts: Facts) -> str | None:
    """Return what is in the CD drives of a VM: ``none``, or paths and devices; None where devices were not read."""
    devices = facts.get(DEVICES)
    if devices is None:
        return None
    return ", ".join(str(drives.content(d)) for d in _loaded(devices)) or NONE


def settled_details(said: VmSetFields, now: VmSetFields | None) -> dict[str, object]:
    """Return the fields of these settings in full, as far as the play sets them; `now` is None for a new VM."""
    if said.custom_attributes is None:
        return settled_tags(said, now)
    have = (now.custom_attributes if now is not None else None) or {}
    wanted = {f"{ATTRIBUTE}{name}": value for name, value in said.custom_attributes.items()}
    attributes = {name: value for name, value in wanted.items() if value or name in have}
    return {"custom_attributes": attributes, **settled_tags(said, now)}


def details_of_new(facts: Facts, said: VmSetFields) -> Facts:
    """Return a new VM with these settings as its clone brings them."""
    found: dict[str, Plain] = {} if said.notes is None else {NOTES: said.notes}
    devices = facts.get(DEVICES)
    if said.cdrom is not None and devices is not None:
        loaded = {str(d["key"]): drives.emptied(d) for d in _loaded(devices)}
        found[DEVICES] = tuple({**d, **loaded.get(str(d["key"]), {})} for d in devices)
    return facts.having(found) if found else facts


def detail_problems(said: VmSetFields, estate: Estate) -> Iterator[MemberFault]:
    """Yield tags that cannot be attached, and custom attributes not defined in vCenter for VMs, or this tool's own."""
    yield from tag_problems(said, estate)
    if not said.custom_attributes:
        return
    names = _defined(estate)
    if names is None:
        yield MemberFault(
            "attributes-unknown", "the custom attributes of this vCenter cannot be read", "grant System.Read on it"
        )
        return
    theirs = [name for name in names.values() if not name.startswith(OWN)]
    for name in said.custom_attributes:
        if name.startswith(OWN):
            words = f"the custom attribute '{name}' belongs to vsphere-ai"
            yield MemberFault("attribute-owned", words, "choose another name: it holds addresses and locks")
        elif name not in theirs:
            define = "define it in the vSphere Client: Tags & Custom Attributes, Custom Attributes, Add"
            known = suggest(name, theirs, "there is")
            words = f"there is no custom attribute '{name}' for virtual machines"
            yield MemberFault("no-attribute", words, f"{define}; {known}" if known else define)


def config_of(said: VmSetFields) -> dict[str, object]:
    """Return the fields of a clone's ConfigSpec."""
    return {} if said.notes is None else {"annotation": said.notes}


def drive_changes(said: VmSetFields, facts: Facts | None) -> Iterator[DeviceChange]:
    """Yield the changes that take out what is in the CD drives of a VM, or of the source of a clone."""
    if said.cdrom is not None and facts is not None:
        for device in _loaded(facts.get(DEVICES) or ()):
            yield device_change("edit", drives.emptied(device))


def attribute_steps(wanted: VmSetFields, change: Change) -> Iterator[Step]:
    """Yield one call for each custom attribute that differs; vCenter takes them one by one."""
    changed = {field.name for field in change.fields}
    for field, value in (wanted.custom_attributes or {}).items():
        if field in changed:
            name = field.removeprefix(ATTRIBUTE)
            words = f"set the custom attribute {name}" if value else f"clear the custom attribute {name}"
            args = {"key": name, "value": value}
            yield invoke(change, "", "setCustomValue", args, words)


def _loaded(devices: Sequence[PlainObject]) -> list[PlainObject]:
    return [d for d in devices if d.get("_typeName") == drives.CDROM and not drives.is_empty(d)]


def _defined(estate: Estate) -> Mapping[int, str] | None:
    """Return the names of the custom attributes for VMs by their keys; None where they were not read."""
    manager = next(estate.of_type(DEFINITIONS), None)
    if manager is None or DEFINED in manager.unreadable:
        return None
    kinds = (None, "", "VirtualMachine", "vim.VirtualMachine")
    fields = [f for f in manager.get(DEFINED) or () if f.get("managedObjectType") in kinds]
    return {int(f["key"]): str(f["name"]) for f in fields}
