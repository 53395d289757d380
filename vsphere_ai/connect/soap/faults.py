"""Faults of the vSphere API as errors an operator can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.errors import ConcurrentChange, Denied, VimFault, VsphereAiError
from vsphere_ai.model.plain import PlainObject, objects
from vsphere_ai.security.redaction import untrusted

_REMEDIES = {
    "TaskInProgress": "Wait until the other task has ended, then run again.",
    "InvalidPowerState": "Look at the power state in the vSphere Client, then plan again.",
    "MethodNotFound": "This vCenter is too old for it.",
    "HostNotConnected": "Connect the host in the vSphere Client, then run again.",
    "InsufficientGraphicsResourcesFault": "Look at the GPUs' free capacity with `vsphere-ai capacity`.",
    "ToolsUnavailable": "VMware Tools do not run in the guest.",
}


_INVENTORY = frozenset({
    "VirtualMachine", "HostSystem", "ClusterComputeResource", "ComputeResource", "ResourcePool", "VirtualApp", "Folder",
    "Datacenter", "Datastore", "StoragePod", "Network", "OpaqueNetwork", "DistributedVirtualPortgroup",
    "DistributedVirtualSwitch", "VmwareDistributedVirtualSwitch", "VirtualMachineSnapshot",
})  # fmt: skip
_OF_A_SESSION = frozenset({
    "PropertyCollector", "PropertyFilter", "ContainerView", "ListView", "InventoryView", "TaskHistoryCollector",
    "EventHistoryCollector", "HttpNfcLease",
})  # fmt: skip
"""Types of objects that end with the session that made them."""


def _not_found(detail: PlainObject) -> str:
    """Return what explains that an object is not there, by the type of the object that was looked at."""
    ref = untrusted(str(detail.get("obj") or ""))
    kind = ref.partition(":")[0]
    if kind == "Task":
        # vCenter drops tasks some minutes after they end, and all of them when it restarts (unverified: the time)
        return "vCenter keeps no record of this task any more. See in the vSphere Client whether it took effect."
    if kind in _OF_A_SESSION:
        return f"{ref} belongs to a session that has ended. Run the command again."
    if kind in _INVENTORY:
        return f"{ref} was removed, or the account may not see it. Look in the vSphere Client, then run it again."
    if kind:
        return f"This server refers to {ref} and does not have it: a service that it does not offer, or lost for now."
    return "The server does not say which object it did not find. Look in the vSphere Client at what is named above."


_REASON_FIELDS = ("name", "property", "invalidProperty", "privilegeId", "reason", "existingState")
"""Fields of faults that say what is wrong, where the server sends no text."""


def text_of(detail: PlainObject) -> str:
    """Return everything a fault says: its own text, the messages behind it, and its cause's."""
    return untrusted("; ".join(dict.fromkeys(_lines(detail))))


def type_of(detail: PlainObject) -> str:
    """Return the fault's type, with what says most about it when there is no text."""
    name = str(detail.get("_typeName", "fault"))
    extra = [str(detail[key]) for key in _REASON_FIELDS if detail.get(key)]
    return f"{name} ({untrusted(', '.join(extra))})" if extra else name


def _lines(detail: PlainObject, depth: int = 0) -> Iterator[str]:
    own = str(detail.get("msg", "")).strip()
    # VMware's simulator and some servers put a Go or Java type there, which says less than the fault's own name.
    yield type_of(detail) if not own or own.startswith("*types.") else own
    for message in objects(detail.get("faultMessage")):
        text = str(message.get("message", "") or message.get("key", "")).strip()
        if text:
            yield text
    cause = detail.get("faultCause")
    if isinstance(cause, Mapping) and depth < 8:
        yield from _lines(cause, depth + 1)


def error_of(detail: PlainObject, doing: str) -> VsphereAiError:
    """Return the error for the fields of a fault raised by a call or found in a task; `doing` says what was tried."""
    name = str(detail["_typeName"])
    said = text_of(detail)
    if name == "InvalidLogin":
        return Denied(
            f"{doing}: user name or password is wrong", "Correct them in the inventory; it is not tried again."
        )
    if name in ("NoPermission", "NotAuthenticated"):
        privilege = detail.get("privilegeId")
        need = f"The account needs the privilege {privilege}" if privilege else "The account lacks a privilege"
        return Denied(f"{doing}: {said}", f"{need} on {detail.get('object', 'the object')}.")
    if name == "ConcurrentAccess":
        return ConcurrentChange(
            f"{doing}: another user has changed it since planning", "Plan again and look at the difference."
        )
    remedy = _not_found(detail) if name == "ManagedObjectNotFound" else _REMEDIES.get(name, "")
    return VimFault(f"{doing}: {said}", remedy, detail)
