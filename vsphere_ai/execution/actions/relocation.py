"""Relocation of a VM to another host for a time, and back: its host, and devices that name parts of a host."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from vsphere_ai.errors import Conflict, StepFailed
from vsphere_ai.execution.actions.context import Context, Say
from vsphere_ai.execution.actions.resolve import looked_up
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.steps import DeviceChange, Move, MoveAway, MoveBack

DEVICES = "config.hardware.device"
POWER = "runtime.powerState"


class Relocations:
    """Each part does nothing where the VM is in the desired state already."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def do(self, step: Move, say: Say) -> None:
        """Bring a VM to a host and change its devices; `Conflict` where it runs and the move is not `live`."""
        vm, there = step.target, self._host(step)
        if there != step.to:
            if isinstance(step, MoveAway) and there != step.back.to:
                raise Conflict(f"{vm.name} has left its host since planning", "plan again", rule="object.changed")
            self._require_off(step)
            self._context.task(vm, "MigrateVM_Task", {"host": step.to, "priority": "highPriority"}, say, step.timeout)
            if self._host(step) != step.to:
                raise StepFailed(f"{vm.name} is not on the host it was to go to", "look at its tasks and events")
        changes = self._left(step.devices, step)
        if not changes:
            return
        self._require_off(step)
        version = self._context.read(vm, "config.changeVersion").get("config.changeVersion")
        spec: dict[str, Plain] = {"_typeName": "VirtualMachineConfigSpec", "deviceChange": changes}
        spec |= {"changeVersion": version} if version else {}
        self._context.task(vm, "ReconfigVM_Task", {"spec": spec}, say)

    def is_done(self, step: Move) -> bool:
        """Read whether a VM is on its host, with the devices of it."""
        return self._host(step) == step.to and not self._left(step.devices, step)

    def _host(self, step: Move) -> str:
        return str(self._context.read(step.target, "runtime.host").get("runtime.host") or "")

    def _require_off(self, step: Move) -> None:
        if not step.live and self._context.read(step.target, POWER).get(POWER) != "poweredOff":
            raise Conflict(f"{step.target.name} is powered on; it can only be moved while it is off", "power it off")

    def _left(self, devices: Sequence[DeviceChange], step: Move) -> tuple[DeviceChange, ...]:
        """Return the changes of devices that are still to be made."""
        if not devices:
            return ()
        wanted: tuple[DeviceChange, ...] = looked_up(tuple(devices), self._context.vcenter)
        there = {d["key"]: d for d in self._context.read(step.target, DEVICES).get(DEVICES) or ()}
        gone = [c["device"]["key"] for c in wanted if c["device"]["key"] not in there]
        if gone:
            text = f"{step.target.name}: device {gone[0]} is not there any more"
            raise Conflict(text, "look at the VM's settings", rule="object.changed")
        return tuple(c for c in wanted if _part(there[c["device"]["key"]]) != _part(c["device"]))


def _part(device: Mapping[str, object]) -> tuple[str, str]:
    """Return the part of a host that a device names: its PCI address, and the host's own id of its system."""
    backing = device.get("backing")
    named = backing if isinstance(backing, Mapping) else {}
    return read_pci(str(named.get("id"))), str(named.get("systemId"))


def detail_of(step: MoveAway) -> str:
    """Return what a journal keeps of the way back."""
    back = step.back
    devices = [dict(change) for change in back.devices]
    return json.dumps({"to": back.to, "live": back.live, "summary": back.summary, "devices": devices})


def back_of(pending: Pending) -> MoveBack:
    """Return the step that brings a VM back, from what a journal has kept."""
    kept = json_value(pending.detail)
    devices, to, live = tuple(kept["devices"]), str(kept["to"]), bool(kept["live"])
    return MoveBack(target=pending.target, summary=str(kept["summary"]), to=to, live=live, devices=devices)
