"""Calls that replace what is there on a host: sent where that is as planned, and with what everybody else has there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsphere_ai.errors import Conflict, VimFault
from vsphere_ai.execution.actions import conflicts
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.model.module_options import merged
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import shown

_AGAIN = "somebody changed it: look at it, then plan again"
_VNICS, _PNICS, _PCI = "config.network.vnic", "config.network.pnic", "config.pciPassthruInfo"
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
        self._prepare = {
            "UpdateModuleOptionString": self._options,
            "AddVirtualNic": self._added,
            "UpdateVirtualNic": self._updated,
            "UpdateOptions": self._settings,
            "UpdatePassthruConfig": self._passed_through,
            "UpdatePhysicalNicLinkSpeed": self._speed,
        }

    def prepared(self, target: Target, ref: str, method: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what to send; `Conflict` when somebody changed what this is about since planning."""
        prepare = self._prepare.get(method)
        return prepare(target, ref, args) if prepare else args

    def _options(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Another kind of the same plan (SR-IOV) or an administrator may have set other options of the module."""
        name = args["name"]
        now = self._context.vcenter.call(ref, "QueryConfiguredModuleOptionString", {"name": name})
        planned = self._context.planned.get(target.ref)
        before = planned.get(f"query:{name}") if planned is not None else None
        options = merged(now if before is None else before, args["options"], now)
        if isinstance(options, tuple):
            raise Conflict(
                f"{target.name}: options of {name} changed since planning: {', '.join(options)}",
                _AGAIN,
                rule="object.changed",
            )
        return None if options == (now or "") else {**args, "options": options}

    def _settings(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Each advanced setting has to be as it was, or is as wanted already."""
        planned = self._context.planned.get(target.ref)
        left = []
        for option in args["changedValue"]:
            key, value = option["key"], option["value"]
            fact = f"option:{key}"
            if planned is None or fact not in planned.properties:
                left.append(option)
                continue
            now = self._option(ref, key)
            if now == value:
                continue
            self._require(target, key, planned.get(fact), now)
            left.append(option)
        return {**args, "changedValue": tuple(left)} if left else None

    def _option(self, ref: str, key: str) -> Any:
        try:
            values = self._context.vcenter.call(ref, "QueryOptions", {"name": key})
        except VimFault as error:
            if error.fault == "InvalidName":  # vSphere's answer for a setting that this version of ESXi does not have
                return None
            raise
        return next((v.get("value", "") for v in values or ()), None)

    def _passed_through(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Given away whole, shared by SR-IOV, and how often: none of it may have changed, whichever is meant."""
        now, before = self._passthroughs(target, live=True), self._passthroughs(target, live=False)
        left = []
        for config in args["config"]:
            id = config["id"]
            wanted = {_ASKED_FOR.get(k, k): v for k, v in config.items() if k in _ASKED_FOR}
            if id in now and conflicts.holds(now[id], wanted):
                continue
            for name in _ASKED_FOR.values() if id in before else ():
                self._require(target, f"{name} of {id}", before[id].get(name), now.get(id, {}).get(name))
            left.append(config)
        return {**args, "config": tuple(left)} if left else None

    def _passthroughs(self, target: Target, *, live: bool) -> dict[str, Mapping[str, Any]]:
        planned = self._context.read(target, _PCI) if live else self._context.planned.get(target.ref)
        return {d["id"]: d for d in (planned.get(_PCI) if planned is not None else None) or ()}

    def _speed(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        device, planned = args["device"], self._context.planned.get(target.ref)
        before = planned.get(_PNICS) if planned is not None else None
        now = _link(self._context.read(target, _PNICS).get(_PNICS), device)
        if now == _link_speed(args):
            return None
        if before is not None:
            self._require(target, f"the speed of {device}", _link(before, device), now)
        return args

    def _require(self, target: Target, what: str, before: Any, now: Any) -> None:
        if before != now:
            raise Conflict(
                f"{target.name}: {what} is {shown(now)} since this was planned, was {shown(before)}",
                _AGAIN,
                rule="object.changed",
            )

    def _added(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A second one is not made where the answer to the first call was lost, or where somebody was faster."""
        key = (args["nic"].get("distributedVirtualPort") or {}).get("portgroupKey")
        found = [v for v in self._present(target) if _group(v) == key]
        if not found:
            return args
        if len(found) == 1 and conflicts.holds(found[0]["spec"].get("ip"), args["nic"]["ip"]):
            return None
        raise Conflict(
            f"{target.name}: {found[0]['device']} has appeared on that port group since planning",
            _AGAIN,
            rule="object.changed",
        )

    def _updated(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What the specification leaves out may take a default of the server, so it goes with what is there now."""
        device, wanted = args["device"], args["nic"]
        now = next((v["spec"] for v in self._present(target) if v["device"] == device), None)
        if now is None:
            raise Conflict(f"{target.name}: {device} is gone", "plan again", rule="object.changed")
        planned = self._context.planned.get(target.ref)
        vnics = planned.get(_VNICS, ()) if planned is not None else ()
        before = next((v["spec"] for v in vnics if v["device"] == device), now)
        for name, value in wanted.items():
            if now.get(name) != before.get(name) and not conflicts.holds(now.get(name), value):
                raise Conflict(
                    f"{target.name}: {name} of {device} is {shown(now.get(name))} since this was planned",
                    _AGAIN,
                    rule="object.changed",
                )
        return None if conflicts.holds(now, wanted) else {**args, "nic": {**now, **wanted}}

    def _present(self, target: Target) -> tuple[Mapping[str, Any], ...]:
        return tuple(self._context.read(target, _VNICS).get(_VNICS) or ())


def _group(vnic: Mapping[str, Any]) -> str | None:
    port = vnic["spec"].get("distributedVirtualPort") or {}
    key: str | None = port.get("portgroupKey")
    return key


def _link(pnics: Any, device: str) -> tuple[Any, Any]:
    """Return speed and duplex that were set for a NIC; None for both where it negotiates."""
    spec = next((n.get("spec") or {} for n in pnics or () if n["device"] == device), {})
    return _link_speed(spec)


def _link_speed(spec: Mapping[str, Any]) -> tuple[Any, Any]:
    link = spec.get("linkSpeed") or {}
    return link.get("speedMb"), link.get("duplex")
