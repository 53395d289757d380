"""Distributed port groups: VLANs, which uplinks carry them, security policy, MAC learning, network resource pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self, cast

from vsphere_ai.fabric import dvs, networks, nioc
from vsphere_ai.fabric.api_types import PortSetting
from vsphere_ai.fabric.corrections import ForeignMacs, PortGroupUplinks
from vsphere_ai.fabric.dvs import PORT_GROUP, UPLINK_GROUPS
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import nioc_fit
from vsphere_ai.resources._helpers.keyed import settled_each
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.port_groups import settings as port_settings
from vsphere_ai.resources.port_groups.checks import mac_problems, management_problems, place_problems, uplink_problems
from vsphere_ai.resources.port_groups.group import (
    CONFIG,
    Key,
    PortGroupSettings,
    is_ours,
    keyed,
    observed_group,
    settled_group,
)
from vsphere_ai.resources.port_groups.specs import adjust_step, create_step, pool_spec, port_config
from vsphere_ai.resources.topics import Topic

SWITCH = "config.distributedVirtualSwitch"
PATHS = ("key", "config.configVersion", "config.uplink", SWITCH, CONFIG, "config.backingType", nioc.POOL_KEY)
SWITCH_PATHS = ("uuid", "config.uplinkPortPolicy", UPLINK_GROUPS, "config.lacpGroupConfig", "config.productInfo")


class PortGroups(nioc_fit.JoinsPools, Corrects, Resource):
    """Makes distributed port groups, or adjusts them; port groups and settings that are not named are never touched."""

    kind = KindName("port_groups")
    target = "datacenter"
    shorthand = "port_groups"
    keyed = True
    traits = Traits(
        duties=(
            Duty(
                "`port_groups`",
                "the distributed switches and port groups",
                ("AddDVPortgroup_Task", "ReconfigureDVPortgroup_Task"),
            ),
        ),
        after=kind_names("switches"),
        properties={
            PORT_GROUP: PATHS,
            dvs.SWITCH: (*SWITCH_PATHS, *nioc.PATHS),
            "Network": ("name", "parent"),
            "HostSystem": ("config.network.pnic", "config.network.proxySwitch", *dvs.MANAGEMENT_PATHS),
        },
        affects=Topic.PVRDMA,
    )

    port_groups: Mapping[Key, PortGroupSettings] | None = setting(
        "Port group by name or `SWITCH/NAME` -> what it should be."
    )

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The uplinks of port groups (active ones, standby ones, or both), and what guests may do there."""
        by_group: dict[str, dict[str, Plain]] = {
            c.name: {"security": {"forged_transmits": True}, "mac_learning": True}
            for c in corrections
            if isinstance(c, ForeignMacs)
        }
        for order in (c for c in corrections if isinstance(c, PortGroupUplinks)):
            uplinks = {"active_uplinks": order.active, "standby_uplinks": order.standby}
            by_group.setdefault(order.name, {}).update({field: names for field, names in uplinks.items() if names})
        return by_group

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read every distributed port group of the datacenter that VMs and hosts can use."""
        groups = ((n, g) for n, g in networks.port_groups(estate, facts.ref).items() if is_ours(estate, g))
        return cls.model_construct(port_groups={n: observed_group(g, estate) for n, g in groups})

    def settle(self, target: Target, view: View) -> Self:
        """Take what is left out from the port group; a new one takes over the uplinks of its switch."""
        labelled: dict[str, PortGroupSettings] = {}
        for name, wanted in (self.port_groups or {}).items():
            label, group = keyed(view.estate, target.ref, name, wanted)
            # two names of one port group: `problems` says so
            labelled.update({name: wanted} if label in labelled else {label: group})
        return settled_each(self.model_copy(update={"port_groups": labelled}), target, view, settled_group)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No such switch or uplink, a name that something else has, a setting the switch is too old for."""
        for name, wanted in (self.port_groups or {}).items():
            label, _ = keyed(view.estate, target.ref, name, wanted)
            if label != name and label in (self.port_groups or {}):
                yield self.problem(target, "name", f"{name} and {label} are the same port group", "name it once")
                continue
            found = list(place_problems(target, view.estate, name, wanted))
            yield from found
            switch = dvs.switch_named(view.estate, target.ref, wanted.switch or "")
            if switch is not None and not found:
                yield from uplink_problems(target, name, wanted, switch)
                yield from management_problems(target, view.estate, name, wanted)
                if wanted.standby_uplinks and not wanted.active_uplinks:
                    message = f"{name}: standby uplinks alone carry nothing"
                    yield self.problem(target, "uplinks", message, "name active_uplinks too")
                yield from nioc_fit.group_problems(target, view, name, wanted.resource_pool, switch)
                if wanted.mac_learning:
                    yield from mac_problems(target, name, switch)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """MAC learning without forged transmits has no effect; a changed VLAN may move the management network."""
        groups = networks.port_groups(view.estate, target.ref)
        for name, wanted in (self.port_groups or {}).items():
            now = observed_group(groups[name], view.estate) if name in groups else wanted
            hosts = sorted(h.name for h, _, _ in dvs.managed_over(view.estate, groups.get(name)))
            if hosts and (wanted.vlan, wanted.trunk) != (now.vlan, now.trunk):
                yield (
                    f"{name}: the management network of {', '.join(hosts)} changes its VLAN; vCenter takes it back "
                    "when a host is lost by that"
                )
            if wanted.mac_learning and wanted.security and wanted.security.forged_transmits is False:
                yield f"{name}: MAC learning has no effect while forged transmits are refused"
            switch = dvs.switch_named(view.estate, target.ref, wanted.switch or "")
            yield from nioc_fit.group_notes(target, view, name, wanted.resource_pool, switch)

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Add each port group to its switch, or send only the settings that differ."""
        estate, target = view.estate, change.target
        have = (change.before.port_groups if change.before else None) or {}
        groups, switches = networks.port_groups(estate, target.ref), dvs.switches(estate, target.ref)
        for name, wanted in (self.port_groups or {}).items():
            switch = switches[wanted.switch or ""]
            if name not in groups:
                yield create_step(change, name, wanted, switch)
            elif wanted != have[name]:
                yield adjust_step(change, groups[name], wanted, have[name], switch)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the port groups as they will be read."""
        return Projection(self, tuple(self._as_read(target, view)) if after == "plan" else ())

    def pools_joined(self, target: Target, estate: Estate) -> dict[str, str]:
        """Return the pools that port groups are to be in."""
        groups = (keyed(estate, target.ref, name, group) for name, group in (self.port_groups or {}).items())
        return {name: group.resource_pool for name, group in groups if group.resource_pool}

    def _as_read(self, target: Target, view: View) -> Iterator[Facts]:
        groups, switches = networks.port_groups(view.estate, target.ref), dvs.switches(view.estate, target.ref)
        for name, wanted in (self.port_groups or {}).items():
            switch = switches.get(wanted.switch or "")
            if switch is None:
                continue  # a problem says so
            key = dvs.planned_key(target.ref, name)
            made = {"name": name, "parent": target.ref, "key": key, SWITCH: switch.ref}
            before = groups.get(name) or Facts(key.as_reference(PORT_GROUP), made)
            now = observed_group(before, view.estate) if name in groups else PortGroupSettings()
            config = {**(before.get(CONFIG) or {}), **port_config(wanted, now, before.get(CONFIG), switch)}
            if not dvs.order(cast(PortSetting, config))[0]:
                config["uplinkTeamingPolicy"] = port_settings.teaming_policy(dvs.uplinks(switch), (), None, None)
            pool = {f"config.{k}": v for k, v in pool_spec(wanted, now, switch).items()}
            yield before.having({CONFIG: config, **pool})

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """Private VLANs are not stated; in a rollback, a port group that was in no pool goes back into none."""
        groups = self.port_groups or {}
        if form != "playbook":
            return StateExport(self if groups or form == "shown" else None)
        no_pool = {"resource_pool": None}
        stated = {n: g.model_copy(update=no_pool if g.resource_pool == nioc.NO_POOL else {}) for n, g in groups.items()}
        configs = {n: f.get(CONFIG) or {} for n, f in networks.port_groups(view.estate, target.ref).items()}
        odd = ", ".join(sorted(n for n in groups if "pvlanId" in (configs[n].get("vlan") or {})))
        state = self.model_copy(update={"port_groups": stated}) if stated else None
        return StateExport(state, f"the private VLANs of {odd} are left out" if odd else "")
