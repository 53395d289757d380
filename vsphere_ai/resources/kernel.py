"""Boot-time settings of ESXi's kernel: PCIe address translation services (ATS), which GPUDirect RDMA needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_corrections import AddressTranslation
from vsphere_ai.model.facts import CommandOutput, Estate, Facts, ProbeFailure
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Probe, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import restart, shell
from vsphere_ai.resources.base import Form, Resource, StateExport
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.mixins import AsksMore
from vsphere_ai.security.redaction import untrusted

# NVIDIA AI Enterprise 5.0, "VMware vSphere Deployment Guide", GPUDirect RDMA: "Enable ATS"
SETTING = "atsSupport"
ATS = Probe("kernel-ats", ("esxcli", "system", "settings", "kernel", "list", "-o", SETTING))
WORDS = {True: "TRUE", False: "FALSE"}


class Kernel(AsksMore, Corrects, Resource):
    """Switches ATS (PCIe address translation services) of a host's kernel on or off; a restart makes it count.

    vCenter does not show this setting: it is read and set over SSH.
    """

    kind = KindName("kernel")
    target = "host"
    probes: ClassVar[tuple[Probe, ...]] = (ATS,)

    ats_support: bool | None = setting("ATS for PCIe devices, which GPUDirect RDMA needs.")

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """ATS."""
        return {"ats_support": True} if any(isinstance(c, AddressTranslation) for c in corrections) else {}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read what is configured and what the kernel runs with; None when the host was not asked."""
        output = facts.probes.get(ATS.name)
        row = _row(output.stdout) if isinstance(output, CommandOutput) and output.status == 0 else None
        if row is None:
            return None
        configured, running = row
        now = running if configured == running else f"{'on' if configured else 'off'} after a restart"
        return cls.model_construct(ats_support=now)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The setting cannot be read."""
        output = view.facts(target.ref).probes.get(ATS.name)
        if isinstance(output, ProbeFailure):
            yield self.problem(target, output.rule, f"the kernel settings cannot be read: {output.reason}", output.help)
        elif self.observe(view.facts(target.ref), view.estate) is None:
            answer = untrusted(output.stdout + output.stderr).replace("\n", " / ") if output else "it was not asked"
            message = f"ATS of this host cannot be read: {answer.strip(' /')}"
            yield self.problem(target, "unreadable", message, f"try it on the host: {' '.join(ATS.argv)}")

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set what is configured, unless it only waits for the restart."""
        output = view.facts(change.target.ref).probes.get(ATS.name)
        row = _row(output.stdout) if isinstance(output, CommandOutput) else None
        if self.ats_support is None or row is None:
            return
        word = "on" if self.ats_support else "off"
        if row[0] == self.ats_support:
            yield restart(change, f"restart, which switches ATS {word}")
        else:
            argv = ("esxcli", "system", "settings", "kernel", "set", "-s", SETTING, "-v", WORDS[self.ats_support])
            yield shell(change, argv, f"switch ATS {word}", needs_maintenance=True, needs_reboot=True)

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """Hosts come with it off, which a playbook leaves out; what waits for a restart cannot be stated."""
        if form == "shown":
            return StateExport(self)
        waits = self.ats_support is not None and not isinstance(self.ats_support, bool)
        left_out = f"kernel left out: ATS is {self.ats_support}" if waits else ""
        stated = isinstance(self.ats_support, bool) if form == "rollback" else self.ats_support is True
        return StateExport(self if stated else None, left_out)


def _row(listing: str) -> tuple[bool, bool] | None:
    """Return (configured, running) of the one row; None when the host answered something else."""
    for line in listing.splitlines():
        words = line.split()
        if words[:2] == [SETTING, "Bool"] and len(words) >= 4 and {*words[2:4]} <= {*WORDS.values()}:
            return words[2] == "TRUE", words[3] == "TRUE"
    return None
