"""Records in vCenter of what runs have out of service: one text per run, kept beside the lock.

The record of a run is the folder ``out RUN`` in the folder of the lock (`vcenter_lock.HOME`); its text is the value of
the custom attribute `ATTRIBUTE` of that folder, so that one `SetField` replaces it as a whole. A text that vCenter does
not keep in one value goes into folders inside that one, in parts, and counts from the moment in which the value says
so. No limit of the length of such a value is documented (unverified): the first value is read back.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vsphere_ai.connect.vcenter_lock import (
    HOME,
    child_of,
    children_of,
    create_folder,
    destroy_folder,
    home_of,
    root_of,
)
from vsphere_ai.errors import OutcomeUnknown, StepFailed, Storage, VimFault, VsphereAiError
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.plain import PlainObject
from vsphere_ai.model.plain import objects as plain_objects

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

ATTRIBUTE = "vsphere-ai out of service"
PREFIX = "out "
SIZES = (4_000, 250)
"""Characters of a value, or of a part of one: the first length that vCenter keeps is taken."""
FILLING = "."
"""What a value is filled up with: once the first is kept, none that follows is longer."""
MOST_PARTS = 100
LONGEST = 4 << 20
"""Bytes of a text: a larger one was not written by this program."""
_LEGAL = "give the account System.View, Folder.Create and Global.SetCustomField on the folder of the lock"
_PARTS = re.compile(r"parts (\d{1,9}) (\d{1,4}) ([0-9a-f]{32})")
_VALUES = ("name", "availableField", "customValue")


@dataclass(frozen=True)
class StoredRecord:
    """The record of a run: reference of its folder, and its text; `damage` says why there is none that can be read."""

    ref: str
    run: str
    text: str = ""
    damage: str = ""


class OutRecord:
    """The record of one run in one vCenter; used by one thread at a time. `home`: reference of `HOME`, where known."""

    def __init__(self, vcenter: VCenter, run: str, home: str = "") -> None:
        self.vcenter, self.run, self._home = vcenter, run, home
        self._ref = ""
        self._key = 0
        self._kept, self._size, self._serial = 0, 0, 0

    def write(self, text: str) -> None:
        """Replace the text; it is in vCenter when this returns. Raises `Storage`: then nothing may be done."""
        try:
            self._write(base64.b64encode(zlib.compress(text.encode(), 9)).decode())
        except (VimFault, OutcomeUnknown, StepFailed) as error:
            self._ref = ""
            raise Storage(
                f"what run {self.run} puts out of service cannot be written in vCenter: {error.message}",
                f"{error.remedy.rstrip('.')}; look at the folder '{PREFIX}{self.run}' in '{HOME}'",
                rule="out-record.not-written",
            ) from error

    def remove(self) -> bool:
        """Destroy the record; False when there was none."""
        ref = self._ref or self._look()
        if not ref:
            return False
        self._ref = ""
        return remove_record(self.vcenter, ref, self.run)

    def _look(self) -> str:
        home = child_of(self.vcenter, root_of(self.vcenter), HOME)
        return (child_of(self.vcenter, home, f"{PREFIX}{self.run}") if home else None) or ""

    def _write(self, packed: str) -> None:
        if not self._ref:
            self._adopt()
        for number in range(self._size, len(SIZES)):
            self._size, size, serial = number, SIZES[number], 0
            if len(packed) <= size and not number:
                written = self._set(self._ref, packed.ljust(size, FILLING))
            else:
                serial = self._serial = self._serial + 1
                written = self._write_parts([packed[at : at + size] for at in range(0, len(packed), size)], packed)
            if written:
                return self._drop_parts(serial)
        text = f"vCenter does not keep the {len(packed)} characters of it, nor in {MOST_PARTS} parts"
        raise StepFailed(text, "take fewer hosts and VMs at a time: --parallel, rolling: {max_unavailable: 1}")

    def _adopt(self) -> None:
        """Find the folder or make it; what is in it already shows how long a value vCenter keeps."""
        self._ref = folder_in(self.vcenter, self._home or home_of(self.vcenter), f"{PREFIX}{self.run}")
        self._key, facts = defined(self.vcenter, self._ref)
        value, parts = _value(facts), [str(ref) for ref in facts.get("childEntity") or ()]
        self._kept, self._size = len(value), int(bool(parts) and len(value) < SIZES[0])
        names = self.vcenter.read_objects(parts, {"Folder": ("name",)}) if parts else {}
        self._serial = max((_serial_of(each.name) for each in names.values()), default=0)

    def _write_parts(self, parts: list[str], packed: str) -> bool:
        """Write the parts, then what counts them; False when vCenter does not keep one, or they are too many."""
        if len(parts) > MOST_PARTS:
            return False
        for number, part in enumerate(parts, 1):
            ref = folder_in(self.vcenter, self._ref, f"{self._serial}.{number}")
            if not self._set(ref, part):
                return False
        return self._set(self._ref, f"parts {self._serial} {len(parts)} {_digest(packed)}")

    def _drop_parts(self, serial: int) -> None:
        """Destroy parts to which nothing leads any more; there are none of a record that was always whole."""
        if not self._serial:
            return
        for ref, facts in children_of(self.vcenter, self._ref).items():
            if ref.startswith("Folder:") and _serial_of(facts.name) != serial:
                destroy_folder(self.vcenter, ref, facts.name)
        self._serial = serial

    def _set(self, ref: str, value: str) -> bool:
        """Set the attribute of a folder; False when vCenter does not keep so long a value."""
        try:
            # no other run writes this value: to set it twice is to set it
            arguments: PlainObject = {"entity": ref, "key": self._key, "value": value}
            self.vcenter.call(_manager(self.vcenter), "SetField", arguments, repeatable=True)
        except VimFault as error:
            if error.fault in ("InvalidArgument", "SystemError") and len(value) > self._kept:
                return False
            raise
        if len(value) <= self._kept:
            return True
        if _value(self.vcenter.read_objects([ref], {"Folder": _VALUES}).get(ref)) != value:
            return False
        self._kept = len(value)
        return True


def remove_record(vcenter: VCenter, ref: str, run: str) -> bool:
    """Destroy a record by its reference; False when it was gone."""
    return destroy_folder(vcenter, ref, f"{PREFIX}{run}")


def read_records(vcenter: VCenter) -> tuple[StoredRecord, ...]:
    """Return the record of every run that has one, the oldest run first."""
    home = child_of(vcenter, root_of(vcenter), HOME)
    if home is None:
        return ()
    refs = [ref for ref, facts in children_of(vcenter, home).items() if facts.name.startswith(PREFIX)]
    return read_those(vcenter, refs)


def home_among(objects: Mapping[str, Facts], root: str) -> str:
    """Return the reference of `HOME` among objects of which name and parent were read; "" where it is not there."""
    own = (f.ref for f in objects.values() if f.ref.startswith("Folder:") and f.get("name") == HOME)
    return next((ref for ref in own if objects[ref].get("parent") == root), "")


def among(objects: Mapping[str, Facts]) -> tuple[str, ...]:
    """Return the references of records among objects of which name and parent were read, all folders included."""
    folders = {f.ref: f for f in objects.values() if f.ref.startswith("Folder:")}
    homes = {ref for ref, facts in folders.items() if facts.get("name") == HOME}
    return tuple(
        ref
        for ref, facts in folders.items()
        if facts.get("parent") in homes and str(facts.get("name", "")).startswith(PREFIX)
    )


def read_those(vcenter: VCenter, refs: tuple[str, ...] | list[str]) -> tuple[StoredRecord, ...]:
    """Return the records of these folders; one that is gone by now is left out."""
    found = vcenter.read_objects(list(refs), {"Folder": (*_VALUES, "childEntity")}) if refs else {}
    return tuple(sorted((_stored(vcenter, facts) for facts in found.values()), key=lambda each: each.run))


def is_defined(vcenter: VCenter) -> bool:
    """Return whether the custom attribute is defined for folders."""
    root = root_of(vcenter)
    return _key_of(vcenter.read_objects([root], {"Folder": _VALUES}).get(root)) is not None


def folder_in(vcenter: VCenter, parent: str, name: str) -> str:
    """Return a folder of this name, which is made where it is not there."""
    for _ in range(2):
        try:
            return create_folder(vcenter, parent, name)
        except (FileExistsError, OutcomeUnknown):
            found = child_of(vcenter, parent, name)
            if found is not None:
                return found
    raise StepFailed(f"the folder '{name}' can neither be created nor seen", _LEGAL)


def defined(vcenter: VCenter, ref: str) -> tuple[int, Facts]:
    """Return the key of the custom attribute, which is defined where it is not, and what a folder has by now."""
    for left in (2, 1, 0):
        facts = vcenter.read_objects([ref], {"Folder": (*_VALUES, "childEntity")}).get(ref)
        key = _key_of(facts)
        if key is not None and facts is not None:
            return key, facts
        if not left:
            break
        try:
            vcenter.call(_manager(vcenter), "AddCustomFieldDef", {"name": ATTRIBUTE, "moType": "Folder"})
        except OutcomeUnknown:
            pass
        except VimFault as error:
            if error.fault != "DuplicateName":
                raise
    raise StepFailed(f"the custom attribute '{ATTRIBUTE}' of folders was defined and cannot be seen", _LEGAL)


def _stored(vcenter: VCenter, facts: Facts) -> StoredRecord:
    run = str(facts.name).removeprefix(PREFIX)
    try:
        return StoredRecord(facts.ref, run, _text(vcenter, facts))
    except (ValueError, zlib.error) as error:
        return StoredRecord(facts.ref, run, damage=str(error))
    except VsphereAiError as error:
        return StoredRecord(facts.ref, run, damage=error.message)


def _text(vcenter: VCenter, facts: Facts) -> str:
    """Return the text of a record; empty where its run had not come as far as to write one."""
    if facts.unreadable:
        raise ValueError("; ".join(f"{path}: {why}" for path, why in facts.unreadable.items()))
    packed = _value(facts)
    if not packed:
        if facts.get("childEntity"):
            raise ValueError("it has parts, and no value that counts them")
        return ""
    parts = _PARTS.fullmatch(packed)
    if parts is not None:
        packed = "".join(_parts(vcenter, facts, parts[1], int(parts[2])))
        if _digest(packed) != parts[3]:
            raise ValueError("the digest of its parts does not fit")
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(base64.b64decode(packed.rstrip(FILLING), validate=True), LONGEST).decode()
    if not unpacker.eof:
        raise ValueError("it is cut off, or longer than any that this program writes")
    return text


def _parts(vcenter: VCenter, facts: Facts, serial: str, count: int) -> list[str]:
    refs = [str(ref) for ref in facts.get("childEntity") or ()]
    found = vcenter.read_objects(refs, {"Folder": _VALUES}) if refs else {}
    named = {each.name: _value(each) for each in found.values()}
    return [named.get(f"{serial}.{number}", "") for number in range(1, count + 1)]


def _value(facts: Facts | None) -> str:
    key = _key_of(facts)
    values = (
        {int(str(v["key"])): str(v.get("value", "")) for v in plain_objects(facts.get("customValue"))} if facts else {}
    )
    return values.get(key, "") if key is not None else ""


def _key_of(facts: Facts | None) -> int | None:
    fields = plain_objects(facts.get("availableField")) if facts else ()
    return next((int(str(f["key"])) for f in fields if f["name"] == ATTRIBUTE), None)


def _serial_of(name: str) -> int:
    serial = name.partition(".")[0]
    return int(serial) if serial.isdecimal() else 0


def _manager(vcenter: VCenter) -> str:
    found = vcenter.service("customFieldsManager")
    if found is None:
        raise StepFailed(
            f"{vcenter.name} has no custom attributes", "check that this is a vCenter Server, no ESXi host"
        )
    return found


def _digest(packed: str) -> str:
    return hashlib.sha256(packed.encode()).hexdigest()[:32]
