"""Distributed port groups: VLANs, which uplinks carry them, security policy, MAC learning, network resource pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from vsphere_ai.fabric import PORT_GROUP, UPLINK_GROUPS, dvs, is_uplink, nioc, nioc_fit, port_settings
from vsphere_ai.fabric.port_settings import LAST_VLAN, MAC_MANAGEMENT
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Change, Problem, Target
from vsphere_ai.model.steps import Invoke, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.keyed import settled_each
from vsphere_ai.resources.base import After, Export, Form, Projection, Resource, Traits

CONFIG = "config.defaultPortConfig"
PATHS = ("key", "config.configVersion", "config.uplink", "config.distributedVirtualSwitch", CONFIG,
         "config.backingType", nioc.POOL_KEY)  # fmt: skip
SWITCH_PATHS = ("uuid", "config.uplinkPortPolicy", UPLINK_GROUPS, "config.lacpGroupConfig", "config.productInfo",
                *nioc.PATHS)  # fmt: skip
NEW_PORTS = 8  # of a port group that grows by itself
Teaming = Literal[
    "loadbalance_srcid", "loadbalance_srcmac", "loadbalance_ip", "loadbalance_loadbased", "failover_explicit"
]
Name = Annotated[str, Field(min_length=1, max_length=80)]


class Security(BaseModel):
    """What a port lets a VM do; what is left out stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    promiscuous: bool | None = Field(default=None, description="Ports may see all traffic of the port group.")
    mac_changes: bool | None = Field(default=None, description="A guest may change the MAC address it receives with.")
    forged_transmits: bool | None = Field(default=None, description="A guest may send with other MAC addresses.")

    def __str__(self) -> str:
        words = (f"{n} {'yes' if v else 'no'}" for n in type(self).model_fields if (v := getattr(self, n)) is not None)
        return ", ".join(words)


class PortGroup(BaseModel):
    """One distributed port group; what is left out stays as it is, or takes what its switch has on a new one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    switch: Name | None = Field(default=None, description="The distributed switch it is on; needed for a new one.")
    vlan: int | None = Field(default=None, ge=0, le=LAST_VLAN, description="VLAN id; 0 sends frames untagged.")
    trunk: Annotated[tuple[str, ...], BeforeValidator(port_settings.ranges)] | None = Field(
        default=None, min_length=1, description='VLANs passed to the guest tagged, e.g. `["100-199", 300]`.'
    )
    active_uplinks: tuple[Name, ...] | None = Field(
        default=None, min_length=1, description="Uplinks that carry traffic; exactly one for PVRDMA."
    )
    standby_uplinks: tuple[Name, ...] | None = Field(
        default=None, description="Uplinks that step in; every other uplink is unused."
    )
    teaming: Teaming | None = Field(default=None, description="How traffic is spread over several active uplinks.")
    security: Security | None = Field(default=None, description="Security policy of its ports.")
    mac_learning: bool | None = Field(
        default=None, description="Ports learn several MAC addresses, as nested hypervisors need."
    )

    resource_pool: Name | None = Field(
        default=None,
        description="Network resource pool of its switch that its VMs reserve bandwidth of; `default` for none.",
    )

    @model_validator(mode="after")
    def _one_kind_of_vlan(self) -> Self:
        if self.vlan is not None and self.trunk is not None:
            raise ValueError("a port group has one VLAN or a trunk\nkeep vlan or trunk")
        return self


class PortGroups(Resource):
    """Makes distributed port groups, or adjusts them; port groups and settings that are not named are never touched."""

    kind = "port_groups"
    target = "datacenter"
    shorthand = "port_groups"
    keyed = True
    traits = Traits(
        after=("switches",),
        properties={
            PORT_GROUP: PATHS,
            dvs.SWITCH: SWITCH_PATHS,
            "Network": ("name", "parent"),
            "HostSystem": ("config.network.pnic", "config.network.proxySwitch", *dvs.MANAGEMENT_PATHS),
        },
        affects=frozenset({"pvrdma"}),
    )

    port_groups: Mapping[Name, PortGroup] | None = Field(
        default=None, description="Port group name -> what it should be."
    )

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read every distributed port group of the datacenter that VMs and hosts can use."""
        groups = dvs.port_groups(estate, facts.ref).values()
        return cls.model_construct(port_groups={f.name: _observed(f, estate) for f in groups if _is_ours(estate, f)})

    def settle(self, target: Target, view: View) -> Self:
        """Take what is left out from the port group; a new one takes over the uplinks of its switch."""
        return settled_each(self, target, view, _settled)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No such switch or uplink, a name that something else has, a setting the switch is too old for."""
        for name, wanted in (self.port_groups or {}).items():
            found = list(_place_problems(target, view.estate, name, wanted))
            yield from found
            switch = dvs.switches(view.estate, target.ref).get(wanted.switch or "")
            if switch is not None and not found:
                yield from _uplink_problems(target, name, wanted, switch)
                yield from _management_problems(target, view.estate, name, wanted)
                if wanted.standby_uplinks and not wanted.active_uplinks:
                    yield Problem(
                        target,
                        "port_groups.uplinks",
                        f"{name}: standby uplinks alone carry nothing",
                        "name active_uplinks too",
                    )
                yield from nioc_fit.group_problems(target, view, name, wanted.resource_pool, switch)
                version = (switch.get("config.productInfo") or {}).get("version")
                if wanted.mac_learning and dvs.is_older(version, MAC_MANAGEMENT):
                    yield Problem(
                        target,
                        "port_groups.mac-learning",
                        f"{name}: {switch.name} has version {version}, MAC learning needs {MAC_MANAGEMENT}",
                        f"write switches: {{{switch.name}: {{version: {MAC_MANAGEMENT}}}}} or a later version",
                    )

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """MAC learning without forged transmits has no effect; a changed VLAN may move the management network."""
        groups = dvs.port_groups(view.estate, target.ref)
        for name, wanted in (self.port_groups or {}).items():
            now = _observed(groups[name], view.estate) if name in groups else wanted
            hosts = sorted(h.name for h, _, _ in dvs.managed_over(view.estate, groups.get(name)))
            if hosts and (wanted.vlan, wanted.trunk) != (now.vlan, now.trunk):
                yield (
                    f"{name}: the management network of {', '.join(hosts)} changes its VLAN; vCenter takes it back "
                    "when a host is lost by that"
                )
            if wanted.mac_learning and wanted.security and wanted.security.forged_transmits is False:
                yield f"{name}: MAC learning has no effect while forged transmits are refused"
            switch = dvs.switches(view.estate, target.ref).get(wanted.switch or "")
            yield from nioc_fit.group_notes(target, view, name, wanted.resource_pool, switch)

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Add each port group to its switch, or send only the settings that differ."""
        estate, target = view.estate, change.target
        have = (change.before.port_groups if change.before else None) or {}
        groups = dvs.port_groups(estate, target.ref)
        for name, wanted in (self.port_groups or {}).items():
            switch = dvs.switches(estate, target.ref)[wanted.switch or ""]
            if name not in groups:
                yield _create(target, name, wanted, switch)
            elif wanted != have[name]:
                group = groups[name]
                config = _port_config(wanted, have[name], group.get(CONFIG), switch)
                spec = {
                    "_typeName": "DVPortgroupConfigSpec",
                    "configVersion": group.get("config.configVersion", ""),
                    **({"defaultPortConfig": config} if len(config) > 1 else {}),
                    **_pool(wanted, have[name], switch),
                }
                yield Invoke(
                    target=target,
                    kinds=(self.kind,),
                    on=group.ref,
                    method="ReconfigureDVPortgroup_Task",
                    args={"spec": spec},
                    summary=f"set {', '.join(_changed(wanted, have[name]))} of {name}",
                )

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the port groups as they will be read."""
        return Projection(self, tuple(self._as_read(target, view)) if after == "plan" else ())

    def _as_read(self, target: Target, view: View) -> Iterator[Facts]:
        groups, switches = dvs.port_groups(view.estate, target.ref), dvs.switches(view.estate, target.ref)
        for name, wanted in (self.port_groups or {}).items():
            switch = switches.get(wanted.switch or "")
            if switch is None:
                continue  # a problem says so
            key = dvs.planned_key(target.ref, name)
            before = groups.get(name) or Facts(
                f"{PORT_GROUP}:{key}",
                {"name": name, "parent": target.ref, "key": key, "config.distributedVirtualSwitch": switch.ref},
            )
            now = _observed(before, view.estate) if name in groups else PortGroup()
            config = {**(before.get(CONFIG) or {}), **_port_config(wanted, now, before.get(CONFIG), switch)}
            if not dvs.order(config)[0]:
                config["uplinkTeamingPolicy"] = port_settings.teaming_policy(dvs.uplinks(switch), (), None, None)
            pool = {f"config.{k}": v for k, v in _pool(wanted, now, switch).items()}
            yield replace(before, properties={**before.properties, CONFIG: config, **pool})

    def export(self, target: Target, view: View, form: Form) -> Export:
        """Private VLANs are not stated; in a rollback, a port group that was in no pool goes back into none."""
        groups = self.port_groups or {}
        if form != "playbook":
            return Export(self if groups or form == "shown" else None)
        stated = {
            n: g.model_copy(update={"resource_pool": None}) if g.resource_pool == nioc.NO_POOL else g
            for n, g in groups.items()
        }
        configs = {n: f.get(CONFIG) or {} for n, f in dvs.port_groups(view.estate, target.ref).items()}
        odd = ", ".join(sorted(n for n in groups if "pvlanId" in (configs[n].get("vlan") or {})))
        state = self.model_copy(update={"port_groups": stated}) if stated else None
        return Export(state, f"the private VLANs of {odd} are left out" if odd else "")


def _is_ours(estate: Estate, group: Facts) -> bool:
    return not is_uplink(estate, group) and group.get("config.backingType") in (None, "standard")


# -- reading


def _observed(facts: Facts, estate: Estate) -> PortGroup:
    config = facts.get(CONFIG) or {}
    switch = estate.get(facts.get("config.distributedVirtualSwitch"))
    active, standby = dvs.order(config)
    vlan, trunk = port_settings.tags(config)
    return PortGroup.model_construct(
        switch=switch.name if switch else None,
        vlan=vlan,
        trunk=trunk,
        active_uplinks=active or None,
        standby_uplinks=standby,
        teaming=port_settings.teaming(config),
        security=Security.model_construct(**port_settings.security(config)),
        mac_learning=port_settings.learns(config),
        resource_pool=nioc.pool_of(facts, switch),
    )


def _settled(wanted: PortGroup, now: PortGroup | None) -> PortGroup:
    if now is None:
        alone = wanted.vlan is None and wanted.trunk is None
        return wanted.model_copy(update={"vlan": 0} if alone else {})
    full = {n: getattr(now, n) for n in PortGroup.model_fields if getattr(wanted, n) is None}
    if wanted.vlan is not None or wanted.trunk is not None:
        full["vlan"], full["trunk"] = wanted.vlan, wanted.trunk
    active, standby = wanted.active_uplinks, wanted.standby_uplinks
    if active and standby is None:
        full["standby_uplinks"] = tuple(u for u in now.standby_uplinks or () if u not in active)
    if standby and active is None:
        full["active_uplinks"] = tuple(u for u in now.active_uplinks or () if u not in standby)
    if wanted.security:
        old = now.security or Security()
        unset = {n: getattr(old, n) for n in Security.model_fields if getattr(wanted.security, n) is None}
        full["security"] = wanted.security.model_copy(update=unset)
    return wanted.model_copy(update=full)


# -- what stands against it


def _place_problems(target: Target, estate: Estate, name: str, wanted: PortGroup) -> Iterator[Problem]:
    group, switches = dvs.port_groups(estate, target.ref).get(name), dvs.switches(estate, target.ref)
    if group is not None and not _is_ours(estate, group):
        what = "carries the uplinks of its switch" if is_uplink(estate, group) else "belongs to NSX"
        yield Problem(
            target, "port_groups.foreign", f"{name} {what}", "leave it out; such port groups are not changed here"
        )
        return
    if wanted.switch not in switches:
        said = f"there is no distributed switch {wanted.switch}" if wanted.switch else "no distributed switch is named"
        yield Problem(
            target,
            "port_groups.switch",
            f"{name}: {said}",
            f"distributed switches: {', '.join(switches) or 'none'}",
        )
    other = dvs.taken(estate, target.ref, name) if group is None else None
    if other is not None:
        yield Problem(
            target,
            "port_groups.name",
            f"{name} is the name of another network: {estate.path_of(other.ref)}",
            "names of networks are unique within a datacenter: choose another one",
        )
    if group is None:
        return
    own = estate.get(group.get("config.distributedVirtualSwitch"))
    if own is None or group.get(CONFIG) is None:
        yield Problem(
            target,
            "port_groups.unreadable",
            f"{name}: its settings or its switch cannot be read",
            "the account needs System.Read on the port group and on its switch",
        )
    elif wanted.switch != own.name:
        yield Problem(
            target,
            "port_groups.other-switch",
            f"{name} is on {own.name}; a port group cannot move to {wanted.switch}",
            f"write switch: {own.name}, or give the new port group another name",
        )


def _uplink_problems(target: Target, name: str, wanted: PortGroup, switch: Facts) -> Iterator[Problem]:
    active, standby = wanted.active_uplinks or (), wanted.standby_uplinks or ()
    known = (*dvs.uplinks(switch), *dvs.lags(switch))
    unknown = [u for u in (*active, *standby) if u not in known]
    if unknown:
        yield Problem(
            target,
            "port_groups.uplinks",
            f"{name}: {switch.name} has no uplink {', '.join(unknown)}",
            f"it has {', '.join(known) or 'none'}",
        )
    twice = sorted({u for u in (*active, *standby) if (*active, *standby).count(u) > 1})
    if twice:
        yield Problem(
            target,
            "port_groups.uplinks",
            f"{name}: {', '.join(twice)} is listed twice",
            "an uplink is active, standby or unused",
        )


def _management_problems(target: Target, estate: Estate, name: str, wanted: PortGroup) -> Iterator[Problem]:
    """Demand that a host whose management network is on a port group has a NIC on one of its uplinks."""
    listed = {*(wanted.active_uplinks or ()), *(wanted.standby_uplinks or ())}
    for host, group, proxy in dvs.managed_over(estate, dvs.port_groups(estate, target.ref).get(name)):
        now = dvs.carrying(host, proxy, group)
        if now and listed and not listed & set(now):
            yield Problem(
                target,
                "port_groups.management",
                f"{name} has the management network of {host.name}, which has no NIC on {', '.join(sorted(listed))}",
                f"it is carried over {', '.join(f'{u} = {n}' for u, n in now.items())}: keep one of them",
            )


# -- writing


def _changed(wanted: PortGroup, now: PortGroup) -> list[str]:
    names = [n for n in PortGroup.model_fields if getattr(wanted, n) != getattr(now, n)]
    return [n.replace("_", " ") for n in names if getattr(wanted, n) is not None]


def _create(target: Target, name: str, wanted: PortGroup, switch: Facts) -> Step:
    spec = {
        "_typeName": "DVPortgroupConfigSpec",
        "name": name,
        "type": "earlyBinding",
        "numPorts": NEW_PORTS,
        "autoExpand": True,
        "defaultPortConfig": _port_config(wanted, PortGroup(), None, switch),
        **_pool(wanted, PortGroup(), switch),
    }
    tag = f"trunk {', '.join(wanted.trunk)}" if wanted.trunk else f"VLAN {wanted.vlan}"
    return Invoke(
        target=target,
        kinds=(PortGroups.kind,),
        on=switch.ref,
        method="AddDVPortgroup_Task",
        args={"spec": (spec,)},
        summary=f"create port group {name} on {switch.name} ({tag})",
    )


def _pool(wanted: PortGroup, now: PortGroup, switch: Facts) -> dict[str, str]:
    """Return the pool to put a port group into, where that is another than it is in."""
    if wanted.resource_pool in (None, now.resource_pool):
        return {}
    return {nioc.POOL_KEY.removeprefix("config."): nioc.pool_key(switch, str(wanted.resource_pool))}


def _port_config(wanted: PortGroup, now: PortGroup, present: Mapping[str, Any] | None, switch: Facts) -> dict[str, Any]:
    """Return the settings that differ; a policy is sent in full, with what stays as it was read."""
    present = present or {}
    made: dict[str, Any] = {"_typeName": "VMwareDVSPortSetting"}
    if (wanted.vlan, wanted.trunk) != (now.vlan, now.trunk):
        made["vlan"] = port_settings.vlan_spec(wanted.vlan, wanted.trunk)
    order = (wanted.active_uplinks, wanted.standby_uplinks)
    moved = order[0] is not None and order != (now.active_uplinks, now.standby_uplinks)
    spread = wanted.teaming if wanted.teaming != now.teaming else None
    if moved or spread:
        made["uplinkTeamingPolicy"] = port_settings.teaming_policy(
            (wanted.active_uplinks or ()) if moved else None,
            wanted.standby_uplinks or (),
            spread,
            present.get("uplinkTeamingPolicy"),
        )
    if (wanted.security, wanted.mac_learning) != (now.security, now.mac_learning):
        allowed = {n: getattr(wanted.security, n, None) for n in Security.model_fields}
        old = dvs.is_older((switch.get("config.productInfo") or {}).get("version"), MAC_MANAGEMENT)
        made |= port_settings.guest_policy(allowed, wanted.mac_learning, present, old=old)
    return made
