"""Network I/O Control, version 3: system traffic, network resource pools, and what adapters of VMs reserve of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.refusals import (
    duplicate_name,
    invalid_argument,
    invalid_name,
    not_found,
    not_supported,
    same_version,
)
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.store import ManagedObject, fill
from vsphere_ai.lab.tasks import TaskWork

LEVELS = {"low": 25, "normal": 50, "high": 100}
PERCENT = 75
"""How much of the slowest NIC can be reserved, as documented."""
NO_POOL = "-1"
_ARGUMENT = "spec.infrastructureTrafficResourceConfig"
Nic = vim.vm.device.VirtualEthernetCard


# -- system traffic


def changed_traffic(farm: Farm, dvs: ManagedObject, given: Any) -> list[Any]:
    """Return the kinds of traffic that really change; refuse what cannot be, before anything is."""
    config = dvs["config"]
    present = {r.key: r for r in config.infrastructureTrafficResourceConfig}
    found = [r for r in given if _changes(present.get(r.key), r)]
    after = {**present, **{r.key: r for r in found}}
    if found:
        _check_reservations(farm, dvs, {k: r.allocationInfo.reservation or 0 for k, r in after.items()})
    return found


def set_traffic(config: Any, changed: list[Any]) -> dict[str, dict[str, int]]:
    """Put changed kinds of traffic in place; say for the ledger what was set."""
    detail: dict[str, dict[str, int]] = {}
    for resource in changed:
        present = next(r for r in config.infrastructureTrafficResourceConfig if r.key == resource.key)
        now, given = present.allocationInfo, resource.allocationInfo
        for name, old, new in (
            ("shares", now.shares.shares, given.shares.shares),
            ("reservations", now.reservation, given.reservation),
            ("limits", now.limit, given.limit),
        ):
            if old != new:
                detail.setdefault(name, {})[str(resource.key)] = int(new)
        present.allocationInfo = given
    return detail


def _changes(present: Any, resource: Any) -> bool:
    given = resource.allocationInfo
    if present is None or given.shares is None or not _set_right(given.shares):
        raise invalid_argument(_ARGUMENT, str(resource.key))
    now = present.allocationInfo
    given.reservation = now.reservation if given.reservation is None else given.reservation
    given.limit = now.limit if given.limit is None else given.limit
    if given.reservation < 0 or (given.limit != -1 and given.limit < max(1, given.reservation)):
        raise invalid_argument(_ARGUMENT, f"{resource.key}: {given.reservation} to {given.limit} Mbit/s")
    levels = ((a.shares.shares, str(a.shares.level), a.limit, a.reservation) for a in (now, given))
    return bool(next(levels) != next(levels))


def _set_right(shares: Any) -> bool:
    """Give a named level its number, which counts with a custom one only; return whether the number may be."""
    level = str(shares.level)
    if level in LEVELS:
        shares.shares = LEVELS[level]
    return 1 <= int(shares.shares) <= 100


def _check_reservations(farm: Farm, dvs: ManagedObject, reserved: dict[str, int]) -> None:
    speeds = [nic.speed_mb for nic in _nics(farm, dvs) if nic.link_up]
    if speeds and sum(reserved.values()) > min(speeds) * PERCENT // 100:
        raise invalid_argument(_ARGUMENT, f"{sum(reserved.values())} Mbit/s are more than {PERCENT} % of {min(speeds)}")
    quotas = sum(p.allocationInfo.reservationQuota for p in pools(dvs))
    if quotas > reserved.get("virtualMachine", 0) * len(_nics(farm, dvs)):
        raise invalid_argument(_ARGUMENT, f"resource pools have {quotas} Mbit/s")


def _nics(farm: Farm, dvs: ManagedObject) -> list[Any]:
    """Return the physical NICs the hosts give a switch."""
    found = []
    for member in dvs["config"].host or ():
        names = {spec.pnicDevice for spec in member.config.backing.pnicSpec or ()}
        found += [nic for nic in farm.host(farm.store.get(member.config.host)).pnics if nic.name in names]
    return found


# -- network resource pools


def pools(dvs: ManagedObject) -> list[Any]:
    """Return the network resource pools of a switch."""
    return list(dvs["config"].vmVnicNetworkResourcePool or ())


@changes(vim.DistributedVirtualSwitch, "DvsReconfigureVmVnicNetworkResourcePool_Task", "DVSwitch.ResourceManagement")
def reconfigure_pools(call: Call, configSpec: Any) -> Any:
    """Add, change and remove network resource pools: all of them or none."""
    farm, dvs = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        config = dvs["config"]
        if not config.networkResourceManagementEnabled or config.networkResourceControlVersion != "version3":
            raise not_supported("network resource pools need version 3 of Network I/O Control, switched on")
        after = {p.key: p for p in pools(dvs)}
        detail = [_apply(farm, dvs, after, spec) for spec in configSpec]
        quotas = sum(p.allocationInfo.reservationQuota for p in after.values())
        reserved = next(r for r in config.infrastructureTrafficResourceConfig if r.key == "virtualMachine")
        most = (reserved.allocationInfo.reservation or 0) * len(_nics(farm, dvs))
        if quotas > most:
            raise invalid_argument("configSpec.allocationInfo.reservationQuota", f"{quotas} of {most} Mbit/s")
        config.vmVnicNetworkResourcePool = list(after.values())
        config.configVersion = str(int(config.configVersion) + 1)
        farm.store.touch(dvs, "config")
        farm.record(dvs, "DvsReconfigureVmVnicNetworkResourcePool_Task", pools=detail)

    return farm.tasks.start(dvs, "reconfigureVmVnicNetworkResourcePool", work)


def _apply(farm: Farm, dvs: ManagedObject, after: dict[str, Any], spec: Any) -> dict[str, Any]:
    present: Any = after.get(spec.key or "")
    quota = int((spec.allocationInfo and spec.allocationInfo.reservationQuota) or 0)
    if spec.operation not in ("add", "edit", "remove") or quota < 0:
        raise invalid_argument("configSpec", f"{spec.operation} {quota}")
    if spec.operation != "add" and present is None:
        raise not_found(f"the pool {spec.key}")
    if spec.operation == "add" and (not spec.name or len(spec.name) > 80):
        raise invalid_name(spec.name or "")
    if spec.name in [p.name for p in after.values() if p is not present]:
        raise duplicate_name(spec.name, dvs.ref)
    if present is not None:
        same_version(spec.configVersion, present.configVersion)
    if spec.operation == "remove":
        users = [g["name"] for g in map(farm.store.get, dvs["portgroup"]) if pool_key(g) == spec.key]
        if users:
            raise vim.fault.ResourceInUse(name=present.name, msg=f"The pool is used by {', '.join(users)}.")
        del after[spec.key]
        return {"operation": "remove", "name": present.name}
    version = str(int(present.configVersion) + 1) if present is not None else "0"
    allocation = vim.dvs.VmVnicNetworkResourcePool.ResourceAllocation(reservationQuota=quota)
    key = spec.key if present is not None else _new_key(dvs)
    name = spec.name or present.name
    after[key] = fill(
        vim.dvs.VmVnicNetworkResourcePool(key=key, name=name, configVersion=version, allocationInfo=allocation)
    )
    return {"operation": str(spec.operation), "name": name, "reservation": quota}


def _new_key(dvs: ManagedObject) -> str:
    dvs.extra["next_pool"] = dvs.extra.get("next_pool", 0) + 1
    return f"networkResourcePool-{dvs.extra['next_pool']}"


def pool_key(group: ManagedObject) -> str:
    """Return the key of the pool a port group is in."""
    return str(group["config"].vmVnicNetworkResourcePoolKey or NO_POOL)


def check_pool(dvs: ManagedObject, key: str | None) -> None:
    """Refuse a pool that a switch does not have."""
    if key not in (None, NO_POOL, *(p.key for p in pools(dvs))):
        raise invalid_argument("spec.vmVnicNetworkResourcePoolKey", str(key))


# -- adapters of VMs


def default_allocation() -> Any:
    """Return what an adapter has of Network I/O Control where nothing is said."""
    return Nic.ResourceAllocation(reservation=0, limit=-1, share=vim.SharesInfo(shares=50, level="normal"))


def check_allocation(farm: Farm, group: ManagedObject | None, given: Any) -> str:
    """Say why an adapter cannot have an allocation; empty when it can."""
    if given is None:
        return ""
    reservation, limit = given.reservation or 0, -1 if given.limit is None else given.limit
    if given.share is None or not _set_right(given.share):
        return "Shares of an adapter are 1 to 100."
    if reservation < 0 or (limit != -1 and limit < max(1, reservation)):
        return f"A limit of {limit} Mbit/s does not go with a reservation of {reservation}."
    if not reservation:
        return ""
    config = group.extra["dvs"]["config"] if group is not None else None
    if group is None or config is None or not config.networkResourceManagementEnabled:
        return "A reservation needs a distributed switch with Network I/O Control."
    traffic = next(r for r in config.infrastructureTrafficResourceConfig if r.key == "virtualMachine")
    most = traffic.allocationInfo.reservation or 0
    if reservation > most:
        return f"The reservation of {reservation} Mbit/s is more than virtual machine traffic has, {most}."
    pool = next((p for p in pools(group.extra["dvs"]) if p.key == pool_key(group)), None)
    if pool is not None and reservation > pool.allocationInfo.reservationQuota:
        return f"The reservation of {reservation} Mbit/s is more than {pool.name} has."
    return ""


def check_power_on(farm: Farm, vm: ManagedObject) -> None:
    """Refuse to power on a VM whose adapters reserve more of a pool than those of running VMs leave."""
    if not any(_of_vm(vm)):
        return  # a farm of thousands is not looked through for each of its VMs
    running = [v for v in farm.store.of(vim.VirtualMachine) if v["runtime"].powerState == "poweredOn" and v is not vm]
    for dvs in farm.store.of(vim.DistributedVirtualSwitch):
        for pool in pools(dvs):
            asking = dict(_reserved(farm, vm, dvs, pool.key))
            wanted = sum(asking.values())
            used = sum(r for v in running for _, r in _reserved(farm, v, dvs, pool.key))
            if wanted and used + wanted > pool.allocationInfo.reservationQuota:
                raise vim.fault.InsufficientNetworkResourcePoolCapacity(
                    dvsName=dvs["name"],
                    dvsUuid=dvs["uuid"],
                    resourcePoolKey=pool.key,
                    available=pool.allocationInfo.reservationQuota - used,
                    requested=wanted,
                    device=list(asking),
                    msg=f"Insufficient capacity in the network resource pool '{pool.name}' of '{dvs['name']}'.",
                )


def check_host(farm: Farm, vm: ManagedObject, host: ManagedObject) -> None:
    """Refuse a VM on a host whose NICs have not as much for VMs as its adapters and those of the VMs there reserve.

    vSphere Networking 7.0, Bandwidth Admission Control for Virtual Machine Traffic: each NIC of a switch has what is
    reserved for virtual machine traffic. NICs with link are counted together, whatever the teaming policy is.
    """
    if not any(_of_vm(vm)):
        return  # a host of thousands is not looked through for each of its VMs
    others = [other for other in powered_on(farm, host) if other is not vm]
    for dvs in farm.store.of(vim.DistributedVirtualSwitch):
        config, key = dvs["config"], dvs.ref
        mine = [mbits for ref, mbits in _on_switches(farm, vm) if ref == key]
        if not mine or not config.networkResourceManagementEnabled:
            continue
        traffic = next(r for r in config.infrastructureTrafficResourceConfig if r.key == "virtualMachine")
        per_nic = int(traffic.allocationInfo.reservation or 0)
        member = next((m for m in config.host or () if m.config.host == host.ref), None)
        names = {spec.pnicDevice for spec in member.config.backing.pnicSpec or ()} if member is not None else set()
        up = sum(nic.name in names and nic.link_up for nic in farm.host(host).pnics)
        used = sum(mbits for other in others for ref, mbits in _on_switches(farm, other) if ref == key)
        if max(mine) > per_nic or used + sum(mine) > per_nic * up:
            where = f"on '{dvs['name']}' of the host '{host['name']}'"
            raise vim.fault.InsufficientNetworkCapacity(msg=f"No {sum(mine)} Mbit/s more for virtual machines {where}.")


def _of_vm(vm: ManagedObject) -> Iterator[Any]:
    """Yield the adapters of a VM that reserve bandwidth."""
    nics = (d for d in vm["config"].hardware.device if isinstance(d, Nic)) if vm["config"] else ()
    return (n for n in nics if n.resourceAllocation and n.resourceAllocation.reservation)


def _on_switches(farm: Farm, vm: ManagedObject) -> Iterator[tuple[Any, int]]:
    """Yield the switch of each adapter of a VM that reserves bandwidth, with how much."""
    for nic in _of_vm(vm):
        port = getattr(nic.backing, "port", None)
        group = farm.store.objects.get(port.portgroupKey or "") if port is not None else None
        if group is not None:
            yield group.extra["dvs"].ref, int(nic.resourceAllocation.reservation)


def _reserved(farm: Farm, vm: ManagedObject, dvs: ManagedObject, key: str) -> Iterator[tuple[str, int]]:
    """Yield each adapter of a VM that reserves of a pool, by label, with how much."""
    for nic in vm["config"].hardware.device if vm["config"] else ():
        port = getattr(nic.backing, "port", None) if isinstance(nic, Nic) else None
        group = farm.store.objects.get(port.portgroupKey or "") if port is not None else None
        if group is not None and group.extra["dvs"] is dvs and pool_key(group) == key and nic.resourceAllocation:
            yield str(nic.deviceInfo.label), int(nic.resourceAllocation.reservation or 0)
