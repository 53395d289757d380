"""RoCE on a host: lossless priority, trust and marks of its NVIDIA ConnectX NICs, and what their RDMA devices are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from vsphere_ai.fabric.corrections import LosslessRoce
from vsphere_ai.fabric.nic_settings import DCB
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.names.module_options import changed, parsed, written
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, observed, setting
from vsphere_ai.model.steps import Probe, Query, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import invoke
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.host_settings import Pauses
from vsphere_ai.resources.mixins import AsksMore, stated
from vsphere_ai.resources.roce import driver
from vsphere_ai.resources.roce.driver import CORE, DEVICES, NICS, RDMA, TRUST, common_version, driver_of, rdma_devices
from vsphere_ai.resources.topics import Topic

MANAGER = "configManager.kernelModuleSystem"
Version = Literal["rocev1", "rocev2", "both"]
Priority = Annotated[int, Field(ge=0, le=7)]
Dscp = Annotated[int, Field(ge=0, le=63)]
DSCP_PER_PRIORITY = 8  # the driver maps DSCP n to priority n // 8 unless options say otherwise


def _question(module: str) -> Query:
    return Query(module, MANAGER, "QueryConfiguredModuleOptionString", {"name": module})


class Roce(AsksMore, Corrects, Resource):
    """Makes RoCE traffic of a host lossless: priority flow control, trust, marking, all as options of the driver.

    Options of the NIC drivers nmlx5_core and nmlx5_rdma hold for every ConnectX NIC of the host and count from the
    next boot on; options that are not named here, such as `max_vfs`, stay as they are. The physical switch has to be
    set up alike, which cannot be seen from here.
    """

    kind = KindName("roce")
    target = "host"
    traits = Traits(
        duties=(
            Duty(
                "`roce`; reading the options takes it too",
                "hosts",
                ("QueryConfiguredModuleOptionString", "UpdateModuleOptionString"),
            ),
        ),
        topics=Topic.ROCE,
        decides={f"query:{CORE}": "pfc_priority"},
        properties={"HostSystem": (DEVICES, NICS)},
    )
    queries: ClassVar[tuple[Query, ...]] = (_question(CORE), _question(RDMA))
    probes: ClassVar[tuple[Probe, ...]] = (DCB,)  # for the rule that compares what is set with what is at work

    version: Version | None = setting(
        "RoCE version every RDMA device of the host has to speak; proved, it cannot be set."
    )
    pfc_priority: Priority | Literal["off"] | None = setting(
        "Priority with flow control (PFC), both ways, usually 3; `off` gives the NICs global pause again."
    )
    trust: Literal["pcp", "dscp"] | None = setting(
        "What gives a frame's priority: `pcp` (VLAN tag) or `dscp` (IP header)."
    )
    dscp: Dscp | Literal["off"] | None = setting(
        "DSCP value forced on outgoing RoCE traffic, usually 26; `off` for none."
    )
    pcp: Priority | Literal["off"] | None = setting("VLAN priority forced on outgoing RoCE traffic; `off` for none.")
    ecn: bool | None = setting("Explicit congestion notification.")
    devices: Mapping[str, str] | None = observed("RDMA device -> its NIC, driver, state, speed, MTU and protocols.")

    @property
    def needs_commands(self) -> bool:
        """What is at work is asked for a rule only; the options are read and set through vCenter."""
        return False

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The lossless priority, and how frames of it are marked."""
        own = next((c for c in corrections if isinstance(c, LosslessRoce)), None)
        return {"pfc_priority": own.priority, "trust": "dscp", "dscp": own.dscp} if own else {}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the configured options and the RDMA devices; a host without such NICs has no options."""
        found = rdma_devices(facts)
        if found is None:
            return None
        core, rdma = (parsed(facts.get(f"query:{module}")) for module in (CORE, RDMA))
        known = [f"query:{module}" in facts.properties for module in (CORE, RDMA)]
        return cls.model_construct(
            version=common_version(found),
            pfc_priority=driver.pfc_in(core) if known[0] else None,
            trust=TRUST.get(core.get("trust_state") or "1") if known[0] else None,
            dscp=driver.forced_in(rdma.get("dscp_force")) if known[1] else None,
            pcp=driver.forced_in(rdma.get("pcp_force")) if known[1] else None,
            ecn=driver.number_in(core.get("ecn")) == 1 if known[0] else None,
            devices={str(d["device"]): driver.described(d, facts) for d in found},
        )

    def settle(self, target: Target, view: View) -> Self:
        """A host whose devices speak both versions has the wanted one; what is left out stays."""
        full, now = super().settle(target, view), view.get(Roce, target.ref)
        return full.model_copy(update={"version": "both"}) if now and now.version == "both" else full

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No device, another driver, options that cannot be read, a version that is not spoken, untrusted marks."""
        facts = view.facts(target.ref)
        found = rdma_devices(facts)
        if found is None:
            remedy = "connect the host to vCenter; it needs ESXi 7.0 or later"
            yield self.problem(target, "unreadable", "the RDMA devices of this host cannot be read", remedy)
            return
        if not found:
            remedy = "leave it out of the play, or fit a RoCE-capable NIC (esxcli rdma device list)"
            yield self.problem(target, "no-device", "this host has no RDMA device", remedy)
            return
        said = view.said(Roce, target.ref) or self
        spoken = common_version(found)
        if said.version and spoken not in (said.version, "both"):
            each = "; ".join(f"{name}: {text}" for name, text in (self.devices or {}).items())
            yield self.problem(target, "version", f"not every RDMA device of this host speaks {said.version}", each)
        yield from driver.module_problems(target, facts, said)
        if said.dscp not in (None, "off") and self.trust == "pcp":
            message = f"dscp {said.dscp} is set, and the NICs look at the VLAN tag only"
            yield self.problem(target, "trust", message, "write trust: dscp")
        pausing = {n for said in stated(view, target.ref, Pauses) for n, p in said.pauses().items() if p.rx or p.tx}
        both = ", ".join(sorted(n for n in pausing if driver_of(facts, n) == CORE))
        if self.pfc_priority not in (None, "off") and both:
            message = f"global pause is wanted on {both}, PFC on priority {self.pfc_priority} switches it off"
            yield self.problem(target, "pause", message, "use one of them: pfc_priority: off, or pause off in nics")

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say what the switch has to do alike, and where marked traffic misses the lossless priority."""
        if isinstance(self.pfc_priority, int):
            yield f"the ports of the physical switch need PFC on priority {self.pfc_priority} too"
            if self.trust == "dscp" and isinstance(self.dscp, int):
                priority = self.dscp // DSCP_PER_PRIORITY
                if priority != self.pfc_priority:
                    yield f"DSCP {self.dscp} is priority {priority} by default: RoCE traffic is not the lossless one"
            if self.trust == "pcp" and isinstance(self.pcp, int) and self.pcp != self.pfc_priority:
                yield f"RoCE traffic is marked with priority {self.pcp}, PFC is on {self.pfc_priority}: not lossless"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Send the whole option string of each module that changes, and restart the host, which loads them with it."""
        facts = view.facts(change.target.ref)
        fields = {f.name for f in change.fields}
        for module, wanted in ((CORE, self._core(fields)), (RDMA, self._rdma(fields))):
            now = facts.get(f"query:{module}")
            text = written(changed(parsed(now), wanted))
            if wanted and text != written(parsed(now)):
                args, summary = {"name": module, "options": text}, f"set options of {module}: {driver.in_words(wanted)}"
                step = invoke(change, MANAGER, "UpdateModuleOptionString", args, summary)
                yield replace(step, needs_maintenance=True, needs_reboot=True)

    def _core(self, fields: set[str]) -> dict[str, str | None]:
        options: dict[str, str | None] = {}
        if "pfc_priority" in fields:
            mask = f"0x{1 << self.pfc_priority:02x}" if isinstance(self.pfc_priority, int) else None
            options |= {"pfctx": mask, "pfcrx": mask}
        if "trust" in fields:
            options["trust_state"] = next(n for n, word in TRUST.items() if word == self.trust)
        if "ecn" in fields:
            options["ecn"] = "1" if self.ecn else "0"
        return options

    def _rdma(self, fields: set[str]) -> dict[str, str | None]:
        marks = {"dscp_force": ("dscp", self.dscp), "pcp_force": ("pcp", self.pcp)}
        wanted = {option: value for option, (name, value) in marks.items() if name in fields}
        return {option: str(value) if isinstance(value, int) else None for option, value in wanted.items()}

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """State every option, also a driver's default; flow control that differs each way cannot be stated."""
        if form == "shown":
            return StateExport(self)
        odd = isinstance(self.pfc_priority, str) and self.pfc_priority != "off"
        left_out = f"roce left out: PFC is set to {self.pfc_priority}" if odd else ""
        stated = self.model_copy(update={"version": None, "devices": None, **({"pfc_priority": None} if odd else {})})
        return StateExport(stated if any(value is not None for _, value in stated) else None, left_out)
