"""Physical NICs of a host: global pause (flow control), speed, rings, interrupt coalescing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

from vsphere_ai.fabric import nic_settings
from vsphere_ai.fabric.corrections import NicPause
from vsphere_ai.fabric.nic_settings import COALESCE, MOST, PAUSE, RINGS, Pause, coalescing_in
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Probe, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.keyed import settled_each
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.host_settings import Pauses
from vsphere_ai.resources.mixins import AsksMore
from vsphere_ai.resources.nics.checks import coalesce_problems, problem, ring_problems, speed_problems, unread_problems
from vsphere_ai.resources.nics.nic import READ_BY_SSH, VMNIC, Name, NicSettings, settled_nic, speed_of
from vsphere_ai.resources.nics.steps import nic_steps
from vsphere_ai.resources.roce import Roce
from vsphere_ai.resources.topics import Topic

NICS = "config.network.pnic"
NO_GLOBAL_PAUSE = "nmlx5_core"
"""The driver whose flow control per priority (see `roce`) switches global pause off, whatever is configured."""


class HostNics(AsksMore, Pauses, Corrects, Resource):
    """Sets flow control, speed, rings and coalescing of the physical NICs a playbook names; others are never touched.

    Drivers come up with settings of their own: after a restart by this plan it is set again, after any other
    restart the next plan shows the difference.
    """

    kind = KindName("nics")
    target = "host"
    shorthand = "nics"
    keyed = True
    traits = Traits(
        duties=(Duty("`nics`: speed", "hosts", ("UpdatePhysicalNicLinkSpeed",)),),
        topics=Topic.NIC_SETTINGS,
        after=kind_names("roce"),
        properties={"HostSystem": (NICS,)},
    )
    probes: ClassVar[tuple[Probe, ...]] = (PAUSE, COALESCE, RINGS, MOST)

    nics: Mapping[Name, NicSettings] | None = setting("NIC -> its settings: `{vmnic4: {speed: auto}}`.")

    def pauses(self) -> dict[str, Pause]:
        """Return global pause where it is said."""
        return {name: nic.pause for name, nic in (self.nics or {}).items() if nic.pause is not None}

    @property
    def needs_commands(self) -> bool:
        """Speeds are read and set through vCenter."""
        return any(getattr(nic, name) is not None for nic in (self.nics or {}).values() for name in READ_BY_SSH)

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """Global pause of NICs."""
        paused = [c for c in corrections if isinstance(c, NicPause)]
        return {c.name: {"pause": {"rx": c.is_on, "tx": c.is_on}} for c in paused}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read speeds from vCenter and the rest over SSH, without which it is not known."""
        found = facts.get(NICS)
        if found is None:
            return None
        pauses, coalescing = nic_settings.pauses(facts), coalescing_in(nic_settings.output_of(facts, COALESCE.name))
        nics = {
            name: NicSettings.model_construct(
                pause=pauses.get(name),
                speed=speed_of(nic),
                rings=nic_settings.rings(facts, name),
                coalesce=coalescing.get(name),
            )
            for name, nic in ((str(n["device"]), n) for n in found)
        }
        return cls.model_construct(nics=nics)

    def settle(self, target: Target, view: View) -> Self:
        """What a playbook leaves out of pause, rings and coalescing stays as it is."""
        return settled_each(self, target, view, settled_nic)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The NIC does not exist, its pause cannot be read, or it cannot have what is wanted of it."""
        facts = view.facts(target.ref)
        found = {str(n["device"]): n for n in facts.get(NICS) or ()}
        said = (view.said(HostNics, target.ref) or self).nics or self.nics or {}
        there = (self.observe(facts, view.estate) or HostNics()).nics or {}
        for probe, field, words in ((PAUSE, "pause", "flow control"), (COALESCE, "coalesce", "interrupt coalescing")):
            if any(getattr(n, field) is not None for n in said.values()):
                yield from unread_problems(target, facts.probes.get(probe.name), f"{words} of the NICs", probe.argv)
        for name, wanted in said.items():
            if name not in found:
                there_are = f"it has {', '.join(sorted(found)) or 'none that vCenter shows'}"
                yield self.problem(target, "missing", f"this host has no NIC {name}", there_are)
                continue
            yield from speed_problems(target, found[name], wanted.speed)
            if wanted.pause is not None and any(n.pause for n in there.values()) and there[name].pause is None:
                yield self.problem(target, "pause", f"{name} has no global pause", "leave pause out for it")
            if wanted.coalesce is not None and nic_settings.output_of(facts, COALESCE.name):
                yield from coalesce_problems(target, name, wanted.coalesce, there[name].coalesce)
            if wanted.rings is not None:
                yield from ring_problems(target, facts, found[name], wanted.rings)
            yield from _pfc_problem(target, view, name, wanted, str(found[name].get("driver")))

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say what else has to be done for a setting to hold."""
        on = sorted(n for n, w in (self.nics or {}).items() if w.pauses)
        if on:
            yield f"the ports of the physical switch at {', '.join(on)} need flow control on too"
        was = (self.observe(view.facts(target.ref), view.estate) or HostNics()).nics or {}
        resized = sorted(
            n for n, w in (self.nics or {}).items() if w.rings and w.rings != was.get(n, NicSettings()).rings
        )
        if resized:
            yield f"the link of {', '.join(resized)} may go down for a moment when its rings change (unverified)"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set what differs; the link of a NIC goes down for a moment, so the host is empty while it is done."""
        before = change.before.nics if change.before else {}
        # a restart in this plan gives the drivers their own setting again
        later = change.target.ref in view.rebooting
        for name, wanted in sorted((self.nics or {}).items()):
            if not re.fullmatch(VMNIC, name):
                raise ValueError(f"{name!r} is not the name of a NIC\nwrite for example vmnic4")
            now = before.get(name) or NicSettings()
            yield from nic_steps(change, name, wanted, now, later=later)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Drivers come up with settings of their own after a reboot."""
        if after == "plan":
            return Projection(self)
        gone = dict.fromkeys(READ_BY_SSH)
        left = {n: c.model_copy(update=gone) for n, c in (self.nics or {}).items()}
        return Projection(self.model_copy(update={"nics": left}))

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """State what is there: the speed of each NIC, and the rest where it was read."""
        return StateExport(self if self.nics or form == "shown" else None)


def _pfc_problem(target: Target, view: View, name: str, wanted: NicSettings, driver: str) -> Iterator[Problem]:
    """Flow control per priority that is there already; what a playbook wants of both is the business of `roce`."""
    priority = (view.get(Roce, target.ref) or Roce()).pfc_priority
    wished = (view.said(Roce, target.ref) or Roce()).pfc_priority
    if wanted.pauses and driver == NO_GLOBAL_PAUSE and wished is None and priority not in (None, "off"):
        message = f"{name}: PFC on priority {priority} switches global pause off"
        yield problem(target, "pfc", message, "add roce: {pfc_priority: off} to the play, or leave pause out")
