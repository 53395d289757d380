"""Membership of a host in distributed switches: which NIC is which uplink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric.api_types import PhysicalNic, ProxySwitch
from vsphere_ai.model.deferred import Deferred, inside
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Change, Target
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import invoke_on

NICS, PROXIES = "config.network.pnic", "config.network.proxySwitch"


def switches_of(host: Target, view: View, names: Iterable[str] | None = None) -> dict[str, Facts]:
    """Return the distributed switches of a host's datacenter by name: all, or those that have one of `names`."""
    at = view.estate.datacenter_of(host.ref)
    if names is None:
        return dvs.switches(view.estate, at.ref) if at else {}
    named = ((name, dvs.switch_named(view.estate, at.ref, name)) for name in names) if at else ()
    return {name: switch for name, switch in named if switch is not None}


def proxy_of(host: Facts, switch: Facts | None) -> ProxySwitch | None:
    """Return what a host has of a switch; None when it is no member."""
    return dvs.proxies(host).get(switch.get("uuid", "")) if switch else None


def owner_of(host: Facts, nic: PhysicalNic) -> str:
    """Return the name of the switch a NIC belongs to, distributed or standard; empty when it is free."""
    for proxy in dvs.proxies(host).values():
        if nic["device"] in dvs.nics(proxy).values():
            return str(proxy["dvsName"])
    return next((v["name"] for v in host.get("config.network.vswitch", ()) if nic.get("key") in v.get("pnic", ())), "")


def lagged_switches(host: Facts) -> list[str]:
    """Return the names of switches that have NICs of this host in a link aggregation group."""
    found = []
    for proxy in dvs.proxies(host).values():
        ports = {kv["value"] for lag in proxy.get("hostLag", ()) for kv in lag.get("uplinkPort", ())}
        if ports & set(dvs.nics(proxy)):
            found.append(str(proxy["dvsName"]))
    return sorted(found)


def pnic_specs(
    target: Target, view: View, switch: Facts, wanted: Mapping[str, str], *, anew: bool = False
) -> tuple[dict[str, str], ...]:
    """Return which NIC goes to which port. The ports of a host that is not a member yet are made when it joins."""
    proxy = proxy_of(view.facts(target.ref), switch) or {}
    ports = {} if anew else {kv["value"]: kv["key"] for kv in proxy.get("uplinkPort", ())}
    group = next(iter(switch.get("config.uplinkPortgroup", ())), "").partition(":")[2]
    return tuple(
        {
            "_typeName": "DistributedVirtualSwitchHostMemberPnicSpec",
            "pnicDevice": nic,
            "uplinkPortKey": ports.get(uplink) or _late_port(target, view, switch.name, uplink),
            **({"uplinkPortgroupKey": group} if group else {}),
        }
        for uplink, nic in wanted.items()
    )


def _late_port(target: Target, view: View, switch: str, uplink: str) -> str:
    at = view.estate.datacenter_of(target.ref)
    path = inside(PROXIES, ("dvsName", switch), "uplinkPort", ("value", uplink), "key")
    return Deferred(at.ref if at else "", "HostSystem", target.name, path)


def pnic_backing(specs: tuple[dict[str, str], ...]) -> dict[str, object]:
    """Return the backing with these NICs."""
    return {"_typeName": "DistributedVirtualSwitchHostMemberPnicBacking", "pnicSpec": specs}


def member_step(
    change: Change, switch: Facts, operation: str, specs: tuple[dict[str, str], ...] | None, summary: str
) -> Step:
    """Return the step that makes a host a member of a switch, or changes its NICs."""
    member = {"_typeName": "DistributedVirtualSwitchHostMemberConfigSpec", "operation": operation}
    backing = {} if specs is None else {"backing": pnic_backing(specs)}
    version = switch.get("config.configVersion", "")
    hosts = ({**member, "host": change.target.ref, **backing},)
    spec = {"_typeName": "VMwareDVSConfigSpec", "configVersion": version, "host": hosts}
    return invoke_on(change, switch.ref, "ReconfigureDvs_Task", {"spec": spec}, summary)
