"""The configuration file of NVIDIA's mig-parted (``version: v1``): read with places for faults, and written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vsphere_ai.gpu.mig.layout import MAX_ITEMS, LayoutError, LayoutItem, parse_item

VERSION = "v1"
CONFIGS = "mig-configs"
"""The key that a document with configurations has, also inside of a ConfigMap or of Helm values."""
NVIDIA = 0x10DE
_FILTER = re.compile(r"0x(?P<device>[0-9a-fA-F]{4})(?P<vendor>[0-9a-fA-F]{4})(?::0x(?P<subsystem>[0-9a-fA-F]{8}))?")
_COMPUTE = re.compile(r"\d+c\.")
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


def read(data: object, refuse: RefuseAt) -> Configs:
    """Return the configurations of a file by name; every fault goes to `refuse`, what is faulty is left out."""
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
        if key not in ("version", "mig-configs"):
            refuse((key,), f"mig-parted knows no field {key!r}", "it knows version and mig-configs")
    configs = data.get("mig-configs")
    if not isinstance(configs, Mapping) or not configs:
        refuse(("mig-configs",), "mig-configs must hold at least one configuration", "NAME: [{devices: all, …}]")
        return {}
    return {str(name): tuple(_entries(("mig-configs", name), listed, refuse)) for name, listed in configs.items()}


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


def _boolean(value: object) -> object:
    """Return a boolean for the words that Go's YAML reader takes for one beside true and false (YAML 1.1)."""
    word = value.lower() if isinstance(value, str) else ""
    return True if word in ("yes", "y", "on") else False if word in ("no", "n", "off") else value


def _entries(path: Path, listed: object, refuse: RefuseAt) -> Iterator[PartedEntry]:
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        refuse(path, "a configuration is a list of at least one entry", "- {devices: all, mig-enabled: true, …}")
        return
    for at, entry in enumerate(listed):
        here = (*path, at)
        if not isinstance(entry, Mapping):
            refuse(here, f"{entry!r} is no entry", f"an entry is a mapping; its fields are {', '.join(_FIELDS)}")
            continue
        for key in entry:
            if key not in _FIELDS:
                refuse((*here, key), f"mig-parted knows no field {key!r}", f"the fields are {', '.join(_FIELDS)}")
        devices, ok = _devices(here, entry, refuse)
        enabled = _boolean(entry.get("mig-enabled"))
        if not isinstance(enabled, bool):
            refuse((*here, "mig-enabled"), _wrong(entry, "mig-enabled"), "mig-enabled must be true or false")
            continue
        wanted = tuple(_wanted(here, entry, refuse))
        counts = entry.get("mig-devices")
        if isinstance(counts, Mapping) and counts and all(n == 0 and _is_index(n) for n in counts.values()):
            refuse((*here, "mig-devices"), "all counts are 0", "write mig-devices: {} for MIG without instances")
        elif wanted and not enabled:
            refuse(
                (*here, "mig-devices"),
                "mig-devices are given although mig-enabled is false",
                "write mig-enabled: true, or leave them out",
            )
        elif enabled and "mig-devices" not in entry:
            refuse(here, "mig-devices is missing", "mig-devices: {} is MIG without instances")
        elif len(wanted) > MAX_ITEMS:
            refuse((*here, "mig-devices"), f"{len(wanted)} instances on a GPU", f"list at most {MAX_ITEMS}")
        elif ok:
            filters = tuple(_filter(here, entry, refuse))
            plain = tuple(device for device, subsystem in filters if subsystem is None)
            yield PartedEntry(enabled, wanted, devices, plain, tuple((d, s) for d, s in filters if s is not None))


def _wrong(entry: Mapping[str, object], key: str) -> str:
    return f"{key} is {entry[key]!r}" if key in entry else f"{key} is missing"


def _devices(here: Path, entry: Mapping[str, object], refuse: RefuseAt) -> tuple[tuple[int, ...] | None, bool]:
    devices = entry.get("devices")
    if devices == "all":
        return None, True
    if isinstance(devices, Sequence) and not isinstance(devices, str) and all(map(_is_index, devices)):
        return tuple(devices), True
    refuse((*here, "devices"), _wrong(entry, "devices"), "devices must be all or a list of GPU numbers, e.g. [0, 1]")
    return None, False


def _filter(here: Path, entry: Mapping[str, object], refuse: RefuseAt) -> Iterator[tuple[int, int | None]]:
    """Yield (PCI device id, subsystem or None) of each filter; an empty text is no filter, as in mig-parted."""
    filters = entry.get("device-filter") or ()
    for text in (filters,) if isinstance(filters, str) else filters if isinstance(filters, Sequence) else (filters,):
        match = _FILTER.fullmatch(text) if isinstance(text, str) else None
        if match is None or int(match["vendor"], 16) != NVIDIA:
            help_ = (
                "PCI device id and NVIDIA's vendor id as one quoted number, '0x20B010DE'; "
                "with the subsystem '0x233010DE:0x16C010DE'"
            )
            refuse((*here, "device-filter"), f"{text!r} is not a device id", help_)
        else:
            yield int(match["device"], 16), int(match["subsystem"], 16) if match["subsystem"] else None


def _wanted(here: Path, entry: Mapping[str, object], refuse: RefuseAt) -> Iterator[LayoutItem]:
    devices = entry.get("mig-devices", {})
    path = (*here, "mig-devices")
    if not isinstance(devices, Mapping):
        refuse(path, "mig-devices is a mapping of profile names to counts", 'mig-devices: {"1g.5gb": 7}')
        return
    for name, count in devices.items():
        if not _is_index(count) or count > MAX_ITEMS:
            refuse((*path, name), f"{name}: {count!r} is no count", f"give a number from 0 to {MAX_ITEMS}")
        elif _COMPUTE.match(str(name)):
            help_ = "name the GPU instance's profile; in a VM one compute instance takes all of it"
            refuse((*path, name), f"{name} cuts a GPU instance into compute instances", help_)
        else:
            try:
                item = parse_item(str(name))
            except LayoutError as error:
                refuse((*path, name), error.message, error.remedy)
                continue
            if item.start is not None or item.profile.isdecimal():
                refuse((*path, name), f"{name} is not a profile name", "mig-parted takes names such as 3g.20gb only")
            else:
                yield from [item] * count


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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
