"""HostVirtualNicManager: which VMkernel adapters carry management, vMotion and other traffic of the host itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, demand, reads
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager
from vsphere_ai.lab.managed.refusals import host_config_fault, invalid_argument
from vsphere_ai.lab.scenario.hosts import NIC_TYPES
from vsphere_ai.lab.store import ManagedObject, fill

FROM_THE_START = ("management", "vmotion")


@host_manager("virtualNicManager")
def start(farm: Farm, mo: ManagedObject) -> Mapping[str, Any]:
    """Let the VMkernel adapters of a host carry what the scenario says, else the first one what every host needs."""
    first = [v.device for v in mo["config"].network.vnic or ()][:1]
    described = {v.name: v.services for v in mo.extra.get("vmkernel", ()) if v.services}
    mo.extra["vnic_services"] = {
        kind: {name for name, services in described.items() if kind in services}
        if described
        else set(first if kind in FROM_THE_START else ())
        for kind in NIC_TYPES
    }
    show(farm, mo)
    return {}


def show(farm: Farm, mo: ManagedObject) -> None:
    """Write what is selected into ``config`` and into the manager."""
    services, config = mo.extra.get("vnic_services"), mo["config"]
    if services is None or config is None:
        return
    present = list(config.network.vnic or ())
    info = vim.host.VirtualNicManagerInfo(netConfig=[_config(k, chosen, present) for k, chosen in services.items()])
    config.virtualNicManagerInfo = fill(info)
    farm.store.set(mo.extra["virtualNicManager"], info=info)


def _config(kind: str, chosen: set[str], adapters: list[Any]) -> Any:
    candidates = [copy.copy(adapter) for adapter in adapters]
    for candidate in candidates:
        candidate.key = f"{kind}.{candidate.key}"
    return vim.host.VirtualNicManager.NetConfig(
        nicType=kind,
        multiSelectAllowed=True,
        candidateVnic=candidates,
        selectedVnic=[c.key for c in candidates if c.device in chosen],
    )


@reads(vim.host.VirtualNicManager, "QueryNetConfig")
def query(call: Call, nicType: str) -> Any:
    """Return the candidates and the selection of one kind of traffic."""
    mo, _ = host_of_manager(call)
    found = [c for c in mo["config"].virtualNicManagerInfo.netConfig if c.nicType == nicType]
    if not found:
        raise invalid_argument("nicType", nicType)
    return found[0]


@changes(vim.host.VirtualNicManager, "SelectVnicForNicType")
def select(call: Call, nicType: str, device: str) -> None:
    """Let an adapter carry a kind of traffic, besides those which do already."""
    _set(call, nicType, device, True)


@changes(vim.host.VirtualNicManager, "DeselectVnicForNicType")
def deselect(call: Call, nicType: str, device: str) -> None:
    """Take a kind of traffic off an adapter; the last one with management stays what it is."""
    _set(call, nicType, device, False)


def _set(call: Call, kind: str, device: str, wanted: bool) -> None:
    demand(call, "Host.Config.Network")
    mo, _ = host_of_manager(call)
    services: dict[str, set[str]] = mo.extra["vnic_services"]
    if kind not in services:
        raise invalid_argument("nicType", kind)
    if not any(v.device == device for v in mo["config"].network.vnic or ()):
        raise invalid_argument("device", device)
    if (device in services[kind]) == wanted:
        return
    if not wanted and kind == "management" and len(services[kind]) == 1:
        raise host_config_fault(f"{device} is the only adapter with management traffic")
    services[kind] ^= {device}
    show(call.farm, mo)
    call.farm.record(mo, f"{'Select' if wanted else 'Deselect'}VnicForNicType", nicType=kind, device=device)
    call.farm.mark(mo)
