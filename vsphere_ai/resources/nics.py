"""Physical NICs of a host: global pause (flow control), speed, rings, interrupt coalescing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from vsphere_ai.fabric import nic_settings
from vsphere_ai.fabric.nic_settings import (
    COALESCE,
    COALESCE_OPTIONS,
    MOST,
    NIC,
    PAUSE,
    RINGS,
    Coalesce,
    Pause,
    Rings,
    coalescing_in,
)
from vsphere_ai.model.facts import Estate, Facts, ProbeFailure
from vsphere_ai.model.state import Change, Problem, Target
from vsphere_ai.model.steps import Invoke, Probe, Shell, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.keyed import settled_each
from vsphere_ai.resources.base import After, Export, Form, Projection, Resource, Traits
from vsphere_ai.resources.mixins import ReadBySsh
from vsphere_ai.security.redaction import untrusted

NICS = "config.network.pnic"
VMNIC = r"vmnic[0-9]{1,4}"
NO_GLOBAL_PAUSE = "nmlx5_core"
"""The driver whose flow control per priority (see `roce`) switches global pause off, whatever is configured."""
READ_BY_SSH = ("pause", "rings", "coalesce")


def _name(text: str) -> str:
    """Return the name of a NIC, which gets into a command; ValueError when it is none."""
    if not re.fullmatch(VMNIC, text):
        raise ValueError(f"{text!r} is no NIC; write for example vmnic4")
    return text


Name = Annotated[str, AfterValidator(_name)]


class Nic(BaseModel):
    """One physical NIC. What is left out stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    pause: Pause | None = Field(default=None, description="Global pause: `{rx: true, tx: true}`.")
    speed: Annotated[int, Field(ge=10)] | Literal["auto"] | None = Field(
        default=None, description="Speed in Mbit/s, full duplex; `auto` lets it be negotiated."
    )
    rings: Rings | None = Field(
        default=None, description="Rings, of a NIC with an RDMA device: `{rx: 4096, tx: 4096}`; more is less loss."
    )
    coalesce: Coalesce | None = Field(
        default=None, description="Interrupt coalescing: `{rx_usecs: 3, adaptive_rx: false}`; less is less latency."
    )

    @property
    def pauses(self) -> bool:
        """Whether any global pause is on."""
        return self.pause is not None and bool(self.pause.rx or self.pause.tx)


class HostNics(ReadBySsh, Resource):
    """Sets flow control, speed, rings and coalescing of the physical NICs a playbook names; others are never touched.

    Drivers come up with settings of their own: after a restart by this plan it is set again, after any other
    restart the next plan shows the difference.
    """

    kind = "nics"
    target = "host"
    shorthand = "nics"
    keyed = True
    traits = Traits(
        after=("roce",),
        properties={"HostSystem": (NICS,)},
    )
    probes: ClassVar[tuple[Probe, ...]] = (PAUSE, COALESCE, RINGS, MOST)

    nics: Mapping[Name, Nic] | None = Field(default=None, description="NIC -> its settings: `{vmnic4: {speed: auto}}`.")

    @property
    def needs_commands(self) -> bool:
        """Speeds are read and set through vCenter."""
        return any(getattr(nic, name) is not None for nic in (self.nics or {}).values() for name in READ_BY_SSH)

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read speeds from vCenter and the rest over SSH, without which it is not known."""
        found = facts.get(NICS)
        if found is None:
            return None
        pauses, coalescing = nic_settings.pauses(facts), coalescing_in(nic_settings.said(facts, COALESCE.name))
        nics = {
            name: Nic.model_construct(
                pause=pauses.get(name),
                speed=_speed(nic),
                rings=nic_settings.rings(facts, name),
                coalesce=coalescing.get(name),
            )
            for name, nic in ((str(n["device"]), n) for n in found)
        }
        return cls.model_construct(nics=nics)

    def settle(self, target: Target, view: View) -> Self:
        """What a playbook leaves out of pause, rings and coalescing stays as it is."""
        return settled_each(self, target, view, _settled)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The NIC does not exist, its pause cannot be read, or it cannot have what is wanted of it."""
        facts = view.facts(target.ref)
        found = {str(n["device"]): n for n in facts.get(NICS) or ()}
        said = getattr(view.stated.get((target.ref, self.kind)), "nics", None) or self.nics or {}
        now = self.observe(facts, view.estate)
        there = (now.nics if now else None) or {}
        for probe, field, words in ((PAUSE, "pause", "flow control"), (COALESCE, "coalesce", "interrupt coalescing")):
            if any(getattr(n, field) is not None for n in said.values()):
                yield from _unread(target, facts, probe, words)
        for name, wanted in said.items():
            if name not in found:
                yield Problem(target, "nics.missing", f"this host has no NIC {name}",
                              f"it has {', '.join(sorted(found)) or 'none that vCenter shows'}")  # fmt: skip
                continue
            speeds = [s["speedMb"] for s in found[name].get("validLinkSpecification", ()) if s["duplex"]]
            if isinstance(wanted.speed, int) and wanted.speed not in speeds:
                yield Problem(target, "nics.speed", f"{name} cannot be set to {wanted.speed} Mbit/s",
                              f"its speeds: {', '.join(map(str, speeds)) or 'it only negotiates'}")  # fmt: skip
            if wanted.speed == "auto" and found[name].get("autoNegotiateSupported") is False:
                yield Problem(target, "nics.speed", f"{name} does not negotiate its speed",
                              f"its speeds: {', '.join(map(str, speeds))}")  # fmt: skip
            if wanted.pause is not None and any(n.pause for n in there.values()) and there[name].pause is None:
                yield Problem(target, "nics.pause", f"{name} has no global pause", "leave pause out for it")
            if wanted.coalesce is not None and nic_settings.said(facts, COALESCE.name):
                yield from _coalesce_problems(target, name, wanted.coalesce, there[name].coalesce)
            if wanted.rings is not None:
                yield from _ring_problems(target, facts, found[name], wanted.rings)
            yield from _pfc_problem(target, view, name, wanted, str(found[name].get("driver")))

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """Say what else has to be done for a setting to hold."""
        on = sorted(n for n, w in (self.nics or {}).items() if w.pauses)
        if on:
            yield f"the ports of the physical switch at {', '.join(on)} need flow control on too"
        now = self.observe(view.facts(target.ref), view.estate)
        was = (now.nics if now else None) or {}
        resized = sorted(n for n, w in (self.nics or {}).items() if w.rings and w.rings != was.get(n, Nic()).rings)
        if resized:
            yield f"the link of {', '.join(resized)} may go down for a moment when its rings change (unverified)"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set what differs; the link of a NIC goes down for a moment, so the host is empty meanwhile."""
        before = change.before.nics if change.before else {}
        # a restart in this plan gives the drivers their own setting again
        later = change.target.ref in view.rebooting
        for name, wanted in sorted((self.nics or {}).items()):
            if not re.fullmatch(VMNIC, name):
                raise ValueError(f"{name!r} is not the name of a NIC")
            now = before.get(name) or Nic()
            if wanted.speed is not None and wanted.speed != now.speed:
                yield _speed_step(change.target, name, wanted.speed)
            if wanted.pause is not None and wanted.pause != now.pause:
                flags = (("-r", wanted.pause.rx), ("-t", wanted.pause.tx))
                words = [word for flag, on in flags if on is not None for word in (flag, str(on).lower())]
                yield Shell(
                    target=change.target,
                    kinds=(self.kind,),
                    argv=("esxcli", "network", "nic", "pauseParams", "set", "-n", name, *words),
                    needs_maintenance=True,
                    after_reboot=later,
                    summary=f"set global pause of {name}: {wanted.pause}",
                )
            yield from _settings_steps(change.target, name, wanted, now, later=later)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Drivers come up with settings of their own after a reboot."""
        if after == "plan":
            return Projection(self)
        gone = dict.fromkeys(READ_BY_SSH)
        left = {n: c.model_copy(update=gone) for n, c in (self.nics or {}).items()}
        return Projection(self.model_copy(update={"nics": left}))

    def export(self, target: Target, view: View, form: Form) -> Export:
        """State what is there: the speed of each NIC, and the rest where it was read."""
        return Export(self if self.nics or form == "shown" else None)


def _speed(nic: Mapping[str, Any]) -> int | str:
    link = (nic.get("spec") or {}).get("linkSpeed")
    return int(link["speedMb"]) if link else "auto"


def _settled(wanted: Nic, now: Nic | None) -> Nic:
    said = {n: getattr(wanted, n) for n in READ_BY_SSH if getattr(wanted, n) is not None}
    return wanted.model_copy(update={n: w.filled(getattr(now, n, None)) for n, w in said.items()})


def _unread(target: Target, facts: Facts, probe: Probe, what: str) -> Iterator[Problem]:
    output = facts.probes.get(probe.name)
    if isinstance(output, ProbeFailure):
        yield Problem(target, output.rule, f"the {what} of the NICs cannot be read: {output.reason}", output.help)
    elif output is None or output.status != 0:
        words = (
            "it was not asked" if output is None else untrusted(output.stdout + output.stderr).strip() or "no answer"
        )
        yield Problem(target, "nics.unreadable", f"the {what} of the NICs cannot be read: {words}",
                      f"try it on the host: {' '.join(probe.argv)}")  # fmt: skip


def _coalesce_problems(target: Target, name: str, wanted: Coalesce, now: Coalesce | None) -> Iterator[Problem]:
    lacks = [n for n in Coalesce.model_fields if getattr(wanted, n) is not None and getattr(now, n, None) is None]
    if lacks:
        yield Problem(target, "nics.coalesce",
                      f"{name} tells nothing of {', '.join(lacks)}: its driver has no such setting",
                      "leave that out for it")  # fmt: skip


def _ring_problems(target: Target, facts: Facts, nic: Mapping[str, Any], wanted: Rings) -> Iterator[Problem]:
    name = str(nic["device"])
    output, most = facts.probes.get(f"{RINGS.name}:{name}"), nic_settings.rings(facts, name, MOST)
    if isinstance(output, ProbeFailure):
        yield Problem(target, output.rule, f"the rings of {name} cannot be read: {output.reason}", output.help)
    elif output is None and nic.get("rdmaDevice"):
        yield Problem(target, "nics.unreadable", f"the rings of {name} cannot be read: it was not asked",
                      f"try it on the host: {' '.join(RINGS.argv)} {name}")  # fmt: skip
    elif output is None:
        yield Problem(target, "nics.rings", f"{name} has no RDMA device; rings are set of NICs that have one",
                      "leave rings out for it")  # fmt: skip
    elif nic_settings.rings(facts, name) is None:
        words = " ".join(untrusted(output.stdout + output.stderr).split()) or "it answers nothing"
        yield Problem(target, "nics.rings", f"{name} does not tell its rings: {words}",
                      "leave rings out for it; some drivers have no such setting")  # fmt: skip
    elif most is not None:
        large = [f"{way} {getattr(wanted, way)}" for way in ("rx", "tx")
                 if (getattr(wanted, way) or 0) > getattr(most, way)]  # fmt: skip
        if large:
            yield Problem(target, "nics.rings", f"{name} cannot have rings of {', '.join(large)} entries",
                          f"its largest: {most}")  # fmt: skip


def _pfc_problem(target: Target, view: View, name: str, wanted: Nic, driver: str) -> Iterator[Problem]:
    """Flow control per priority that is there already; what a playbook wants of both is the business of `roce`."""
    priority = getattr(view.state(target.ref, "roce"), "pfc_priority", None)
    said = getattr(view.stated.get((target.ref, "roce")), "pfc_priority", None)
    if wanted.pauses and driver == NO_GLOBAL_PAUSE and said is None and priority not in (None, "off"):
        yield Problem(target, "nics.pfc", f"{name}: PFC on priority {priority} switches global pause off",
                      "add roce: {pfc_priority: off} to the play, or leave pause out")  # fmt: skip


def _speed_step(target: Target, name: str, speed: int | str) -> Step:
    link = {"linkSpeed": {"_typeName": "PhysicalNicLinkInfo", "speedMb": speed, "duplex": True}}
    return Invoke(
        target=target,
        kinds=("nics",),
        path="configManager.networkSystem",
        method="UpdatePhysicalNicLinkSpeed",
        args={"device": name, **(link if isinstance(speed, int) else {})},
        needs_maintenance=True,
        summary=f"set speed of {name} to {speed}",
    )


def _settings_steps(target: Target, name: str, wanted: Nic, now: Nic, *, later: bool) -> Iterator[Step]:
    if wanted.rings is not None and wanted.rings != now.rings:
        words = [w for flag, way in (("-r", "rx"), ("-t", "tx")) if (n := getattr(wanted.rings, way))
                 is not None for w in (flag, str(n))]  # fmt: skip
        yield Shell(
            target=target,
            kinds=("nics",),
            argv=(*NIC, "ring", "current", "set", "-n", name, *words),
            needs_maintenance=True,
            after_reboot=later,
            summary=f"set rings of {name}: {wanted.rings}",
        )
    if wanted.coalesce is not None and wanted.coalesce != now.coalesce:
        differs = [n for n in COALESCE_OPTIONS if getattr(wanted.coalesce, n) != getattr(now.coalesce, n, None)]
        given = ((COALESCE_OPTIONS[n], getattr(wanted.coalesce, n)) for n in differs)
        yield Shell(
            target=target,
            kinds=("nics",),
            argv=(*NIC, "coalesce", "set", "-n", name, *(f"{o}={str(v).lower()}" for o, v in given if v is not None)),
            after_reboot=later,
            summary=f"set interrupt coalescing of {name}: {wanted.coalesce}",
        )
