"""Specs that make and change a distributed switch, and the switch as it will be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vsphere_ai.fabric import dvs, nioc
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Change
from vsphere_ai.model.steps import Invoke, Step
from vsphere_ai.resources._helpers.factories import invoke, invoke_on
from vsphere_ai.resources.switches.settings import UPLINKS, DistributedSwitchSettings

_TRAFFIC = nioc.TRAFFIC.removeprefix("config.")


def create_steps(change: Change, name: str, wanted: DistributedSwitchSettings) -> Iterator[Step]:
    """Yield the steps that make a switch."""
    target = change.target
    config = {
        "_typeName": "VMwareDVSConfigSpec",
        "name": name,
        "maxMtu": wanted.mtu,
        "uplinkPortPolicy": _policy(wanted),
    }
    product = {"productInfo": _product(wanted)} if wanted.version else {}
    spec = {"_typeName": "DVSCreateSpec", "configSpec": config, **product}
    said = f"version {wanted.version or 'as vCenter gives'}, MTU {wanted.mtu}, {len(wanted.uplinks or ())} uplinks"
    summary = f"create distributed switch {name} ({said})"
    yield invoke(change, "networkFolder", "CreateDVS_Task", {"spec": spec}, summary)
    made = dvs.planned_switch(target.ref, name)
    if wanted.nioc is not None:
        yield _nioc(change, made, name, wanted.nioc)
    if wanted.shares or wanted.bandwidth:
        given = nioc.traffic_spec(None, wanted.shares or {}, wanted.bandwidth or {})
        yield _reconfigure(change, made, name, {_TRAFFIC: given})
    yield from nioc.pool_steps(change.kind, target, made, name, nioc.changed(nioc.quotas(wanted.resource_pools), None))


def adjust_steps(
    change: Change, facts: Facts, wanted: DistributedSwitchSettings, now: DistributedSwitchSettings
) -> Iterator[Step]:
    """Yield the steps that change a switch."""
    target, name = change.target, facts.name
    if wanted.version != now.version:
        args = {"operation": "upgrade", "productSpec": _product(wanted)}
        summary = f"upgrade {name} from version {now.version} to {wanted.version}"
        yield invoke_on(change, facts.ref, "PerformDvsProductSpecOperation_Task", args, summary)
    spec: dict[str, object] = {}
    deferred: dict[str, object] = {}  # what would cut off traffic that hosts or VMs still have
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
    switched = [_nioc(change, facts.ref, name, wanted.nioc)] if wanted.nioc not in (None, now.nioc) else []
    pools = nioc.changed(nioc.quotas(wanted.resource_pools), nioc.quotas(now.resource_pools))
    grow, shrink = nioc.in_turn(facts, pools, max(nioc.reserved(wanted.bandwidth), nioc.reserved(now.bandwidth)))
    # pools and reservations are only changed while it is on
    off_last = wanted.nioc is False and bool(pools or bandwidth)
    yield from [] if off_last else switched
    yield from [_reconfigure(change, facts.ref, name, spec, version)] if spec else []
    yield from nioc.pool_steps(change.kind, target, facts.ref, facts, grow)
    last = [*nioc.pool_steps(change.kind, target, facts.ref, facts, shrink)]
    last += [_reconfigure(change, facts.ref, name, deferred, version)] if deferred else []
    last += switched if off_last else []
    yield from (replace(step, comes_last=True) for step in last)


def _nioc(change: Change, ref: str, name: str, enable: bool | None) -> Invoke:
    summary = f"switch Network I/O Control of {name} {'on' if enable else 'off'}"
    return invoke_on(change, ref, "EnableNetworkResourceManagement", {"enable": bool(enable)}, summary)


def _reconfigure(change: Change, ref: str, name: str, spec: Mapping[str, object], version: str = "") -> Invoke:
    words = {"maxMtu": "MTU", "uplinkPortPolicy": "uplinks", _TRAFFIC: "system traffic"}
    args = {"spec": {"_typeName": "VMwareDVSConfigSpec", "configVersion": version, **spec}}
    return invoke_on(change, ref, "ReconfigureDvs_Task", args, f"set {', '.join(words[k] for k in spec)} of {name}")


def _product(wanted: DistributedSwitchSettings) -> dict[str, object]:
    return {"_typeName": "DistributedVirtualSwitchProductSpec", "version": wanted.version}


def _policy(wanted: DistributedSwitchSettings) -> dict[str, object]:
    return {"_typeName": "DVSNameArrayUplinkPortPolicy", "uplinkPortName": wanted.uplinks}


def as_read(datacenter: str, name: str, wanted: DistributedSwitchSettings, now: Facts | None) -> Facts:
    """Return a switch as it will be read."""
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
        nioc.POOLS: nioc.planned_pools(before, datacenter, nioc.quotas(wanted.resource_pools)) or None,
    }
    return before.having({path: value for path, value in changed.items() if value is not None})
