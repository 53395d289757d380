"""Uplinks of a host: its physical NICs on distributed switches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import Field

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric.corrections import UplinkNics
from vsphere_ai.fabric.dvs import PORT_GROUP
from vsphere_ai.fabric.networks import REACHED
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import HOST_NETWORK, MEMBERS, Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.topics import Topic
from vsphere_ai.resources.uplinks.checks import management_problems, nic_problems, switch_problems
from vsphere_ai.resources.uplinks.membership import (
    NICS,
    PROXIES,
    lagged_switches,
    member_step,
    pnic_backing,
    pnic_specs,
    proxy_of,
    switches_of,
)

SWITCH = ("uuid", "config.configVersion", "config.uplinkPortPolicy", "config.productInfo", "config.host")
Nic = Annotated[str, Field(pattern=r"^vmnic\d+$")]
Name = Annotated[str, Field(min_length=1, max_length=80)]


class Uplinks(Corrects, Resource):
    """Makes a host a member of distributed switches with exactly the named NICs.

    Other switches of the host are never touched. The NICs its management network hangs on stay where they are.
    """

    kind = KindName("uplinks")
    target = "host"
    shorthand = "uplinks"
    keyed = True
    traits = Traits(
        duties=(
            Duty("`uplinks`", f"the distributed switches; {HOST_NETWORK} on the hosts", also=(MEMBERS, HOST_NETWORK)),
        ),
        after=kind_names("switches", "port_groups"),
        properties={
            "HostSystem": (NICS, PROXIES, REACHED, "config.network.vswitch", *dvs.MANAGEMENT_PATHS),
            dvs.SWITCH: (*SWITCH, "config.maxMtu", "config.uplinkPortgroup"),
            PORT_GROUP: ("key", "config.defaultPortConfig", "config.distributedVirtualSwitch"),
        },
        affects=Topic.PVRDMA,
    )

    uplinks: Mapping[Name, Mapping[Name, Nic]] | None = setting(
        "Switch -> uplink -> NIC of the host: all NICs that switch has there; `{}` makes the host a member without any."
    )

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The NICs that a host gives to switches."""
        return {c.name: dict(c.nics) for c in corrections if isinstance(c, UplinkNics)}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the NICs of every distributed switch the host is a member of."""
        if facts.get(NICS) is None:
            return None
        return cls.model_construct(uplinks={p["dvsName"]: dvs.nics(p) for p in dvs.proxies(facts).values()})

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No such switch, uplink or NIC; a NIC that something else has; the management network would be cut."""
        host = view.facts(target.ref)
        if host.get(NICS) is None:
            message = "the network of this host cannot be read"
            yield self.problem(target, "unreadable", message, "connect the host to vCenter")
            return
        changing = self._changing(view, host)
        switches = switches_of(target, view, changing)
        for name, wanted in changing.items():
            switch = switches.get(name)
            if switch is None:
                there = ", ".join(switches_of(target, view)) or "none"
                remedy = f"add switches: {{{name}: ...}} to a play for the datacenter; there is {there}"
                message = f"there is no distributed switch {name} in the host's datacenter"
                yield self.problem(target, "switch", message, remedy)
            else:
                yield from switch_problems(target, host, switch, wanted)
                yield from management_problems(target, view, switch, wanted)
            yield from nic_problems(target, host, name, self.uplinks or {})

    def _changing(self, view: View, host: Facts) -> dict[str, Mapping[str, str]]:
        """Return what is wanted of the switches that are not in the desired state: what stays is never in the way."""
        have = (self.observe(host, view.estate) or Uplinks()).uplinks or {}
        return {name: wanted for name, wanted in (self.uplinks or {}).items() if have.get(name) != wanted}

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """A switch without uplinks cuts off who is on it."""
        switches = switches_of(target, view, self.uplinks or {})
        for name, wanted in (self.uplinks or {}).items():
            now = proxy_of(view.facts(target.ref), switches.get(name))
            if now is not None and dvs.nics(now) and not wanted:
                yield f"{name} has no way out of this host any more: VMs and vmkernel adapters on it are cut off"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Join, then free the NICs that move, then give every switch its own."""
        target, host = change.target, view.facts(change.target.ref)
        changing = self._changing(view, host)
        switches = switches_of(target, view, changing)
        claimed = {nic: name for name, wanted in changing.items() for nic in wanted.values()}
        prepared: dict[str, dict[str, str]] = {}
        have = {name: dvs.nics(proxy) if (proxy := proxy_of(host, switches[name])) else {} for name in changing}
        # VMs may use a NIC that moves: that waits for the window of the host, where it has one
        taken = any(claimed.get(nic, name) != name for name, nics in have.items() for nic in nics.values())
        for name, now in have.items():
            switch, proxy = switches[name], proxy_of(host, switches[name])
            kept = {u: n for u, n in now.items() if claimed.get(n, name) == name}
            if proxy is None:
                yield replace(member_step(change, switch, "add", None, f"join {name}"), comes_first=not taken)
            elif kept != now:
                moving = ", ".join(sorted(n for n in now.values() if n not in kept.values()))
                specs = pnic_specs(target, view, switch, kept)
                yield member_step(change, switch, "edit", specs, f"take {moving} from {name}")
            if proxy is None or kept != now:
                prepared[name] = kept
        for name, wanted in changing.items():
            if prepared.get(name) == wanted:
                continue
            # a membership this plan has changed before is looked up when it is sent
            specs = pnic_specs(target, view, switches[name], wanted, anew=name in prepared)
            summary = f"set uplinks of {name}: {', '.join(_pairs(wanted))}"
            first = not taken and proxy_of(host, switches[name]) is None
            yield replace(member_step(change, switches[name], "edit", specs, summary), comes_first=first)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the host's switches as they will be read."""
        if after == "reboot":
            return Projection(self)
        host = view.facts(target.ref)
        switches = switches_of(target, view, self.uplinks or {})
        keys = {p["device"]: p.get("key") for p in host.get(NICS, ())}
        proxies: dict[str, Any] = {p["dvsName"]: dict(p) for p in dvs.proxies(host).values()}
        for name, wanted in self._changing(view, host).items():
            switch = switches.get(name)
            if switch is None:
                continue  # a problem says so
            specs = pnic_specs(target, view, switch, wanted)
            ports = {kv["value"]: kv["key"] for kv in (proxies.get(name) or {}).get("uplinkPort", ())}
            ports |= dict(zip(wanted, (s["uplinkPortKey"] for s in specs), strict=True))
            proxies[name] = {
                "_typeName": "HostProxySwitch",
                "dvsUuid": switch.get("uuid"),
                "dvsName": name,
                "mtu": switch.get("config.maxMtu"),
                **proxies.get(name, {}),
                "uplinkPort": tuple({"_typeName": "KeyValue", "key": k, "value": u} for u, k in ports.items()),
                "pnic": tuple(keys[n] for n in wanted.values() if n in keys),
                "spec": {"_typeName": "HostProxySwitchSpec", "backing": pnic_backing(specs)},
            }
        reached = host.get(REACHED)
        new = (s for s in switches.values() if proxy_of(host, s) is None and s.name in proxies)
        groups = [group.ref for switch in new for group in dvs.groups_of(view.estate, switch)]
        more = {} if reached is None else {REACHED: tuple(dict.fromkeys((*reached, *groups)))}
        return Projection(self, (host.having({PROXIES: tuple(proxies.values()), **more}),))

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """Show each switch's uplinks as a list; switches with a link aggregation group are not stated."""
        if form == "shown":
            listed = {name: _pairs(dict(sorted(nics.items()))) for name, nics in (self.uplinks or {}).items()}
            return StateExport(self.model_copy(update={"uplinks": listed}))
        lagged = lagged_switches(view.facts(target.ref))
        kept = {n: dict(sorted(u.items())) for n, u in (self.uplinks or {}).items() if n not in lagged}
        left_out = f"uplinks left out: {', '.join(lagged)} (link aggregation)" if lagged else ""
        return StateExport(self.model_copy(update={"uplinks": kept}) if kept else None, left_out)


def _pairs(nics: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{uplink} = {nic}" for uplink, nic in nics.items()) or ("no NIC",)
