"""Physical NICs of a host: global pause (flow control) and speed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from vsphere_ai.facts import Facts, Output, ProbeFailure, View
from vsphere_ai.resources.base import Resource
from vsphere_ai.state import Change, Problem, Target
from vsphere_ai.steps import Invoke, Probe, Shell, Step

# VMware KB 324551 (1013413), "Configuring Flow Control on VMware ESXi and VMware ESX"
PAUSE = Probe("pause-params", ("esxcli", "network", "nic", "pauseParams", "list"))
NICS = "config.network.pnic"
VMNIC = r"vmnic[0-9]{1,4}"
NO_GLOBAL_PAUSE = "nmlx5_core"
"""The driver whose flow control per priority (see `roce`) switches global pause off, whatever is configured."""


def _name(text: str) -> str:
    """Return the name of a NIC, which gets into a command; ValueError when it is none."""
    if not re.fullmatch(VMNIC, text):
        raise ValueError(f"{text!r} is no NIC; write for example vmnic4")
    return text


Name = Annotated[str, AfterValidator(_name)]


class Pause(BaseModel):
    """Global pause of a NIC: whether it obeys pause frames, and whether it sends them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rx: bool | None = Field(default=None, description="Obey pause frames that are received.")
    tx: bool | None = Field(default=None, description="Send pause frames.")

    def __str__(self) -> str:
        words = {True: "on", False: "off", None: "?"}
        return f"rx {words[self.rx]}, tx {words[self.tx]}"


class Nic(BaseModel):
    """One physical NIC. What is left out stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    pause: Pause | None = Field(default=None, description="Global pause: `{rx: true, tx: true}`.")
    speed: Annotated[int, Field(ge=10)] | Literal["auto"] | None = Field(
        default=None, description="Speed in Mbit/s, full duplex; `auto` lets it be negotiated."
    )

    @property
    def pauses(self) -> bool:
        """Whether any global pause is on."""
        return self.pause is not None and bool(self.pause.rx or self.pause.tx)


class HostNics(Resource):
    """Sets flow control and speed of the physical NICs a playbook names; others are never touched.

    Drivers come up with a pause setting of their own: after a restart by this plan it is set again, after any other
    restart the next plan shows the difference.
    """

    kind: ClassVar[str] = "nics"
    target = "host"
    shorthand: ClassVar[str] = "nics"
    keyed: ClassVar[bool] = True
    after: ClassVar[tuple[str, ...]] = ("roce",)
    properties: ClassVar[Mapping[str, tuple[str, ...]]] = {"HostSystem": (NICS,)}
    probes: ClassVar[tuple[Probe, ...]] = (PAUSE,)

    nics: Mapping[Name, Nic] | None = Field(default=None, description="NIC -> its settings: `{vmnic4: {speed: auto}}`.")

    @classmethod
    def observe(cls, facts: Facts) -> Self | None:
        """Read speeds from vCenter and pause over SSH; without SSH the pause is not known."""
        found = facts.get(NICS)
        if found is None:
            return None
        output = facts.probes.get(PAUSE.name)
        pauses = pauses_in(output.stdout) if isinstance(output, Output) and output.status == 0 else {}
        nics = {str(n["device"]): Nic.model_construct(pause=pauses.get(n["device"]), speed=_speed(n)) for n in found}
        return cls.model_construct(nics=nics)

    def settle(self, target: Target, view: View) -> Self:
        """Of pause, the way a playbook leaves out stays as it is."""
        now = view.state(target.ref, self.kind)
        have = now.nics if now else {}
        return self.model_copy(update={"nics": {n: _settled(w, have.get(n)) for n, w in (self.nics or {}).items()}})

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The NIC does not exist, its pause cannot be read, or it cannot have what is wanted of it."""
        facts = view.facts(target.ref)
        found = {str(n["device"]): n for n in facts.get(NICS) or ()}
        said = getattr(view.stated.get((target.ref, self.kind)), "nics", None) or self.nics or {}
        now = self.observe(facts)
        pauses = {n: nic.pause for n, nic in ((now.nics if now else None) or {}).items()}
        if any(n.pause is not None for n in said.values()):
            yield from _unread(target, facts)
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
            if wanted.pause is not None and any(pauses.values()) and pauses[name] is None:
                yield Problem(target, "nics.pause", f"{name} has no global pause", "leave pause out for it")
            yield from _pfc_problem(target, view, name, wanted, str(found[name].get("driver")))

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """Say what else has to be done for a setting to hold."""
        on = sorted(n for n, w in (self.nics or {}).items() if w.pauses)
        if on:
            yield f"the ports of the physical switch at {', '.join(on)} need flow control on too"

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

    def after_reboot(self, target: Target, view: View) -> Self:
        """Drivers come up with a pause setting of their own."""
        return self.model_copy(
            update={"nics": {n: nic.model_copy(update={"pause": None}) for n, nic in (self.nics or {}).items()}}
        )

    def as_playbook(self, target: Target, view: View) -> Self | None:
        """State what is there: the speed of each NIC, and its pause where that was read."""
        return self if self.nics else None


def pauses_in(listing: str) -> dict[str, Pause]:
    """Read ``esxcli network nic pauseParams list``; NICs that do not support it are left out."""
    lines = [line for line in listing.splitlines() if line.strip()]
    ruler = next((i for i, line in enumerate(lines) if set(line.strip()) <= {"-", " "}), 0)
    if not ruler:
        return {}
    titles = re.split(r"\s{2,}", lines[ruler - 1].strip())
    found = {}
    for line in lines[ruler + 1 :]:
        row = dict(zip(titles, line.split(), strict=False))
        if row.get("Pause Params Supported") == "true":
            found[row["NIC"]] = Pause.model_construct(
                rx=row.get("Pause RX") == "true", tx=row.get("Pause TX") == "true"
            )
    return found


def _speed(nic: Mapping[str, Any]) -> int | str:
    link = (nic.get("spec") or {}).get("linkSpeed")
    return int(link["speedMb"]) if link else "auto"


def _settled(wanted: Nic, now: Nic | None) -> Nic:
    have = now.pause if now else None
    if wanted.pause is None or have is None:
        return wanted
    unset = {way: getattr(have, way) for way in ("rx", "tx") if getattr(wanted.pause, way) is None}
    return wanted.model_copy(update={"pause": wanted.pause.model_copy(update=unset)})


def _unread(target: Target, facts: Facts) -> Iterator[Problem]:
    output = facts.probes.get(PAUSE.name)
    if isinstance(output, ProbeFailure):
        yield Problem(target, output.rule, f"the flow control of the NICs cannot be read: {output.reason}", output.help)
    elif output is None or output.status != 0:
        words = "it was not asked" if output is None else (output.stdout + output.stderr).strip() or "no answer"
        yield Problem(target, "nics.unreadable", f"the flow control of the NICs cannot be read: {words}",
                      f"try it on the host: {' '.join(PAUSE.argv)}")  # fmt: skip


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
