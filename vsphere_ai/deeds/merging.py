"""Calls that replace a whole while they mean a part of it: sent with what everybody else has there now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsphere_ai.deeds import foreign
from vsphere_ai.deeds.means import Means
from vsphere_ai.errors import Conflict
from vsphere_ai.fabric.module_options import merged
from vsphere_ai.report.values import shown
from vsphere_ai.state import Target

_AGAIN = "somebody changed it: look at it, then plan again"
_VNICS = "config.network.vnic"


class Merging:
    """Prepares the arguments of such calls; None when there is nothing left to send."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._prepare = {
            "UpdateModuleOptionString": self._options,
            "AddVirtualNic": self._added,
            "UpdateVirtualNic": self._updated,
        }

    def prepared(self, target: Target, ref: str, method: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what to send; `Conflict` when somebody changed what this is about since planning."""
        prepare = self._prepare.get(method)
        return prepare(target, ref, args) if prepare else args

    def _options(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Another kind of the same plan (SR-IOV) or an administrator may have set other options of the module."""
        name = args["name"]
        now = self._means.vcenter.call(ref, "QueryConfiguredModuleOptionString", {"name": name})
        planned = self._means.planned.get(target.ref)
        before = planned.get(f"query:{name}") if planned is not None else None
        options = merged(now if before is None else before, args["options"], now)
        if isinstance(options, tuple):
            raise Conflict(f"{target.name}: options of {name} changed since planning: {', '.join(options)}", _AGAIN)
        return None if options == (now or "") else {**args, "options": options}

    def _added(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A second one is not made where the answer to the first call was lost, or where somebody was faster."""
        key = (args["nic"].get("distributedVirtualPort") or {}).get("portgroupKey")
        found = [v for v in self._present(target) if _group(v) == key]
        if not found:
            return args
        if len(found) == 1 and foreign.holds(found[0]["spec"].get("ip"), args["nic"]["ip"]):
            return None
        raise Conflict(f"{target.name}: {found[0]['device']} has appeared on that port group since planning", _AGAIN)

    def _updated(self, target: Target, ref: str, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What the specification leaves out may take a default of the server, so it goes with what is there now."""
        device, wanted = args["device"], args["nic"]
        now = next((v["spec"] for v in self._present(target) if v["device"] == device), None)
        if now is None:
            raise Conflict(f"{target.name}: {device} is gone", "plan again")
        planned = self._means.planned.get(target.ref)
        vnics = planned.get(_VNICS, ()) if planned is not None else ()
        before = next((v["spec"] for v in vnics if v["device"] == device), now)
        for name, value in wanted.items():
            if now.get(name) != before.get(name) and not foreign.holds(now.get(name), value):
                raise Conflict(
                    f"{target.name}: {name} of {device} is {shown(now.get(name))} since this was planned", _AGAIN
                )
        return None if foreign.holds(now, wanted) else {**args, "nic": {**now, **wanted}}

    def _present(self, target: Target) -> tuple[Mapping[str, Any], ...]:
        return tuple(self._means.read(target, _VNICS).get(_VNICS) or ())


def _group(vnic: Mapping[str, Any]) -> str | None:
    port = vnic["spec"].get("distributedVirtualPort") or {}
    key: str | None = port.get("portgroupKey")
    return key
