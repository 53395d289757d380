"""RoCE on a host: lossless priority, trust and marks of its NVIDIA ConnectX NICs, and what their RDMA devices are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from vsphere_ai.fabric.nic_settings import DCB
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.module_options import changed, parsed, written
from vsphere_ai.model.state import Change, Problem, Target, observed
from vsphere_ai.model.steps import Invoke, Probe, Query, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources.base import Export, Form, Resource, Traits
from vsphere_ai.resources.mixins import AsksVCenter, ReadBySsh

# Mellanox/NVIDIA "Native ESXi Driver User Manual", module parameters; vSphere Storage 7.0, "Configuring a RoCE network"
CORE, RDMA = "nmlx5_core", "nmlx5_rdma"
MANAGER = "configManager.kernelModuleSystem"
TRUST = {"1": "pcp", "2": "dscp"}
DEVICES, NICS = "config.network.rdmaDevice", "config.network.pnic"
Version = Literal["rocev1", "rocev2", "both"]
Priority = Annotated[int, Field(ge=0, le=7)]
Dscp = Annotated[int, Field(ge=0, le=63)]
DSCP_PER_PRIORITY = 8  # the driver maps DSCP n to priority n // 8 unless it is told otherwise


def _question(module: str) -> Query:
    return Query(module, MANAGER, "QueryConfiguredModuleOptionString", {"name": module})


class Roce(ReadBySsh, AsksVCenter, Resource):
    """Makes RoCE traffic of a host lossless: priority flow control, trust, marking, all as options of the driver.

    Options of the NIC drivers nmlx5_core and nmlx5_rdma hold for every ConnectX NIC of the host and count from the
    next boot on; options that are not named here, such as `max_vfs`, stay as they are. The physical switch has to be
    set up alike, which cannot be seen from here.
    """

    kind = "roce"
    target = "host"
    traits = Traits(
        properties={"HostSystem": (DEVICES, NICS)},
    )
    queries: ClassVar[tuple[Query, ...]] = (_question(CORE), _question(RDMA))
    probes: ClassVar[tuple[Probe, ...]] = (DCB,)  # for the rule that compares what is set with what is at work

    version: Version | None = Field(
        default=None, description="RoCE version every RDMA device of the host has to speak; proved, it cannot be set."
    )
    pfc_priority: Priority | Literal["off"] | None = Field(
        default=None,
        description="Priority with flow control (PFC), both ways, usually 3; `off` gives the NICs global pause again.",
    )
    trust: Literal["pcp", "dscp"] | None = Field(
        default=None, description="What tells a frame's priority: `pcp` (VLAN tag) or `dscp` (IP header)."
    )
    dscp: Dscp | Literal["off"] | None = Field(
        default=None, description="DSCP value forced on outgoing RoCE traffic, usually 26; `off` for none."
    )
    pcp: Priority | Literal["off"] | None = Field(
        default=None, description="VLAN priority forced on outgoing RoCE traffic; `off` for none."
    )
    ecn: bool | None = Field(default=None, description="Explicit congestion notification.")
    devices: Mapping[str, str] | None = observed("RDMA device -> its NIC, driver, state, speed, MTU and protocols.")

    @property
    def needs_commands(self) -> bool:
        """What is at work is asked for a rule only; the options are read and set through vCenter."""
        return False

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the configured options and the RDMA devices; a host without such NICs has no options."""
        found = _devices(facts)
        if found is None:
            return None
        core, rdma = (parsed(facts.get(f"query:{module}")) for module in (CORE, RDMA))
        known = [f"query:{module}" in facts.properties for module in (CORE, RDMA)]
        return cls.model_construct(
            version=_common_version(found),
            pfc_priority=_priority(core) if known[0] else None,
            trust=TRUST.get(core.get("trust_state") or "1") if known[0] else None,
            dscp=_forced(rdma.get("dscp_force")) if known[1] else None,
            pcp=_forced(rdma.get("pcp_force")) if known[1] else None,
            ecn=_number(core.get("ecn")) == 1 if known[0] else None,
            devices={str(d["device"]): _described(d, facts) for d in found},
        )

    def settle(self, target: Target, view: View) -> Self:
        """A host whose devices speak both versions has the wanted one; what is left out stays."""
        full = super().settle(target, view)
        now = view.state(target.ref, self.kind)
        spoken = now.version if now else None
        return full.model_copy(update={"version": spoken}) if spoken == "both" else full

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No device, another driver, options that cannot be read, a version nobody speaks, marks nobody trusts."""
        facts = view.facts(target.ref)
        found = _devices(facts)
        if found is None:
            yield Problem(target, "roce.unreadable", "the RDMA devices of this host cannot be read",
                          "connect the host to vCenter; it needs ESXi 7.0 or later")  # fmt: skip
            return
        if not found:
            yield Problem(target, "roce.no-device", "this host has no RDMA device",
                          "leave it out of the play, or fit a RoCE-capable NIC (esxcli rdma device list)")  # fmt: skip
            return
        said = view.stated.get((target.ref, self.kind)) or self
        spoken = _common_version(found)
        if said.version and spoken not in (said.version, "both"):
            yield Problem(target, "roce.version", f"not every RDMA device of this host speaks {said.version}",
                          "; ".join(f"{name}: {text}" for name, text in (self.devices or {}).items()))  # fmt: skip
        yield from _module_problems(target, facts, said)
        if said.dscp not in (None, "off") and self.trust == "pcp":
            yield Problem(target, "roce.trust", f"dscp {said.dscp} is set, and the NICs look at the VLAN tag only",
                          "write trust: dscp")  # fmt: skip
        pausing = getattr(view.stated.get((target.ref, "nics")), "nics", None) or {}
        both = [n for n, nic in pausing.items() if nic.pauses and _driver(facts, n) == CORE]
        if self.pfc_priority not in (None, "off") and both:
            yield Problem(target, "roce.pause",
                          f"global pause is wanted on {', '.join(sorted(both))}, PFC on priority {self.pfc_priority} "
                          "switches it off", "use one of them: pfc_priority: off, or pause off in nics")  # fmt: skip

    def notes(self, target: Target, view: View) -> Iterator[str]:
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
                yield Invoke(
                    target=change.target,
                    kinds=(self.kind,),
                    path=MANAGER,
                    method="UpdateModuleOptionString",
                    args={"name": module, "options": text},
                    needs_maintenance=True,
                    needs_reboot=True,
                    summary=f"set options of {module}: {_words(wanted)}",
                )

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
        return {
            option: str(value) if isinstance(value, int) else None
            for option, (name, value) in marks.items()
            if name in fields
        }

    def export(self, target: Target, view: View, form: Form) -> Export:
        """State every option, also a driver's default; flow control that differs each way cannot be stated."""
        if form == "shown":
            return Export(self)
        odd = {"pfc_priority": None} if self._odd() else {}
        left_out = f"roce left out: PFC is set to {self.pfc_priority}" if odd else ""
        stated = self.model_copy(update={"version": None, "devices": None, **odd})
        given = any(getattr(stated, name) is not None for name in type(self).model_fields)
        return Export(stated if given else None, left_out)

    def _odd(self) -> bool:
        return isinstance(self.pfc_priority, str) and self.pfc_priority != "off"


def _module_problems(target: Target, facts: Facts, said: Any) -> Iterator[Problem]:
    """The options are those of one family of drivers, and reading them takes a right to change settings."""
    wants = {
        CORE: [n for n in ("pfc_priority", "trust", "ecn") if getattr(said, n) is not None],
        RDMA: [n for n in ("dscp", "pcp") if getattr(said, n) is not None],
    }
    drivers = {str(d.get("driver", "")) for d in _devices(facts) or ()}
    if any(wants.values()) and RDMA not in drivers:
        yield Problem(target, "roce.driver",
                      f"the RDMA driver of this host is {', '.join(sorted(drivers))}; its options are not known here",
                      f"only those of {RDMA} (NVIDIA ConnectX-4 and later) are; see the manual of the NIC")  # fmt: skip
        return
    for module, names in wants.items():
        if names and f"query:{module}" not in facts.properties:
            why = facts.unreadable.get(f"query:{module}", "the host does not show them")
            yield Problem(target, "roce.options-unreadable", f"the options of {module} cannot be read: {why}",
                          "grant Host.Config.Settings on the host; is the driver installed?")  # fmt: skip


def _devices(facts: Facts) -> tuple[Mapping[str, Any], ...] | None:
    """Return the RDMA devices; vCenter may leave the property out where there are none."""
    found = facts.get(DEVICES, () if NICS in facts.properties and DEVICES not in facts.unreadable else None)
    return None if found is None else tuple(found)


def _common_version(devices: Any) -> str | None:
    able = [d.get("capability") or {} for d in devices]
    one, two = (bool(able) and all(a.get(key) for a in able) for key in ("roceV1Capable", "roceV2Capable"))
    return "both" if one and two else "rocev2" if two else "rocev1" if one else None


def _described(device: Mapping[str, Any], facts: Facts) -> str:
    link, can = device.get("connectionInfo") or {}, device.get("capability") or {}
    uplink = (device.get("backing") or {}).get("pairedUplink")
    nic: Mapping[str, Any] = next((p for p in facts.get(NICS) or () if p.get("key") == uplink), {})
    protocols = [word for key, word in (("roceV1Capable", "v1"), ("roceV2Capable", "v2")) if can.get(key)]
    words = [
        str(nic.get("device", "no NIC")),
        " ".join(str(w) for w in (device.get("driver"), nic.get("driverVersion")) if w),
        f"firmware {nic['firmwareVersion']}" if nic.get("firmwareVersion") else "",
        str(link.get("state", "unknown")),
        f"{link.get('speedInMbps', 0) // 1000} Gbit/s",
        f"MTU {link.get('mtu')}",
        f"RoCE {' '.join(protocols) or 'none'}",
    ]
    return ", ".join(w for w in words if w)


def _driver(facts: Facts, nic: str) -> str:
    return next((str(p.get("driver")) for p in facts.get(NICS) or () if p["device"] == nic), "")


def _number(text: str | None) -> int | None:
    try:
        return int(text or "0", 0)
    except ValueError:
        return None


def _priority(core: Mapping[str, str | None]) -> int | str:
    sent, received = _number(core.get("pfctx")), _number(core.get("pfcrx"))
    if sent == received == 0:
        return "off"
    if sent == received and sent is not None and sent.bit_count() == 1:
        return sent.bit_length() - 1
    return f"pfctx={core.get('pfctx')} pfcrx={core.get('pfcrx')}"


def _forced(text: str | None) -> int | str:
    number = -1 if text is None else _number(text)
    return "off" if number is None or number < 0 else number


def _words(options: Mapping[str, str | None]) -> str:
    return ", ".join(name if value is None else f"{name}={value}" for name, value in options.items())
