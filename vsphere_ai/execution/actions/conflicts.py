"""What somebody else changed between planning and now, of that which a step is about to set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.model.text import shown

DEVICES, EXTRA = "config.hardware.device", "config.extraConfig"
_ELSEWHERE = {
    "memoryAllocation": "config.memoryAllocation.reservation",
    "cpuAllocation": "config.cpuAllocation.reservation",
    "numCPUs": "config.hardware.numCPU",
    "numCoresPerSocket": "config.hardware.numCoresPerSocket",
    "memoryMB": "config.hardware.memoryMB",
}
"""Where a field of a ConfigSpec is read, unless it is called the same in ``config``."""


def paths(step: Reconfigure) -> tuple[str, ...]:
    """Return the property paths that show what a step is about to set."""
    extra = (EXTRA,) if step.extra_config else ()
    return (DEVICES, *extra, *(_path(name) for name in step.spec))


def differences(step: Reconfigure, planned: Facts, now: Facts) -> tuple[str, ...]:
    """Return in words what is not as it was when the step was planned; nothing else of the VM is looked at."""
    return tuple(_differences(step, planned, now))


def _differences(step: Reconfigure, planned: Facts, now: Facts) -> Iterator[str]:
    for kind in dict.fromkeys(c["device"]["_typeName"] for c in step.device_changes):
        before, after = (_devices(facts.get(DEVICES) or (), kind) for facts in (planned, now))
        if Counter(map(identity, before)) != Counter(map(identity, after)):
            names = (shown(tuple(sorted(map(_name, found)))) for found in (after, before))
            yield f"{kind} devices are {{}}, were {{}}".format(*names)
    if EXTRA in planned.properties:
        old, new = _options(planned), _options(now)
        for key, _ in step.extra_config:
            if old.get(key, "") != new.get(key, ""):
                yield f"{key} is {shown(new.get(key) or None)}, was {shown(old.get(key) or None)}"
    for name in step.spec:
        path = _path(name)
        if path in planned.properties and planned.get(path) != now.get(path):
            yield f"{path.removeprefix('config.')} is {shown(now.get(path))}, was {shown(planned.get(path))}"


def identity(device: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a device; an edit changes other fields, and the server fills in more of its own."""
    backing = device.get("backing") or {}
    port = backing.get("port") or {}
    return (
        device.get("_typeName"),
        device.get("macAddress"),
        backing.get("_typeName"),
        backing.get("vgpu"),
        backing.get("id"),
        tuple((a.get("vendorId"), a.get("deviceId")) for a in backing.get("allowedDevice") or ()),
        backing.get("deviceName"),
        port.get("portgroupKey"),
        (device.get("deviceGroupInfo") or {}).get("groupInstanceKey"),
    )


def holds(now: Any, wanted: Any) -> bool:
    """Tell whether a plain value has everything that is wanted; servers add fields of their own."""
    if isinstance(wanted, Mapping):
        return isinstance(now, Mapping) and all(holds(now.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, tuple | list):
        return isinstance(now, tuple | list) and len(now) == len(wanted) and all(map(holds, now, wanted))
    return bool(now == wanted)


def _path(name: str) -> str:
    return _ELSEWHERE.get(name, f"config.{name}")


def _devices(devices: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [d for d in devices if d.get("_typeName") == kind]


def _name(device: Mapping[str, Any]) -> str:
    backing = device.get("backing") or {}
    label = (device.get("deviceInfo") or {}).get("label") or f"key {device.get('key')}"
    return str(backing.get("vgpu") or " ".join(filter(None, (label, device.get("macAddress")))))


def _options(facts: Facts) -> dict[str, str]:
    return {o["key"]: str(o.get("value", "")) for o in facts.get(EXTRA) or ()}
