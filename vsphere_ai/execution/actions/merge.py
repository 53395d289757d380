"""Calls that replace what is there on a host: sent where that is as planned, and with what others have set there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vsphere_ai.errors import Conflict, VimFault
from vsphere_ai.execution.actions.conflicts import changed, refuse
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.model.estate import lockdown
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.module_options import merged
from vsphere_ai.model.plain import Plain, PlainObject, inside, objects
from vsphere_ai.model.state import Target
from vsphere_ai.model.three_way import SettingPart, compare, holds
from vsphere_ai.reading.requirements import replaced_paths

Args = Mapping[str, Any]
_VNICS, _PNICS, _PCI = "config.network.vnic", "config.network.pnic", "config.pciPassthruInfo"
_GROUP = "distributedVirtualPort.portgroupKey"
_ASKED_FOR = {
    "passthruEnabled": "passthruEnabled",
    "sriovEnabled": "sriovEnabled",
    "numVirtualFunction": "numVirtualFunctionRequested",
}
"""Field of a HostPciPassthruConfig -> where a HostPciPassthruInfo shows it; the same name there is what runs now."""


class Merging:
    """Prepares the arguments of such calls; None when there is nothing left to send."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._prepare: dict[str, Callable[[Target, str, Args], Args | None]] = {
            "UpdateModuleOptionString": self._options,
            "AddVirtualNic": self._added,
            "UpdateVirtualNic": self._updated,
            "UpdateOptions": self._settings,
            "UpdatePassthruConfig": self._passed_through,
            "UpdatePhysicalNicLinkSpeed": self._speed,
            "UpdateLockdownExceptions": self._excepted,
        }

    def prepared(self, target: Target, ref: str, method: str, args: Args) -> Args | None:
        """Return what to send; `Conflict` when someone else changed what this is about since planning."""
        if method in replaced_paths():
            return self._whole(target, replaced_paths()[method], args)
        prepare = self._prepare.get(method)
        return prepare(target, ref, args) if prepare else args

    def _planned(self, target: Target) -> Facts:
        return self._context.planned.get(target.ref) or Facts(target.ref)

    def _whole(self, target: Target, path: str, args: Args) -> Args | None:
        """All there is at a path is replaced, so all of it counts."""
        planned, name = self._planned(target), path.rpartition(".")[2]
        if path not in planned.properties:
            return args
        before, now = planned.get(path), self._context.read(target, path).get(path)
        part = SettingPart(path, before, now, now == before, all(holds(now, v.get(name, v)) for v in args.values()))
        refuse(target.name, [part] if part.conflict else ())
        return args if part.unchanged else None

    def _options(self, target: Target, ref: str, args: Args) -> Args | None:
        """Another kind of the same plan (SR-IOV) or an administrator may have set other options of the module."""
        name = args["name"]
        now = str(self._context.vcenter.call(ref, "QueryConfiguredModuleOptionString", {"name": name}) or "")
        before = self._planned(target).get(f"query:{name}")
        options = merged(now if before is None else before, args["options"], now)
        if isinstance(options, tuple):
            text = f"options of module {name}: {', '.join(options)}"
            raise changed(f"{target.name} was changed by someone else after planning: {text}")
        return None if options == now else {**args, "options": options}

    def _settings(self, target: Target, ref: str, args: Args) -> Args | None:
        """Each advanced setting has to be as it was, or is in the desired state already."""
        planned, wanted = self._planned(target), {o["key"]: _bare(o["value"]) for o in args["changedValue"]}
        before = {key: planned.get(f"option:{key}") for key in wanted if f"option:{key}" in planned.properties}
        parts = compare(before, {key: self._option(ref, key) for key in before}, wanted)
        refuse(target.name, (p for p in parts if p.conflict))
        done = {p.name for p in parts if p.done and p.name in before}
        left = tuple(o for o in args["changedValue"] if o["key"] not in done)
        return {**args, "changedValue": left} if left else None

    def _option(self, ref: str, key: str) -> object:
        try:
            values = self._context.vcenter.call(ref, "QueryOptions", {"name": key})
        except VimFault as error:
            if error.fault == "InvalidName":  # vSphere's answer for a setting that this version of ESXi does not have
                return None
            raise
        return next((v.get("value", "") for v in objects(values)), None)

    def _passed_through(self, target: Target, ref: str, args: Args) -> Args | None:
        """Passed through as a whole, shared by SR-IOV, and how often: none of it may have changed."""
        now, before = (_devices(facts) for facts in (self._context.read(target, _PCI), self._planned(target)))
        left = []
        for config in args["config"]:
            id = config["id"]
            wanted = {_ASKED_FOR[k]: v for k, v in config.items() if k in _ASKED_FOR}
            if id in now and holds(now[id], wanted):
                continue
            old, new = ({f"{n} of {id}": d.get(id, {}).get(n) for n in _ASKED_FOR.values()} for d in (before, now))
            refuse(target.name, (p for p in compare(old, new, new) if not p.unchanged and id in before))
            left.append(config)
        return {**args, "config": tuple(left)} if left else None

    def _speed(self, target: Target, ref: str, args: Args) -> Args | None:
        name, planned = f"speed of {args['device']}", self._planned(target).get(_PNICS)
        before = {name: _link(planned, args["device"])} if planned is not None else {}
        now = {name: _link(self._context.read(target, _PNICS).get(_PNICS), args["device"])}
        (part,) = compare(before, now, {name: _link_speed(args)})
        refuse(target.name, [part] if part.conflict else ())
        return None if part.done else args

    def _excepted(self, target: Target, ref: str, args: Args) -> Args | None:
        """All exception users are replaced, so all of them count."""
        before, name = self._planned(target).get(lockdown.EXCEPTIONS_FACT), "exception users"
        answer = self._context.vcenter.call(ref, lockdown.EXCEPTIONS_METHOD)
        now = sorted(map(str, answer)) if isinstance(answer, list | tuple) else []
        known = {} if before is None else {name: sorted(map(str, before))}
        (part,) = compare(known, {name: now}, {name: sorted(args["users"])})
        refuse(target.name, [part] if part.conflict else ())
        return None if part.done else args

    def _added(self, target: Target, ref: str, args: Args) -> Args | None:
        """A second one is not made where the response to the first call was lost, or where someone else made one."""
        key = inside(args["nic"], _GROUP)
        found = {device: spec for device, spec in self._present(target).items() if inside(spec, _GROUP) == key}
        if not found:
            return args
        device, spec = next(iter(found.items()))
        if len(found) == 1 and holds(spec.get("ip"), args["nic"]["ip"]):
            return None
        raise changed(f"{target.name}: {device} has appeared on that port group since planning")

    def _updated(self, target: Target, ref: str, args: Args) -> Args | None:
        """What the specification leaves out may take a default of the server, so it goes with what is there now."""
        device, wanted = args["device"], args["nic"]
        now = self._present(target).get(device)
        if now is None:
            raise Conflict(f"{target.name}: {device} is gone", "plan again", rule="object.changed")
        before = _specs(self._planned(target)).get(device, now)
        old, new, goal = ({f"{n} of {device}": v.get(n) for n in wanted} for v in (before, now, wanted))
        refuse(target.name, (p for p in compare(old, new, goal) if p.conflict))
        return None if holds(now, wanted) else {**args, "nic": {**now, **wanted}}

    def _present(self, target: Target) -> dict[str, PlainObject]:
        return _specs(self._context.read(target, _VNICS))


def _bare(value: Plain) -> Plain:
    """Return a value without the type that it is sent with."""
    return value["value"] if isinstance(value, Mapping) and "value" in value else value


def _specs(facts: Facts) -> dict[str, PlainObject]:
    """Return the specifications of a host's VMkernel adapters by their devices."""
    return {v["device"]: v["spec"] for v in facts.get(_VNICS) or ()}


def _devices(facts: Facts) -> dict[str, PlainObject]:
    return {d["id"]: d for d in facts.get(_PCI) or ()}


def _link(pnics: Plain, device: str) -> tuple[Plain, Plain]:
    """Return speed and duplex that were set for a NIC; None for both where it negotiates."""
    return _link_speed(next((inside(n, "spec") for n in objects(pnics) if n["device"] == device), None))


def _link_speed(spec: Plain) -> tuple[Plain, Plain]:
    return inside(spec, "linkSpeed.speedMb"), inside(spec, "linkSpeed.duplex")
