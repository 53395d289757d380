"""Custom attributes: defined for all objects or for one type, and set on objects."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.refusals import invalid_argument, invalid_name, not_found
from vsphere_ai.lab.store import ManagedObject

LONGEST = 80


@changes(vim.CustomFieldsManager, "AddCustomFieldDef", "Global.ManageCustomFields")
def add(call: Call, name: str, moType: Any = None, **_policies: Any) -> Any:
    """Define a custom attribute; a name may be used once per type."""
    farm, defined = call.farm, list(call.mo["field"])
    if not name or len(name) > LONGEST:
        raise invalid_name(name)
    if any(f.name == name and (f.managedObjectType is moType or not f.managedObjectType) for f in defined):
        raise vim.fault.DuplicateName(name=name, object=call.mo.ref, msg=f"The name '{name}' already exists.")
    made = vim.CustomFieldsManager.FieldDef(
        key=100 + farm.store.next_id(), name=name, type=str, managedObjectType=moType
    )
    _show(farm, call.mo, [*defined, made])
    farm.ledger.record("vCenter", "AddCustomFieldDef", {"name": name}, channel="soap")
    return made


def put(farm: Farm, mo: ManagedObject, name: str, value: str) -> None:
    """Set a custom attribute of an object; it is defined for all objects where it is not there."""
    manager = farm.store.objects["CustomFieldsManager"]
    found = next((f for f in manager["field"] if f.name == name), None)
    if found is None:
        found = vim.CustomFieldsManager.FieldDef(key=100 + farm.store.next_id(), name=name, type=str)
        _show(farm, manager, [*manager["field"], found])
    _set(farm, mo, found.key, value)


@changes(vim.CustomFieldsManager, "RemoveCustomFieldDef", "Global.ManageCustomFields")
def remove(call: Call, key: int) -> None:
    """Take a definition away, with the values it has on objects."""
    farm, gone = call.farm, _definition(call.mo, key)
    for mo in farm.store.of(vim.ManagedEntity):
        if any(v.key == key for v in mo["customValue"] or ()):
            _put(farm, mo, [v for v in mo["customValue"] if v.key != key])
    _show(farm, call.mo, [f for f in call.mo["field"] if f is not gone])
    farm.ledger.record("vCenter", "RemoveCustomFieldDef", {"name": str(gone.name)}, channel="soap")


@changes(vim.CustomFieldsManager, "RenameCustomFieldDef", "Global.ManageCustomFields")
def rename(call: Call, key: int, name: str) -> None:
    """Give a definition another name."""
    found = _definition(call.mo, key)
    if not name or len(name) > LONGEST:
        raise invalid_name(name)
    if any(f.name == name and f is not found for f in call.mo["field"]):
        raise vim.fault.DuplicateName(name=name, object=call.mo.ref, msg=f"The name '{name}' already exists.")
    if found.name != name:
        found.name = name
        _show(call.farm, call.mo, list(call.mo["field"]))
        call.farm.ledger.record("vCenter", "RenameCustomFieldDef", {"name": name}, channel="soap")


@changes(vim.CustomFieldsManager, "SetField", "Global.SetCustomField")
def set_field(call: Call, entity: Any, key: int, value: str) -> None:
    """Set a custom attribute of an object; an empty value takes it away."""
    farm, mo = call.farm, call.farm.store.get(entity)
    kind = _definition(call.mo, key).managedObjectType
    if kind is not None and not isinstance(entity, kind):
        raise invalid_argument("key", f"the attribute is for {kind._wsdlName} only")
    _set(farm, mo, key, value)


@changes(vim.ManagedEntity, "setCustomValue", "Global.SetCustomField")
def set_custom_value(call: Call, key: str, value: str) -> None:
    """Set a custom attribute of an object by the attribute's name."""
    fields = call.farm.store.objects["CustomFieldsManager"]["field"]
    found = next((f for f in fields if f.name == key), None)
    if found is None:
        raise not_found(key)
    _set(call.farm, call.mo, found.key, value)


def _set(farm: Farm, mo: ManagedObject, key: int, value: str) -> None:
    present = {v.key: v.value for v in mo["customValue"] or ()}
    if present.get(key, "") == value:
        return
    kept = [v for v in mo["customValue"] or () if v.key != key]
    _put(farm, mo, [*kept, vim.CustomFieldsManager.StringValue(key=key, value=value)] if value else kept)
    farm.record(mo, "SetField", key=int(key), value=value)


def _put(farm: Farm, mo: ManagedObject, values: list[Any]) -> None:
    farm.store.set(mo, customValue=values, value=list(values))


def _definition(mo: ManagedObject, key: int) -> Any:
    found = next((f for f in mo["field"] if f.key == key), None)
    if found is None:
        raise not_found(f"the custom attribute {key}")
    return found


def offer(farm: Farm, mo: ManagedObject) -> None:
    """Show on an object which custom attributes can be set on it."""
    fields = farm.store.objects["CustomFieldsManager"]["field"]
    own = [f for f in fields if f.managedObjectType is None or isinstance(mo.ref, f.managedObjectType)]
    farm.store.set(mo, availableField=own)


def _show(farm: Farm, manager: ManagedObject, fields: list[Any]) -> None:
    farm.store.set(manager, field=fields)
    for mo in farm.store.of(vim.ManagedEntity):
        offer(farm, mo)
