"""Health of a host after its window, against what it was before: connection, GPUs, MIG modes, VMs, alarms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from pydantic import TypeAdapter

from vsphere_ai.gpu.commands import QUERY_GPUS
from vsphere_ai.gpu.devices import nvidia_gpus
from vsphere_ai.gpu.smi.listings import parse_gpus
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import RunningVm

HOST_PATHS = ("runtime.connectionState", "runtime.inMaintenanceMode", "config.graphicsInfo", "triggeredAlarmState")
VM_PATHS = ("runtime.powerState", "runtime.host")
MODES_COMMAND = QUERY_GPUS
"""Asks the GPU driver of a host for the MIG mode of each GPU; `modes` reads the answer."""


@dataclass(frozen=True)
class Alarm:
    """A red alarm. `id` is another one for the same alarm at another time, `definition` a reference to its Alarm."""

    id: str
    definition: str
    name: str = ""


@dataclass(frozen=True)
class HostBefore:
    """The state of a host before its window: how many NVIDIA GPUs, which alarms were red, and MIG modes."""

    host: Target
    gpus: int
    alarms: tuple[Alarm, ...] = ()
    mig: Mapping[str, str] = field(default_factory=dict)
    """PCI address -> MIG mode after a reboot, of GPUs whose mode no playbook states."""


@cache
def form_of_before() -> TypeAdapter[HostBefore]:
    """Return the form in which the state of a host before its window is written, and read again."""
    return TypeAdapter(HostBefore)


def found(estate: Estate, host: Target) -> HostBefore:
    """Return what a host's health is measured by afterwards."""
    facts = estate[host.ref]
    return HostBefore(host, shown_gpus(facts), red_alarms(facts, estate))


def shown_gpus(facts: Facts, *, passed_through: bool = True) -> int:
    """Return how many NVIDIA GPUs vCenter shows; one that is passed through belongs to a VM, not to the driver."""
    return sum(passed_through or g["graphicsType"] != "direct" for g in nvidia_gpus(facts))


def modes(status: int, stdout: str) -> dict[str, bool | None]:
    """Return the MIG mode of each GPU the driver lists, by PCI address; None: without MIG, or in trouble.

    `status` and `stdout` are the answer to `MODES_COMMAND`; `UnreadableOutput` where it is none.
    """
    return {g.pci: g.mig_current for g in parse_gpus(status, stdout)}


def changed_modes(now: Mapping[str, bool | None], before: HostBefore) -> tuple[str, ...]:
    """Return which GPUs are not in the MIG mode they were in; `now` are the modes of the GPUs nvidia-smi lists."""
    words = {True: "enabled", False: "disabled", None: "not shown"}
    return tuple(
        f"MIG of GPU {pci} is {words[now[pci]]}, it was {mode}"
        for pci, mode in sorted(before.mig.items())
        if pci in now and words[now[pci]] != mode
    )


def red_alarms(facts: Facts, estate: Estate | None = None) -> tuple[Alarm, ...]:
    """Return the alarms of a host that are red now, acknowledged or not; named where the estate knows their names."""
    alarms = []
    for state in facts.get("triggeredAlarmState", ()):
        if state.get("overallStatus") == "red":
            named = estate.get(state["alarm"]) if estate else None
            alarm = Alarm(f"{state['key']} {state['time']}", state["alarm"], named.name if named else "")
            alarms.append(alarm)
    return tuple(alarms)


def reasons(now: Facts, before: HostBefore, *, maintenance: bool) -> tuple[str, ...]:
    """Return what is not well with a host. `maintenance`: it was in maintenance mode before its window."""
    state = now.get("runtime.connectionState")
    if state != "connected":
        return (f"it is {state or 'gone'}",)
    wrong = []
    if bool(now.get("runtime.inMaintenanceMode")) != maintenance:
        wrong.append("it is not in maintenance mode any more" if maintenance else "it is in maintenance mode")
    gpus = shown_gpus(now)
    if gpus != before.gpus:
        wrong.append(f"it shows {gpus} of {before.gpus} GPUs")
    return tuple(wrong)


def new_alarms(now: Facts, before: HostBefore) -> tuple[Alarm, ...]:
    """Return the alarms that went red since; one that was red, recovered and is red again is new."""
    known = {a.id for a in before.alarms}
    return tuple(a for a in red_alarms(now) if a.id not in known)


def missing_vms(vms: Iterable[RunningVm], now: Mapping[str, Facts], host: str) -> tuple[str, ...]:
    """Return what is not well with the VMs that were switched off: see `RunningVm`."""
    wrong = []
    for vm in vms:
        facts = now.get(vm.ref)
        if facts is None:
            wrong.append(f"{vm.name} is gone from the inventory")
        elif facts.get("runtime.powerState") != "poweredOn":
            wrong.append(f"{vm.name} is {facts.get('runtime.powerState')}, it was running before")
        elif vm.stays and facts.get("runtime.host") != host:
            wrong.append(f"{vm.name} runs on another host")
    return tuple(wrong)
