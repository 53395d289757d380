"""SR-IOV: how many virtual functions a host's NICs have for VMs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Self

from pydantic import BeforeValidator, Field

from vsphere_ai.fabric import virtual_functions
from vsphere_ai.fabric.corrections import VirtualFunctions
from vsphere_ai.fabric.virtual_functions import DEVICES, PhysicalFunction, physical_functions
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.names.pci_address import PciAddress, distinct
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import function_demands
from vsphere_ai.resources._helpers.entries import overlaid
from vsphere_ai.resources._helpers.factories import invoke, restart
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.topics import Topic

MANAGER = "configManager.pciPassthruSystem"
Count = Annotated[int, Field(ge=0, le=1024)]


class Sriov(Corrects, Resource):
    """Sets how many virtual functions the named NICs of a host have. NICs that are not named are never touched.

    A NIC is converged when it has that many now, not when they are configured: a change waits for a restart of the
    host, and this kind asks for that restart.
    """

    kind = KindName("sriov")
    target = "host"
    shorthand = "functions"
    keyed = True
    traits = Traits(
        duties=(Duty("`sriov`", "hosts", ("UpdatePassthruConfig",)),),
        after=kind_names("uplinks", "passthrough"),
        properties={"HostSystem": virtual_functions.PATHS},
        affects=Topic.PVRDMA,
    )

    functions: Annotated[Mapping[PciAddress, Count], BeforeValidator(distinct)] | None = setting(
        "PCI address of a NIC -> number of its virtual functions; 0 switches SR-IOV off."
    )

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The number of functions of each NIC."""
        return {pci: n for c in corrections if isinstance(c, VirtualFunctions) for pci, n in c.functions.items()}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read how many functions every NIC that can have any has, and what waits for a restart."""
        if facts.get(DEVICES) is None or facts.get("config.network.pnic") is None:
            return None
        found = {f.pci: _count(f) for f in physical_functions(facts).values() if f.capable or f.now or f.configured}
        return cls.model_construct(functions=dict(sorted(found.items())))

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No such NIC, one that cannot, too many functions, or fewer than the VMs there have."""
        facts = view.facts(target.ref)
        if self.observe(facts, view.estate) is None:
            message = "the PCI devices or NICs of this host cannot be read"
            yield self.problem(target, "unreadable", message, "connect the host to vCenter and grant System.Read on it")
            return
        known = physical_functions(facts)
        changing = self._changing(view, facts)
        for pci, count in changing.items():
            if pci in known:
                yield from self._nic_problems(target, known[pci], count)
            else:
                nics = ", ".join(f"{f.nic} = {f.pci}" for f in known.values()) or "none"
                yield self.problem(target, "nic", f"{pci} is no NIC of this host", f"its NICs are {nics}")
        yield from self._use_problems(target, view, changing)

    def _changing(self, view: View, facts: Facts) -> dict[str, int]:
        have = (self.observe(facts, view.estate) or Sriov()).functions or {}
        return {pci: count for pci, count in (self.functions or {}).items() if have.get(pci, 0) != count}

    def _use_problems(self, target: Target, view: View, changing: Mapping[str, int]) -> Iterator[Problem]:
        """VMs that run here, and of which the playbook says nothing else, keep their virtual functions."""
        facts = view.facts(target.ref)
        vms = [v for v in function_demands.running(view, target.ref) if (v.ref, "adapters") not in view.stated]
        asked = function_demands.demands(view, vms)
        before = virtual_functions.unserved(view.estate, facts, asked)
        after = virtual_functions.unserved(view.estate, _with(facts, changing), asked)
        left_out = [d for d in after if d not in before]
        names = sorted({view.facts(d.vm).name for d in left_out})
        if names:
            remedy = "keep as many as the VMs on this host have, or move them to another host first"
            message = f"{', '.join(names)} would be left without a virtual function"
            yield self.problem(target, "in-use", message, remedy)

    def _nic_problems(self, target: Target, function: PhysicalFunction, count: int) -> Iterator[Problem]:
        name = f"{function.nic} ({function.pci})"
        if function.passthrough:
            remedy = "switch passthrough off for it first; a NIC is shared or given away, not both"
            yield self.problem(target, "passthrough", f"{name} is given to VMs whole (DirectPath I/O)", remedy)
        elif not function.capable and count:
            remedy = "use a NIC with SR-IOV, and switch on SR-IOV and VT-d/IOMMU in the BIOS"
            yield self.problem(target, "not-capable", f"{name} cannot have virtual functions on this host", remedy)
        elif function.most is not None and count > function.most:
            message = f"{count} virtual functions, {name} has at most {function.most}"
            yield self.problem(target, "too-many", message, f"write {function.most} or less")

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set every NIC that is configured otherwise in one call, and ask for the restart that makes it so."""
        facts = view.facts(change.target.ref)
        known, changing = physical_functions(facts), self._changing(view, facts)
        wrong = {pci: count for pci, count in changing.items() if known[pci].configured != count}
        said = ", ".join(f"{known[pci].nic} {count}" for pci, count in changing.items())
        if not wrong:
            yield restart(change, f"restart, which makes virtual functions: {said}")
            return
        args = {"config": tuple(_config(known[pci], count) for pci, count in wrong.items())}
        said = f"set virtual functions: {said}"
        yield invoke(change, MANAGER, "UpdatePassthruConfig", args, said, needs_maintenance=True, needs_reboot=True)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the NICs as they will be, to VMs that want virtual functions."""
        facts = view.facts(target.ref)
        return Projection(self, (_with(facts, self._changing(view, facts)),) if after == "plan" else ())

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """List the NICs that have functions, in a rollback also the others; what waits for a restart is left out."""
        if form == "shown":
            return StateExport(self)
        ready = {pci: count for pci, count in (self.functions or {}).items() if isinstance(count, int)}
        if form == "rollback":  # what was made is taken away again
            return StateExport(
                self.model_copy(update={"functions": {p: c for p, c in ready.items() if c in range(1025)}})
            )
        waiting = ", ".join(f"{p} has {c}" for p, c in (self.functions or {}).items() if p not in ready)
        found = {pci: count for pci, count in ready.items() if count}
        left_out = f"sriov left out: {waiting}" if waiting else ""
        return StateExport(self.model_copy(update={"functions": found}) if found else None, left_out)


def _count(function: PhysicalFunction) -> int | str:
    if function.now is None or function.configured is None:
        return "not known"
    waits = function.now != function.configured
    return f"{function.now} (after a restart: {function.configured})" if waits else function.now


def _config(function: PhysicalFunction, count: int) -> dict[str, object]:
    return {
        "_typeName": "HostSriovConfig",
        "id": function.pci,
        "passthruEnabled": function.passthrough,  # required here too, and not ours to change
        "sriovEnabled": count > 0,
        "numVirtualFunction": count,
    }


def _with(facts: Facts, wanted: Mapping[str, int]) -> Facts:
    """Return a host as it is read once these NICs have that many functions."""
    planned = {
        pci: {"numVirtualFunctionRequested": n, "numVirtualFunction": n, "sriovEnabled": n > 0, "sriovActive": n > 0}
        for pci, n in wanted.items()
    }
    return facts.having({DEVICES: overlaid(facts.get(DEVICES), "id", planned)})
