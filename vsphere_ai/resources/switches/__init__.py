"""Distributed switches of a datacenter: version, MTU, uplinks, Network I/O Control and its resource pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

from pydantic import Field

from vsphere_ai.fabric import PORT_GROUP, dvs, nioc, nioc_fit
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Change, Problem, Target
from vsphere_ai.model.steps import Invoke, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.keyed import settled_each
from vsphere_ai.resources.base import After, Export, Form, Projection, Resource, Traits
from vsphere_ai.resources.switches.settings import UPLINKS, Name, Switch, observed, settled

_TRAFFIC = nioc.TRAFFIC.removeprefix("config.")
PATHS = ("uuid", "config.configVersion", "config.maxMtu", UPLINKS, "config.productInfo", "config.host",
         "config.uplinkPortgroup", "config.lacpGroupConfig", *nioc.PATHS)  # fmt: skip


class Switches(Resource):
    """Makes distributed switches, or adjusts them; switches and settings that are not named are never touched."""

    kind = "switches"
    target = "datacenter"
    shorthand = "switches"
    keyed = True
    traits = Traits(
        properties={
            dvs.SWITCH: PATHS,
            PORT_GROUP: ("config.defaultPortConfig", "config.distributedVirtualSwitch", nioc.POOL_KEY),
            "HostSystem": ("config.network.proxySwitch", "config.network.vnic", "config.network.pnic"),
            "Network": ("name", "parent"),
        },
        affects=frozenset({"pvrdma"}),
    )

    switches: Mapping[Name, Switch] | None = Field(default=None, description="Switch name -> what it should be.")

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
            facts = dvs.switches(view.estate, target.ref).get(name)
            yield from _version_problems(target, view.estate, name, wanted.version, facts)
            yield from nioc_fit.switch_problems(target, view, name, facts, wanted)
            if facts is not None:
                yield from _uplink_problems(target, view.estate, facts, wanted)
                yield from _mtu_problems(target, view, facts, wanted)
            elif (other := dvs.taken(view.estate, target.ref, name)) is not None:
                yield Problem(
                    target,
                    "switches.name",
                    f"{name} is the name of another network: {view.estate.path_of(other.ref)}",
                    "names of networks are unique within a datacenter: choose another one",
                )

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """What counts for nothing without Network I/O Control, and what nobody knows of its pools."""
        there = dvs.switches(view.estate, target.ref)
        for name, wanted in (self.switches or {}).items():
            said = nioc_fit.said_of(target, view, name) or wanted
            if said.shares and wanted.nioc is False:
                yield f"{name}: shares count only with Network I/O Control; add nioc: true"
            yield from nioc_fit.switch_notes(target, view, name, there.get(name), wanted)

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Make each switch, or upgrade it, switch Network I/O Control, and set the rest in one go."""
        have = (change.before.switches if change.before else None) or {}
        there = dvs.switches(view.estate, change.target.ref)
        for name, wanted in (self.switches or {}).items():
            if name in there:
                yield from _adjust(change.target, there[name], wanted, have[name])
            else:
                yield from _create(change.target, name, wanted)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the switches as they will be read, and their MTU on the hosts that are members."""
        return Projection(self, tuple(self._as_read(target, view)) if after == "plan" else ())

    def _as_read(self, target: Target, view: View) -> Iterator[Facts]:
        there = dvs.switches(view.estate, target.ref)
        mtus = {}
        for name, wanted in (self.switches or {}).items():
            after = _as_read(target.ref, name, wanted, there.get(name))
            mtus[after.get("uuid")] = wanted.mtu
            yield after
        for host in view.estate.of_type("HostSystem"):
            seen = host.get("config.network.proxySwitch", ())
            new = tuple({**p, "mtu": mtus[p["dvsUuid"]]} if mtus.get(p["dvsUuid"]) else p for p in seen)
            if new != seen:
                yield replace(host, properties={**host.properties, "config.network.proxySwitch": new})

    def export(self, target: Target, view: View, form: Form) -> Export:
        """State of bandwidth what is not as on a new switch; a datacenter without a switch has nothing to state."""
        if form != "playbook":
            return Export(self if form == "shown" else self._before(target, view))
        stated = {
            name: switch.model_copy(update={"bandwidth": nioc.set_by_hand(switch.bandwidth or {}) or None})
            for name, switch in (self.switches or {}).items()
        }
        return Export(self.model_copy(update={"switches": stated}) if stated else None)

    def _before(self, target: Target, view: View) -> Self:
        """The version of a switch is never lowered; pools that were added go."""
        playbook = view.said(Switches, target.ref)
        said = (playbook.switches if playbook else None) or {}
        kept = {}
        # port groups are not removed: a pool that a new one is in stays, without a reservation
        there = dvs.port_groups(view.estate, target.ref)
        kept_in = {pool for group, pool in nioc_fit.joining(target, view).items() if group not in there}
        for name, switch in (self.switches or {}).items():
            added = said[name].resource_pools or () if name in said else ()
            pools = {**{n: 0 if n in kept_in else nioc.ABSENT for n in added}, **(switch.resource_pools or {})}
            kept[name] = switch.model_copy(update={"version": None, "resource_pools": pools or None})
        return self.model_copy(update={"switches": kept})


def _version_problems(
    target: Target, estate: Estate, name: str, version: str | None, facts: Facts | None
) -> Iterator[Problem]:
    now = (facts.get("config.productInfo") or {}).get("version") if facts else None
    if version is None or version == now:
        return
    if dvs.is_older(version, now):
        yield Problem(
            target,
            "switches.version",
            f"{name} has version {now}; a switch cannot go back to {version}",
            f"write version: {now}, or leave it out",
        )
    if dvs.is_older(estate.about.version, version):
        yield Problem(
            target,
            "switches.version",
            f"{name}: vCenter {estate.about.version} does not make switches of version {version}",
            f"write version: {estate.about.version}, or upgrade vCenter",
        )
    hosts = (estate.get(ref) for ref in dvs.members(facts)) if facts else ()
    old = [h for h in hosts if h is not None and dvs.is_older(dvs.host_version(h), version)]
    if old:
        names = ", ".join(f"{h.name} ({dvs.host_version(h)})" for h in sorted(old, key=lambda h: h.name))
        yield Problem(
            target,
            "switches.host-version",
            f"{name}: version {version} needs ESXi {version} or later on every member; too old: {names}",
            "upgrade these hosts first, or leave the version as it is",
        )


def _uplink_problems(target: Target, estate: Estate, facts: Facts, wanted: Switch) -> Iterator[Problem]:
    if facts.get("config.maxMtu") is None or not dvs.uplinks(facts):
        yield Problem(
            target,
            "switches.unreadable",
            f"{facts.name}: its configuration cannot be read as that of a VMware distributed switch",
            "the account needs System.Read on it; switches of other vendors are not changed here",
        )
        return
    for gone in (u for u in dvs.uplinks(facts) if u not in (wanted.uplinks or ())):
        users = ", ".join(_users(estate, facts, gone))
        if users:
            yield Problem(
                target,
                "switches.uplinks",
                f"{facts.name}: {gone} is in use and is neither removed nor renamed: {users}",
                f"keep {gone} in the list; free it first, in a playbook of its own",
            )


def _mtu_problems(target: Target, view: View, facts: Facts, wanted: Switch) -> Iterator[Problem]:
    """A smaller MTU drops the frames of the VMkernel adapters that stay larger, without a word."""
    size = wanted.mtu or 0
    if size >= facts.get("config.maxMtu", 0):
        return
    larger = []
    for host, vnic, group in dvs.vnics(view.estate, facts.get("uuid", "")):
        said = getattr(view.stated.get((host.ref, "vmkernel")), "adapters", None) or {}
        mtu = getattr(said.get(group), "mtu", None) or vnic["spec"].get("mtu") or 0
        larger += [f"{host.name} {vnic['device']} ({mtu})"] if mtu > size else []
    if larger:
        yield Problem(
            target,
            "switches.mtu",
            f"{facts.name}: MTU {size} is below that of VMkernel adapters on it: {', '.join(larger)}",
            f"keep mtu: {facts.get('config.maxMtu')}, or give them at most {size} too, with vmkernel: {{PORT_GROUP: "
            f"{{mtu: {size}}}}} in the same playbook",
        )


def _users(estate: Estate, switch: Facts, uplink: str) -> Iterator[str]:
    """Say who uses an uplink; a host that gives the switch NICs and cannot be read may."""
    for ref, given in dvs.members(switch).items():
        host = estate.get(ref)
        proxy = dvs.proxies(host).get(switch.get("uuid", "")) if host else None
        if proxy is not None and uplink in dvs.nics(proxy):
            yield f"{dvs.nics(proxy)[uplink]} of {host.name if host else ref}"
        elif proxy is None and given:
            yield f"perhaps {host.name if host else ref}, which cannot be read"
    for group in estate.of_type(PORT_GROUP):
        config = group.get("config.defaultPortConfig")
        own = group.get("config.distributedVirtualSwitch") == switch.ref and dvs.is_stated(config)
        if own and any(uplink in names for names in dvs.order(config)):
            yield f"port group {group.name}"


def _create(target: Target, name: str, wanted: Switch) -> Iterator[Step]:
    product = {"productInfo": {"_typeName": "DistributedVirtualSwitchProductSpec", "version": wanted.version}}
    config = {"_typeName": "VMwareDVSConfigSpec", "name": name, "maxMtu": wanted.mtu,
              "uplinkPortPolicy": _policy(wanted)}  # fmt: skip
    said = f"version {wanted.version or 'as vCenter gives'}, MTU {wanted.mtu}, {len(wanted.uplinks or ())} uplinks"
    yield Invoke(
        target=target,
        kinds=(Switches.kind,),
        path="networkFolder",
        method="CreateDVS_Task",
        args={"spec": {"_typeName": "DVSCreateSpec", "configSpec": config, **(product if wanted.version else {})}},
        summary=f"create distributed switch {name} ({said})",
    )
    made = dvs.planned_switch(target.ref, name)
    if wanted.nioc is not None:
        yield _nioc(target, made, name, wanted.nioc)
    if wanted.shares or wanted.bandwidth:
        given = nioc.traffic_spec(None, wanted.shares or {}, wanted.bandwidth or {})
        yield _reconfigure(target, made, name, {_TRAFFIC: given})
    yield from nioc.pool_steps(target, made, name, nioc.changed(wanted.resource_pools, None))


def _adjust(target: Target, facts: Facts, wanted: Switch, now: Switch) -> Iterator[Step]:
    name = facts.name
    if wanted.version != now.version:
        yield Invoke(
            target=target,
            kinds=(Switches.kind,),
            on=facts.ref,
            method="PerformDvsProductSpecOperation_Task",
            args={
                "operation": "upgrade",
                "productSpec": {"_typeName": "DistributedVirtualSwitchProductSpec", "version": wanted.version},
            },
            summary=f"upgrade {name} from version {now.version} to {wanted.version}",
        )
    spec: dict[str, Any] = {}
    deferred: dict[str, Any] = {}  # what would cut off traffic that hosts or VMs still have
    if wanted.mtu != now.mtu:
        smaller = wanted.mtu is not None and now.mtu is not None and wanted.mtu < now.mtu
        (deferred if smaller else spec)["maxMtu"] = wanted.mtu
    if wanted.uplinks != now.uplinks:
        spec["uplinkPortPolicy"] = _policy(wanted)
    shares = nioc.changed(wanted.shares, now.shares)
    bandwidth = nioc.changed(wanted.bandwidth, now.bandwidth)
    less = nioc.VIRTUAL_MACHINE in bandwidth and nioc.reserved(bandwidth) < nioc.reserved(now.bandwidth)
    if shares or bandwidth:
        (deferred if less else spec)[_TRAFFIC] = nioc.traffic_spec(facts, shares, bandwidth)
    version = facts.get("config.configVersion", "")
    switched = [_nioc(target, facts.ref, name, wanted.nioc)] if wanted.nioc not in (None, now.nioc) else []
    pools = nioc.changed(wanted.resource_pools, now.resource_pools)
    grow, shrink = nioc.in_turn(facts, pools, max(nioc.reserved(wanted.bandwidth), nioc.reserved(now.bandwidth)))
    # pools and reservations are only changed while it is on
    off_last = wanted.nioc is False and bool(pools or bandwidth)
    yield from [] if off_last else switched
    yield from [_reconfigure(target, facts.ref, name, spec, version)] if spec else []
    yield from nioc.pool_steps(target, facts.ref, facts, grow)
    last = [*nioc.pool_steps(target, facts.ref, facts, shrink)]
    last += [_reconfigure(target, facts.ref, name, deferred, version)] if deferred else []
    last += switched if off_last else []
    yield from (replace(step, comes_last=True) for step in last)


def _nioc(target: Target, ref: str, name: str, enable: bool | None) -> Invoke:
    return Invoke(
        target=target,
        kinds=(Switches.kind,),
        on=ref,
        method="EnableNetworkResourceManagement",
        args={"enable": bool(enable)},
        summary=f"switch Network I/O Control of {name} {'on' if enable else 'off'}",
    )


def _reconfigure(target: Target, ref: str, name: str, spec: Mapping[str, Any], version: str = "") -> Invoke:
    words = {"maxMtu": "MTU", "uplinkPortPolicy": "uplinks", _TRAFFIC: "system traffic"}
    return Invoke(
        target=target,
        kinds=(Switches.kind,),
        on=ref,
        method="ReconfigureDvs_Task",
        args={"spec": {"_typeName": "VMwareDVSConfigSpec", "configVersion": version, **spec}},
        summary=f"set {', '.join(words[k] for k in spec)} of {name}",
    )


def _policy(wanted: Switch) -> dict[str, Any]:
    return {"_typeName": "DVSNameArrayUplinkPortPolicy", "uplinkPortName": wanted.uplinks}


def _as_read(datacenter: str, name: str, wanted: Switch, now: Facts | None) -> Facts:
    deferred = dvs.planned_switch(datacenter, name, "uuid")
    before = now or Facts(dvs.planned_switch(datacenter, name), {"name": name, "parent": datacenter, "uuid": deferred})
    product = dict(before.get("config.productInfo") or {})
    changed = {
        "config.maxMtu": wanted.mtu,
        UPLINKS: _policy(wanted),
        "config.productInfo": {**product, "version": wanted.version} if wanted.version else product,
        "config.productInfo.version": wanted.version,
        nioc.ENABLED: wanted.nioc,
        nioc.TRAFFIC: nioc.planned_traffic(before, wanted.shares or {}, wanted.bandwidth or {}) or None,
        nioc.POOLS: nioc.planned_pools(before, datacenter, wanted.resource_pools or {}) or None,
    }
    known = {k: v for k, v in changed.items() if v is not None}
    return replace(before, properties={**before.properties, **known})
