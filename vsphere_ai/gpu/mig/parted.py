"""The configuration file of NVIDIA's mig-parted (``version: v1``): read with places for faults, and written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from vsphere_ai.gpu.mig.layout import MAX_ITEMS, LayoutError, LayoutItem, parse_item
from vsphere_ai.gpu.mig.parted_profile import is_part, read_profile

VERSION = "v1"
CONFIGS = "mig-configs"
"""The key that a document with configurations has, also inside of a ConfigMap or of Helm values."""
NVIDIA = 0x10DE
NO_DEVICE = (0, None)
"""What a filter is about that is no device id of NVIDIA: no GPU. mig-parted takes it for device 0 of vendor 0."""
ALL: Literal["all"] = "all"
_UNSIGNED = re.compile(
    r"0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0(?P<octal>(?:_?[0-7])+)|0|[1-9](?:_?[0-9])*", re.ASCII
)
_FIELDS = ("device-filter", "devices", "mig-enabled", "mig-devices")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")

Path = tuple[str | int, ...]


class RefuseAt(Protocol):
    """Notes a fault of the value at a path of the file (see `documents.Document.refuse`)."""

    def __call__(self, path: Path, message: str, help: str = "") -> None: ...  # noqa: D102


@dataclass(frozen=True)
class PartedEntry:
    """What some GPUs shall be like: `devices` None means all of them that have MIG.

    Without `device_ids` and `subsystems` those of any model; a subsystem is (PCI device id, subsystem id and vendor).
    """

    enabled: bool
    wanted: tuple[LayoutItem, ...] = ()
    devices: tuple[int, ...] | None = None
    device_ids: tuple[int, ...] = ()
    subsystems: tuple[tuple[int, int], ...] = ()

    def is_about(self, index: int | None, device_ids: Iterable[int], subsystem: int | None = None) -> bool:
        """Return whether it is about GPU number `index` (None: any number) of one of these PCI device ids.

        `subsystem` is the device's and its vendor's id as one number, such as 0x16c010de; None is any.
        """
        if not (self.devices is None or index is None or index in self.devices):
            return False
        ids = set(device_ids)
        exact = any(device in ids and subsystem in (None, own) for device, own in self.subsystems)
        return exact or not ids.isdisjoint(self.device_ids) or not (self.device_ids or self.subsystems)


Configs = Mapping[str, tuple[PartedEntry, ...]]


def _unnoted(path: Path, message: str, help: str = "") -> None:
    """Note nothing."""


def read(data: object, refuse: RefuseAt, note: RefuseAt = _unnoted, *, of_vms: bool = False) -> Configs:
    """Return the configurations of a file by name; every fault goes to `refuse`, what is faulty is left out.

    A fault is what mig-parted refuses. What it reads and surely takes for another thing than was meant goes to `note`.
    `of_vms`: compute instances are refused as well, since a VM gets a whole GPU instance. The values are those that a
    program in Go reads, such as True for ``yes``.
    """
    if not isinstance(data, Mapping):
        refuse((), "this is not a mig-parted configuration", "it starts with version: v1 and mig-configs:")
        return {}
    if CONFIGS not in data and data.get("version") != VERSION:
        named = f"; the ConfigMap that it names is {name}" if (name := _reference(data)) else ""
        help_ = "give the file that holds them: a configuration of mig-parted, its ConfigMap, or values of gpu-operator"
        refuse((), f"there are no configurations of mig-parted (mig-configs) in this file{named}", help_)
        return {}
    if data.get("version") != VERSION:
        refuse(("version",) if "version" in data else (), f"the version must be {VERSION}", f"write version: {VERSION}")
    for key in data:
        if key not in ("version", CONFIGS):
            refuse((key,), f"mig-parted knows no field {key!r}", "it knows version and mig-configs")
    if CONFIGS not in data:
        note((), "there is no configuration in this file", "add mig-configs: {NAME: [{devices: all, …}]}")
        return {}
    configs = data[CONFIGS]
    if not isinstance(configs, Mapping) or not configs:
        refuse((CONFIGS,), "mig-configs must hold at least one configuration", "NAME: [{devices: all, …}]")
        return {}
    reader = _EntryReader(refuse, note, of_vms)
    return {str(name): tuple(reader.entries((CONFIGS, name), listed)) for name, listed in configs.items()}


def _reference(data: Mapping[str, object]) -> str:
    """Return the ConfigMap that a ClusterPolicy or Helm values of gpu-operator name for mig-manager; empty for none."""
    at: object = data.get("spec", data)
    for step in ("migManager", "config", "name"):
        at = at.get(step) if isinstance(at, Mapping) else None
    return at if isinstance(at, str) else ""


def entry_for(
    entries: Sequence[PartedEntry], index: int | None, device_ids: Iterable[int], subsystem: int | None = None
) -> PartedEntry | None:
    """Return the entry that counts for a GPU: mig-parted applies them in order, so the last one does."""
    ids = tuple(device_ids)
    return next((e for e in reversed(entries) if e.is_about(index, ids, subsystem)), None)


def write(configs: Configs) -> str:
    """Return the text of a file with these configurations."""
    lines = [f"version: {VERSION}", "mig-configs:"]
    for name, entries in configs.items():
        lines.append(f"  {_scalar(name)}:")
        for entry in entries:
            lines += _written(entry)
    return "\n".join(lines) + "\n"


def together(gpus: Mapping[int, PartedEntry]) -> tuple[PartedEntry, ...]:
    """Return entries for GPUs by their number, those alike in one; a single entry for all when all of them are."""
    groups: dict[tuple[bool, tuple[LayoutItem, ...]], list[int]] = {}
    for index, gpu in gpus.items():
        groups.setdefault((gpu.enabled, tuple(sorted(gpu.wanted, key=str))), []).append(index)
    if len(groups) == 1 and set(gpus) == set(range(len(gpus))):
        ((enabled, wanted),) = groups
        return (PartedEntry(enabled, wanted),)
    return tuple(PartedEntry(enabled, wanted, tuple(numbers)) for (enabled, wanted), numbers in groups.items())


@dataclass(frozen=True)
class _EntryReader:
    """Reads entries as MigConfigSpec.UnmarshalJSON of mig-parted does (api/spec/v1/spec.go); null is 0, false or empty.

    Each part returns None where it is refused, which was noted then.
    """

    refuse: RefuseAt
    note: RefuseAt
    of_vms: bool

    def entries(self, path: Path, listed: object) -> Iterator[PartedEntry]:
        """Yield the entries of a configuration that are without a fault."""
        if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
            self.refuse(path, "a configuration is a list of at least one entry", "- {devices: all, mig-enabled: true}")
            return
        for at, entry in enumerate(listed):
            here = (*path, at)
            if not isinstance(entry, Mapping):
                help_ = f"an entry is a mapping; its fields are {', '.join(_FIELDS)}"
                self.refuse(here, f"{entry!r} is no entry", help_)
            elif (made := self._entry(here, entry)) is not None:
                yield made

    def _entry(self, here: Path, entry: Mapping[str, object]) -> PartedEntry | None:
        unknown = [key for key in entry if key not in _FIELDS]
        for key in unknown:
            self.refuse((*here, key), f"mig-parted knows no field {key!r}", f"the fields are {', '.join(_FIELDS)}")
        devices, filters = self._devices(here, entry), self._filters(here, entry)
        enabled, wanted = self._enabled(here, entry), self._wanted(here, entry)
        if unknown or devices is None or filters is None or enabled is None or wanted is None:
            return None
        if wanted and not enabled:
            help_ = "write mig-enabled: true, or leave them out"
            self.refuse((*here, "mig-devices"), "mig-devices are given although mig-enabled is false", help_)
            return None
        if enabled and entry.get("mig-devices") is None:
            self.refuse(here, "mig-devices is missing", "mig-devices: {} is MIG without instances")
            return None
        plain = tuple(device for device, subsystem in filters if subsystem is None)
        exact = tuple((device, subsystem) for device, subsystem in filters if subsystem is not None)
        return PartedEntry(enabled, wanted, None if devices == ALL else devices, plain, exact)

    def _enabled(self, here: Path, entry: Mapping[str, object]) -> bool | None:
        enabled = entry.get("mig-enabled")
        if enabled is None and "mig-enabled" in entry:
            self.note((*here, "mig-enabled"), "mig-enabled is empty: mig-parted takes it for false", "write false")
            return False
        if isinstance(enabled, bool):
            return enabled
        self.refuse((*here, "mig-enabled"), _wrong(entry, "mig-enabled"), "mig-enabled must be true or false")
        return None

    def _devices(self, here: Path, entry: Mapping[str, object]) -> Literal["all"] | tuple[int, ...] | None:
        devices = entry.get("devices")
        if devices == ALL:
            return ALL
        path, help_ = (*here, "devices"), "devices must be all or a list of GPU numbers, e.g. [0, 1]"
        listed = isinstance(devices, Sequence) and not isinstance(devices, str)
        numbers = tuple(map(_number, devices)) if listed and isinstance(devices, Sequence) else (None,)
        known = tuple(number for number in numbers if number is not None)
        if len(known) < len(numbers):
            self.refuse(path, _wrong(entry, "devices"), help_)
            return None
        if none := [number for number in known if number < 0]:
            self.note(path, f"no GPU has the number {none[0]}: mig-parted passes over it", help_)
        elif not known:
            self.note(path, "devices is an empty list: the entry is about no GPU", help_)
        return known

    def _filters(self, here: Path, entry: Mapping[str, object]) -> tuple[tuple[int, int | None], ...] | None:
        """Return (PCI device id, subsystem or None) of each filter; without one, all GPUs are meant."""
        given, path = entry.get("device-filter"), (*here, "device-filter")
        if given is None or given == "":
            return ()
        filters = []
        for each in given if isinstance(given, Sequence) and not isinstance(given, str) else (given,):
            text = "" if each is None else each
            help_ = (
                "PCI device id and NVIDIA's vendor id as one quoted number, '0x20B010DE'; "
                "with the subsystem '0x233010DE:0x16C010DE'"
            )
            if not isinstance(text, str):
                self.refuse(path, f"{text!r} is no text, and mig-parted takes texts only", help_)
                return None
            device = _device_of(text)
            if device is None:
                self.note(path, f"'{text}' is not a device id of NVIDIA: the filter is about no GPU", help_)
            filters.append(device or NO_DEVICE)
        return tuple(filters)

    def _wanted(self, here: Path, entry: Mapping[str, object]) -> tuple[LayoutItem, ...] | None:
        devices, path = entry.get("mig-devices"), (*here, "mig-devices")
        if devices is None:
            return ()
        if not isinstance(devices, Mapping):
            self.refuse(path, "mig-devices is a mapping of profile names to counts", 'mig-devices: {"1g.5gb": 7}')
            return None
        items = [self._items((*path, name), str(name), count) for name, count in devices.items()]
        known = [item for own in items if own is not None for item in own]
        if any(own is None for own in items):
            return None
        if devices and not known:
            self.refuse(path, "all counts are 0", "write mig-devices: {} for MIG without instances")
            return None
        if self.of_vms and len(known) > MAX_ITEMS:
            self.refuse(path, f"more than {MAX_ITEMS} instances on a GPU", f"list at most {MAX_ITEMS}")
            return None
        return tuple(known)

    def _items(self, path: Path, name: str, value: object) -> list[LayoutItem] | None:
        count, profile = _number(value), read_profile(name)
        if count is None or count < 0:
            self.refuse(path, f"{name}: {value!r} is no count", "give a number from 0 on")
        elif profile is None:
            try:
                parse_item(name)  # another spelling that the tool knows: what mig-parted wants instead
                self.refuse(path, f"{name} is not a profile name", "mig-parted takes names such as 3g.20gb only")
            except LayoutError as error:
                self.refuse(path, error.message, error.remedy)
        elif self.of_vms and is_part(LayoutItem(profile)):
            help_ = "name the GPU instance's profile; in a VM one compute instance takes all of it"
            self.refuse(path, f"{name} cuts a GPU instance into compute instances", help_)
        else:
            # more than any GPU takes is too many, however many they are
            return [LayoutItem(profile)] * min(count, MAX_ITEMS + 1)
        return None


def _wrong(entry: Mapping[str, object], key: str) -> str:
    if key not in entry:
        return f"{key} is missing"
    value = entry[key]
    return f"{key} is {list(value) if isinstance(value, tuple) else value!r}"


def _device_of(text: str) -> tuple[int, int | None] | None:
    """Return (device id, subsystem or None) of a filter; None of what is none of NVIDIA (pkg/types/device.go).

    A number is read as strconv.ParseUint does with base 0 and 32 bits, underscores of its prefix included.
    """
    numbers = [_unsigned(part) for part in text.split(":")]
    device = numbers[0]
    if device is None or device & 0xFFFF != NVIDIA or len(numbers) > 2 or None in numbers:
        return None
    return device >> 16, numbers[1] if len(numbers) == 2 else None


def _unsigned(text: str) -> int | None:
    match = _UNSIGNED.fullmatch(text)
    if match is None:
        return None
    octal = match["octal"] is not None
    number = int((match["octal"] or match[0]).replace("_", ""), 8 if octal else 0)
    return number if number < 2**32 else None


def _number(value: object) -> int | None:
    """Return a number as Go reads JSON into an int: null is 0; None of what it refuses."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if -(2**63) <= value < 2**63 else None


def _written(entry: PartedEntry) -> Iterator[str]:
    devices = "all" if entry.devices is None else f"[{', '.join(map(str, entry.devices))}]"
    filters = [f'"0x{number:04X}{NVIDIA:04X}"' for number in entry.device_ids]
    filters += [f'"0x{device:04X}{NVIDIA:04X}:0x{subsystem:08X}"' for device, subsystem in entry.subsystems]
    if filters:
        yield f"    - device-filter: [{', '.join(filters)}]"
        yield f"      devices: {devices}"
    else:
        yield f"    - devices: {devices}"
    yield f"      mig-enabled: {'true' if entry.enabled else 'false'}"
    if entry.enabled:
        counts = Counter(i.profile for i in entry.wanted)
        yield f"      mig-devices: {{{', '.join(f'{_quoted(name)}: {n}' for name, n in counts.items())}}}"


def _scalar(name: str) -> str:
    return (
        name if _PLAIN.fullmatch(name) and name.lower() not in ("true", "false", "yes", "no", "null") else _quoted(name)
    )


def _quoted(text: str) -> str:
    return json.dumps(text)  # a JSON string is a YAML string
