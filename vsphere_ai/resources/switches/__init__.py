"""Distributed switches of a datacenter: version, MTU, uplinks, Network I/O Control and its resource pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from vsphere_ai.fabric import dvs, networks, nioc
from vsphere_ai.fabric.corrections import SwitchMtu
from vsphere_ai.fabric.dvs import PORT_GROUP
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import nioc_fit
from vsphere_ai.resources._helpers.entries import UNIQUE_NAMES, overlaid
from vsphere_ai.resources._helpers.keyed import settled_each
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.host_settings import HasSwitches
from vsphere_ai.resources.switches.checks import mtu_problems, uplink_problems, version_problems
from vsphere_ai.resources.switches.settings import UPLINKS, DistributedSwitchSettings, Name, observed, settled
from vsphere_ai.resources.switches.specs import adjust_steps, as_read, create_steps
from vsphere_ai.resources.topics import Topic

PROXIES = "config.network.proxySwitch"
OWN = ("uuid", "config.configVersion", "config.maxMtu", UPLINKS, "config.productInfo", "config.host")
PATHS = (*OWN, "config.uplinkPortgroup", "config.lacpGroupConfig", *nioc.PATHS)


METHODS = (
    *("CreateDVS_Task", "ReconfigureDvs_Task", "PerformDvsProductSpecOperation_Task"),
    *("EnableNetworkResourceManagement", "DvsReconfigureVmVnicNetworkResourcePool_Task"),
)


class Switches(HasSwitches, Corrects, Resource):
    """Makes distributed switches, or adjusts them; switches and settings that are not named are never touched."""

    kind = KindName("switches")
    target = "datacenter"
    shorthand = "switches"
    keyed = True
    traits = Traits(
        duties=(Duty("`switches`", "the datacenter's network folder, its distributed switches", METHODS),),
        properties={
            dvs.SWITCH: PATHS,
            PORT_GROUP: ("config.defaultPortConfig", "config.distributedVirtualSwitch", nioc.POOL_KEY),
            "HostSystem": (PROXIES, "config.network.vnic", "config.network.pnic"),
            "Network": ("name", "parent"),
        },
        affects=Topic.PVRDMA,
    )

    switches: Mapping[Name, DistributedSwitchSettings] | None = setting("Switch name -> what it should be.")

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The MTU of switches."""
        return {c.name: {"mtu": c.mtu} for c in corrections if isinstance(c, SwitchMtu)}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read every distributed switch of the datacenter."""
        found = {name: observed(each) for name, each in dvs.switches(estate, facts.ref).items()}
        return cls.model_construct(switches=found)

    def settle(self, target: Target, view: View) -> Self:
        """Take what is left out from the switch, or from vSphere's defaults where it is new."""
        return settled_each(self, target, view, settled)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """A version that cannot be had, uplinks that cannot go, a name that is taken, a switch that cannot be read."""
        for name, wanted in (self.switches or {}).items():
            facts = dvs.switch_named(view.estate, target.ref, name)
            yield from version_problems(target, view.estate, name, wanted.version, facts)
            yield from nioc_fit.switch_problems(target, view, name, facts, wanted)
            if facts is not None:
                yield from uplink_problems(target, view.estate, facts, wanted)
                yield from mtu_problems(target, view, facts, wanted)
            elif (other := dvs.taken(view.estate, target.ref, name)) is not None:
                message = f"{name} is the name of another network: {view.estate.path_of(other.ref)}"
                yield self.problem(target, "name", message, UNIQUE_NAMES)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """What counts for nothing without Network I/O Control, and what is not known of its pools."""
        there = dvs.switches(view.estate, target.ref)
        playbook = view.said(Switches, target.ref) or self
        for name, wanted in (self.switches or {}).items():
            said = playbook.switch(name) or wanted
            if said.shares and wanted.nioc is False:
                yield f"{name}: shares count only with Network I/O Control; add nioc: true"
            yield from nioc_fit.switch_notes(target, view, name, there.get(name), wanted)

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Make each switch, or upgrade it, switch Network I/O Control, and set the rest in one go."""
        have = (change.before.switches if change.before else None) or {}
        there = dvs.switches(view.estate, change.target.ref)
        for name, wanted in (self.switches or {}).items():
            if name in there:
                yield from adjust_steps(change, there[name], wanted, have[name])
            else:
                yield from create_steps(change, name, wanted)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the switches as they will be read, and their MTU on the hosts that are members."""
        return Projection(self, tuple(self._made(target, view)) if after == "plan" else ())

    def switch(self, name: str) -> DistributedSwitchSettings | None:
        """Return what is said of one switch."""
        return (self.switches or {}).get(name)

    def _made(self, target: Target, view: View) -> Iterator[Facts]:
        there = dvs.switches(view.estate, target.ref)
        mtus: dict[str, dict[str, object]] = {}
        for name, wanted in (self.switches or {}).items():
            after = as_read(target.ref, name, wanted, there.get(name))
            mtus |= {after.get("uuid"): {"mtu": wanted.mtu}} if wanted.mtu else {}
            yield after
        for host in view.estate.of_type("HostSystem"):
            seen = host.get(PROXIES, ())
            new = overlaid(seen, "dvsUuid", mtus)
            if new != seen:
                yield host.having({PROXIES: new})

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """State of bandwidth what is not as on a new switch; a datacenter without a switch has nothing to state."""
        if form != "playbook":
            return StateExport(self if form == "shown" else self._before(target, view))
        stated = {
            name: switch.model_copy(update={"bandwidth": nioc.set_by_hand(switch.bandwidth or {}) or None})
            for name, switch in (self.switches or {}).items()
        }
        return StateExport(self.model_copy(update={"switches": stated}) if stated else None)

    def _before(self, target: Target, view: View) -> Self:
        """The version of a switch is never lowered; pools that were added go."""
        said = (view.said(Switches, target.ref) or Switches()).switches or {}
        kept = {}
        # port groups are not removed: a pool that a new one is in stays, without a reservation
        there = networks.port_groups(view.estate, target.ref)
        kept_in = {pool for group, pool in nioc_fit.joining(target, view).items() if group not in there}
        for name, switch in (self.switches or {}).items():
            added = said[name].resource_pools or () if name in said else ()
            pools = {**{n: 0 if n in kept_in else nioc.ABSENT for n in added}, **(switch.resource_pools or {})}
            kept[name] = switch.model_copy(update={"version": None, "resource_pools": pools or None})
        return self.model_copy(update={"switches": kept})
