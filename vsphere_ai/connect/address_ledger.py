"""Address ledger in vCenter: one text in custom attributes of the root folder, changed only under the vCenter lock.

The attribute `HEAD` says which text counts: its serial number, its bank, its number of parts and their digest. The
parts of a text are the attributes ``HEAD a1``, ``a2``, … or ``HEAD b1``, …: a new text goes into the bank that does not
count, is read back, and counts from the moment in which the head is written. So a change is one write, and a process
that dies before it has changed nothing. No limit of the length of such a value is documented (unverified): a text that
does not come back as it was written is written again in shorter parts, see `SIZES`.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.connect.vcenter_lock import VCenterLock
from vsphere_ai.errors import Conflict, Denied, Locked, NotVerified, OutcomeUnknown, StepFailed, Unreachable, VimFault
from vsphere_ai.model.plain import objects

HEAD = "vsphere-ai addresses"
PRIVILEGES = ("Global.ManageCustomFields", "Global.SetCustomField")
"""On the root folder: the first only until the attributes exist."""
SIZES = (32_000, 4_000, 250)
"""Characters of a part: the first length that vCenter keeps is taken."""
MOST_PARTS = 200
LONGEST = 16 << 20
"""Bytes of a text: a larger one was not written by this program."""
_FORM = re.compile(r"1 (\d{1,12}) ([ab]) (\d{1,4}) ([0-9a-f]{32})")
_RESTORE = "restore the custom attributes of the root folder from a backup of vCenter"
_LEGAL = "give the account the privilege, or let an administrator define the custom attributes"


@dataclass(frozen=True)
class StoredText:
    """A text as vCenter keeps it; `head` is the value that makes it count, both empty before the first one."""

    text: str = ""
    head: str = ""


@dataclass(frozen=True)
class _Seen:
    """The custom attributes of the root folder: their keys and values by name."""

    root: str
    keys: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        return self.values.get(HEAD, "")

    def parts(self, bank: str, count: int) -> list[str]:
        return [self.values.get(_name(bank, number), "") for number in range(1, count + 1)]


def read_text(vcenter: VCenter) -> StoredText:
    """Return the text that counts. `Conflict` when it is damaged, `Denied` when the account cannot read it."""
    return _stored(_look(vcenter))


def write_text(lock: VCenterLock, before: StoredText, text: str) -> StoredText:
    """Replace the text that was read as `before`, and return the new one as it was read back.

    `Locked` when the lock is not held any more, `Conflict` when the text was changed since it was read,
    `OutcomeUnknown` when it cannot be said whether the new text counts: read it then.
    """
    vcenter = lock.vcenter
    _require(lock)
    seen = _look(vcenter)
    if seen.head != before.head:
        raise _changed()
    if before.head and text == before.text:
        return before
    serial, bank = _next(seen.head)
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    count = _write_parts(vcenter, seen, bank, packed)
    _require(lock)
    head = f"1 {serial} {bank} {count} {_digest(packed)}"
    seen = _defined(vcenter, seen, HEAD)
    _set(vcenter, seen, HEAD, head)
    try:
        after = _look(vcenter)
    except Unreachable as error:
        raise OutcomeUnknown(
            f"the new leases were sent: {error.message}", "plan again", rule="leases.unknown"
        ) from error
    if after.head == seen.head:
        text = "the new leases were sent, and vCenter does not show them"
        raise OutcomeUnknown(text, "plan again", rule="leases.unknown")
    if after.head != head:
        raise _changed()
    return _stored(after)


def _stored(seen: _Seen) -> StoredText:
    if not seen.head:
        return StoredText()
    found = _FORM.fullmatch(seen.head)
    if found is None:
        raise _damaged(f"'{HEAD}' has a value that this release does not know")
    packed = "".join(seen.parts(found[2], int(found[3])))
    if _digest(packed) != found[4]:
        raise _damaged("the digest does not fit")
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(base64.b64decode(packed, validate=True), LONGEST).decode()
    except (ValueError, zlib.error) as error:
        raise _damaged(str(error)) from None
    if not unpacker.eof:
        raise _damaged("it is longer than any that this program writes")
    return StoredText(text, seen.head)


def _next(head: str) -> tuple[int, str]:
    """Return the serial number of the next text, and the bank that does not count now."""
    found = _FORM.fullmatch(head)
    return (int(found[1]) + 1, "b" if found[2] == "a" else "a") if found else (1, "a")


def _write_parts(vcenter: VCenter, seen: _Seen, bank: str, packed: str) -> int:
    """Write a text into a bank, in the longest parts that vCenter keeps; return how many they are."""
    for size in SIZES:
        parts = [packed[at : at + size] for at in range(0, len(packed), size)]
        if len(parts) > MOST_PARTS:
            break
        present = seen.parts(bank, len(parts))
        try:
            for number, (part, old) in enumerate(zip(parts, present, strict=True), 1):
                if part != old:
                    name = _name(bank, number)
                    seen = _defined(vcenter, seen, name)
                    _set(vcenter, seen, name, part)
        except VimFault as error:
            if error.fault not in ("InvalidArgument", "SystemError"):
                raise
        again = _look(vcenter)
        if again.head != seen.head:
            raise _changed()
        if again.parts(bank, len(parts)) == parts:
            return len(parts)
        seen = again
    raise NotVerified(
        f"vCenter does not keep the {len(packed)} characters of the leases, nor in {MOST_PARTS} parts",
        "look at the custom attributes of the root folder",
        rule="leases.too-long",
    )


def _set(vcenter: VCenter, seen: _Seen, name: str, value: str) -> None:
    """Set an attribute, and again where the answer is lost; whether it is set is read afterwards."""
    for _ in range(2):
        try:
            vcenter.call(_manager(vcenter), "SetField", {"entity": seen.root, "key": seen.keys[name], "value": value})
        except OutcomeUnknown:
            continue
        return


def _defined(vcenter: VCenter, seen: _Seen, name: str) -> _Seen:
    """Return the attributes with a definition of one, which is made where it is missing; again, if that was lost."""
    for _ in range(2):
        if name in seen.keys:
            return seen
        try:
            vcenter.call(_manager(vcenter), "AddCustomFieldDef", {"name": name, "moType": "Folder"})
        except OutcomeUnknown:
            pass
        except VimFault as error:
            if error.fault != "DuplicateName":
                raise
        seen = _look(vcenter)
    if name not in seen.keys:
        raise StepFailed(f"the custom attribute '{name}' of folders was defined and cannot be seen", _LEGAL)
    return seen


def _look(vcenter: VCenter) -> _Seen:
    root = str(vcenter.service("rootFolder"))
    facts = vcenter.read_objects([root], {"Folder": ("availableField", "customValue")}).get(root)
    if facts is None or facts.unreadable:
        why = "; ".join(f"{p}: {w}" for p, w in facts.unreadable.items()) if facts else "it cannot be seen"
        raise Denied(f"custom attributes of the root folder: {why}", "give the account System.View on the root folder")
    names = {int(str(f["key"])): str(f["name"]) for f in objects(facts.get("availableField"))}
    values = {int(str(v["key"])): str(v.get("value", "")) for v in objects(facts.get("customValue"))}
    keys = {name: key for key, name in names.items() if name == HEAD or name.startswith(f"{HEAD} ")}
    return _Seen(root, keys, {name: values[key] for name, key in keys.items() if key in values})


def _require(lock: VCenterLock) -> None:
    """Raise `Locked` unless the lock is there and has not expired."""
    vcenter = lock.vcenter
    if vcenter.now() >= lock.expires or not vcenter.read_objects([lock.ref], {"Folder": ("name",)}):
        raise Locked("the lock in vCenter was lost, so the leases are not changed", "plan again", rule="lock.lost")


def _manager(vcenter: VCenter) -> str:
    found = vcenter.service("customFieldsManager")
    if found is None:
        text = f"{vcenter.name} has no custom attributes, which keep the leases of addresses"
        raise StepFailed(text, "check that this is a vCenter Server, and not an ESXi host")
    return found


def _name(bank: str, number: int) -> str:
    return f"{HEAD} {bank}{number}"


def _digest(packed: str) -> str:
    return hashlib.sha256(packed.encode()).hexdigest()[:32]


def _changed() -> Conflict:
    return Conflict("another run changed the leases since they were read", "plan again", rule="leases.changed")


def _damaged(why: str) -> Conflict:
    return Conflict(f"what vCenter keeps of the leases is damaged: {why}", _RESTORE, rule="leases.unreadable")
