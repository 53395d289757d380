"""Concurrent changes of a VM that a step is about to reconfigure, and the refusal to overwrite such changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from vsphere_ai.errors import Conflict
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.secret_settings import may_hold_secret
from vsphere_ai.model.plain import Plain, PlainObject, inside, objects
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.model.three_way import SettingPart, compare

AGAIN = "look at the change, then plan again"
DEVICES, EXTRA = "config.hardware.device", "config.extraConfig"
_ELSEWHERE = {
    "memoryAllocation": "config.memoryAllocation.reservation",
    "cpuAllocation": "config.cpuAllocation.reservation",
    "numCPUs": "config.hardware.numCPU",
    "numCoresPerSocket": "config.hardware.numCoresPerSocket",
    "memoryMB": "config.hardware.memoryMB",
}
"""Where a field of a ConfigSpec is read, unless it is called the same in ``config``."""
_IDENTITY = (
    "_typeName",
    "macAddress",
    "backing._typeName",
    "backing.vgpu",
    "backing.id",
    "backing.deviceName",
    "backing.port.portgroupKey",
    "deviceGroupInfo.groupInstanceKey",
)


def changed(text: str) -> Conflict:
    """Return the refusal of a step that would overwrite a change of someone else."""
    return Conflict(text, AGAIN, rule="object.changed")


def refuse(target: str, parts: Iterable[SettingPart]) -> None:
    """Raise `Conflict` with these parts of a target, where there are any."""
    text = "; ".join(map(str, parts))
    if text:
        raise changed(f"{target} was changed by someone else after planning: {text}")


def keeps_changing(target: str, attempts: int) -> Conflict:
    """Return the refusal of a step that was sent several times, each time at the same moment as another change."""
    text = f"someone else keeps changing {target}; {attempts} attempts refused"
    return Conflict(text, AGAIN, rule="object.keeps-changing")


def paths(step: Reconfigure) -> tuple[str, ...]:
    """Return the property paths that show what a step is about to set."""
    extra = (EXTRA,) if step.extra_config else ()
    return (DEVICES, *extra, *(_path(name) for name in step.spec))


def differences(step: Reconfigure, planned: Facts, now: Facts) -> tuple[SettingPart, ...]:
    """Return the parts of a VM that the step is about to set and that are not as they were at planning.

    Also those that are desired already: a reconfigure whose response was lost is not sent again for a newer version.
    """
    return tuple(p for p in _parts(step, planned, now) if not p.unchanged)


def _parts(step: Reconfigure, planned: Facts, now: Facts) -> Iterator[SettingPart]:
    for kind in dict.fromkeys(c["device"]["_typeName"] for c in step.device_changes):
        before, after = ([d for d in f.get(DEVICES) or () if d.get("_typeName") == kind] for f in (planned, now))
        same = Counter(map(identity, before)) == Counter(map(identity, after))
        old_names, new_names = (tuple(sorted(map(_name, found))) for found in (before, after))
        yield SettingPart(f"list of {kind} devices", old_names, new_names, same)
    if EXTRA in planned.properties:
        old, new = _options(planned), _options(now)
        for key, _ in step.extra_config:
            values = old.get(key), new.get(key)
            yield SettingPart(key, *values, old.get(key) == new.get(key), is_secret=may_hold_secret(key, *values))
    found = {_path(name): value for name, value in step.spec.items()}
    yield from compare(planned.properties, now.properties, found)


def identity(device: PlainObject) -> tuple[Plain, ...]:
    """Return what identifies a device; an edit changes other fields, and the server fills in more of its own."""
    allowed = objects(inside(device, "backing.allowedDevice"))
    return (*(inside(device, path) for path in _IDENTITY), *((a.get("vendorId"), a.get("deviceId")) for a in allowed))


def _path(name: str) -> str:
    return _ELSEWHERE.get(name, f"config.{name}")


def _name(device: PlainObject) -> str:
    label = inside(device, "deviceInfo.label") or f"key {device.get('key')}"
    mac = device.get("macAddress")
    return str(inside(device, "backing.vgpu") or (f"{label} {mac}" if mac else label))


def _options(facts: Facts) -> dict[str, str]:
    """Return the extra configuration; a key with an empty value is as good as not there."""
    return {o["key"]: str(o["value"]) for o in facts.get(EXTRA) or () if str(o.get("value", ""))}
