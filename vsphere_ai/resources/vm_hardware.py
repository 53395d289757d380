"""Virtual hardware: hardware version, boot firmware, reservations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Self

from vsphere_ai.fabric.corrections import MachineNeeds
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_version import hardware_number
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import invoke, reconfigure
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.mixins import Judged, VmDevices
from vsphere_ai.resources.topics import Topic


class VmHardware(VmDevices, Judged, Corrects, Resource):
    """Upgrades a VM's hardware version and sets its boot firmware and its CPU and memory reservations.

    An upgrade cannot be undone. All of it happens in the VM's one power cycle, before its one reconfigure.
    """

    kind = KindName("hardware")
    target = "vm"
    traits = Traits(
        duties=(
            Duty("`hardware`: version", "VMs", ("UpgradeVM_Task",)),
            Duty(
                "`hardware`: reservations",
                "VMs",
                (),
                ("memoryReservationLockedToMax", "memoryAllocation", "cpuAllocation"),
            ),
            Duty("`hardware`: firmware", "VMs", (), ("firmware",)),
        ),
        topics=Topic.VIRTUAL_HARDWARE,
        decides={
            "config.version": "version",
            "config.memoryReservationLockedToMax": "memory_reservation",
            "config.firmware": "firmware",
        },
        properties={
            "VirtualMachine": (
                "config.version",
                "config.firmware",
                "config.hardware.memoryMB",
                "config.memoryReservationLockedToMax",
                "config.memoryAllocation.reservation",
                "config.cpuAllocation.reservation",
            )
        },
    )

    version: int | None = setting("Hardware version, the number after `vmx-`: 19 is ESXi 7.0 U2.", ge=4, le=99)
    firmware: Literal["efi", "bios"] | None = setting(
        "Boot firmware; a guest installed under the other one will not boot."
    )
    memory_reservation: Literal["full"] | int | None = setting(
        "`full` reserves all memory and keeps it so, or a number of MB."
    )
    cpu_reservation_mhz: int | None = setting("CPU reservation in MHz.", ge=0)

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """Every VM has a hardware version."""
        return True

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The hardware version, the firmware, and the reservation of all memory."""
        needs = [c for c in corrections if isinstance(c, MachineNeeds)]
        version = max((c.version for c in needs if c.version is not None), default=None)
        memory: dict[str, Plain] = {"memory_reservation": "full"} if any(c.all_memory for c in needs) else {}
        firmware: dict[str, Plain] = {"firmware": "efi"} if any(c.efi for c in needs) else {}
        return ({} if version is None else {"version": version}) | firmware | memory

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the configuration of the VM."""
        if facts.get("config.version") is None:
            return None
        full = facts.get("config.memoryReservationLockedToMax")
        return cls.model_construct(
            version=hardware_number(facts.get("config.version")),
            firmware=facts.get("config.firmware"),
            memory_reservation="full" if full else facts.get("config.memoryAllocation.reservation", 0),
            cpu_reservation_mhz=facts.get("config.cpuAllocation.reservation", 0),
        )

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """A hardware version never goes down."""
        facts = view.facts(target.ref)
        have = hardware_number(facts.get("config.version"))
        if have and self.version and self.version < have:
            message = f"the VM has hardware version {have}, {self.version} is older"
            remedy = f"a hardware version cannot be lowered; write version: {have} or leave it out"
            yield self.problem(target, "downgrade", message, remedy)
        memory = facts.get("config.hardware.memoryMB", 0)
        if isinstance(self.memory_reservation, int) and self.memory_reservation > memory:
            message = f"a reservation of {self.memory_reservation} MB is more than the {memory} MB the VM has"
            yield self.problem(target, "reservation", message, "write memory_reservation: full")

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """A changed firmware is the change people regret."""
        have = view.facts(target.ref).get("config.firmware")
        if self.firmware and have and have != self.firmware:
            yield f"firmware {have} → {self.firmware}: a guest installed under {have} will not boot any more"

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A hardware version is never lowered."""
        return StateExport(self.model_copy(update={"version": None}) if form == "rollback" else self)

    def implied_fields(self) -> Mapping[str, object]:
        """Kinds that need all memory or EFI show these settings too."""
        return {"memory_locked": self.memory_reservation == "full", "firmware": self.firmware}

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Upgrade first, so that the reconfigure may use what the new version offers."""
        changed = {f.name for f in change.fields}
        if "version" in changed:
            args, summary = {"version": f"vmx-{self.version}"}, f"upgrade to hardware version {self.version}"
            yield invoke(change, "", "UpgradeVM_Task", args, summary, needs_power_off=True)
        spec: dict[str, object] = {}
        if "firmware" in changed:
            spec["firmware"] = self.firmware
        if "memory_reservation" in changed:
            spec["memoryReservationLockedToMax"] = self.memory_reservation == "full"
            if isinstance(self.memory_reservation, int):
                spec["memoryAllocation"] = _reservation(self.memory_reservation)
        if "cpu_reservation_mhz" in changed:
            spec["cpuAllocation"] = _reservation(self.cpu_reservation_mhz)
        if spec:
            yield reconfigure(change, spec, "set " + ", ".join(sorted(changed - {"version"})).replace("_", " "))


def _reservation(amount: int | None) -> dict[str, object]:
    return {"_typeName": "ResourceAllocationInfo", "reservation": amount}
