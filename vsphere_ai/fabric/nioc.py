"""Network I/O Control, version 3: bandwidth of system traffic on a distributed switch, and its network resource pools.

All bandwidth is in Mbit/s. Source: vSphere Networking 7.0, "vSphere Network I/O Control" ("Guaranteed Bandwidth for
System Traffic", "Create a Network Resource Pool"); vSphere Web Services API reference, DVSVmVnicNetworkResourcePool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from vsphere_ai.fabric import api_types, dvs
from vsphere_ai.model.deferred import Deferred, inside
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.plain import Plain, PlainObject, named, objects
from vsphere_ai.model.state import KindName, Settings, Target, setting
from vsphere_ai.model.steps import Invoke

ENABLED, VERSION = "config.networkResourceManagementEnabled", "config.networkResourceControlVersion"
TRAFFIC, POOLS = "config.infrastructureTrafficResourceConfig", "config.vmVnicNetworkResourcePool"
RATIO = "config.pnicCapacityRatioForReservation"
PATHS = (ENABLED, VERSION, TRAFFIC, POOLS, RATIO)
"""What is read of a distributed switch, besides its members."""
POOL_KEY = "config.vmVnicNetworkResourcePoolKey"
"""Of a port group: the key of its pool."""
NO_POOL = "default"
"""What vSphere calls the pool without a quota, which a port group is in unless it is put into another."""
NO_POOL_KEY = "-1"  # not in the references; what VMware's own Terraform provider documents and sends
ABSENT = "absent"
VIRTUAL_MACHINE = "virtual_machine"
DEFAULT_RATIO = 75  # percent of the slowest NIC that can be reserved
UNLIMITED = -1

# playbook <-> DistributedVirtualSwitchHostInfrastructureTrafficClass
TO_API = {
    "backup": "vdp",
    "fault_tolerance": "faultTolerance",
    "iscsi": "iSCSI",
    "management": "management",
    "nfs": "nfs",
    "replication": "hbr",
    VIRTUAL_MACHINE: "virtualMachine",
    "vmotion": "vmotion",
    "vsan": "vsan",
}
FROM_API = {v: k for k, v in TO_API.items()}
LEVELS = {"low": 25, "normal": 50, "high": 100}
"""Shares behind the words."""
Traffic = Literal[
    "backup", "fault_tolerance", "iscsi", "management", "nfs", "replication", "virtual_machine", "vmotion", "vsan"
]
Shares = Literal["low", "normal", "high"] | Annotated[int, Field(ge=1, le=100)]
Limit = Literal["unlimited"] | Annotated[int, Field(ge=1)]
Megabits = Annotated[int, Field(ge=0)]


class Bandwidth(Settings):
    """What one kind of system traffic has on each NIC of a switch. What is left out stays as it is."""

    reservation: Megabits | None = setting("Mbit/s it is sure of on each NIC; 0 for none.")
    limit: Limit | None = setting("Mbit/s it never exceeds on each NIC; or `unlimited`.")


NOTHING = 0
"""The reservation of what reserves nothing, in Mbit/s."""

# -- comparing

K = TypeVar("K")
Other = TypeVar("Other")
V = TypeVar("V")
SharesValue = str | int
"""``low``, ``normal``, ``high``, or a number from 1 to 100."""


def changed(wanted: Mapping[K, V] | None, now: Mapping[Other, V] | None) -> dict[K, V]:
    """Return what is wanted otherwise than it is; a pool that is to be absent and is has nothing to change."""
    have: dict[object, V] = dict((now or {}).items())
    return {k: v for k, v in (wanted or {}).items() if have.get(k) != v}


def set_by_hand(bandwidth: Mapping[K, Bandwidth]) -> dict[K, Bandwidth]:
    """Return what is not as on a new switch, which reserves and limits nothing."""
    return {k: b for k, b in bandwidth.items() if (b.reservation, b.limit) != (0, "unlimited")}


def reserved(bandwidth: Mapping[K, Bandwidth] | None) -> int:
    """Return the reservation of VM traffic on each NIC, in Mbit/s."""
    own = (b.reservation for kind, b in (bandwidth or {}).items() if kind == VIRTUAL_MACHINE)
    return next((each for each in own if each is not None), NOTHING)


def quotas(wanted: Mapping[str, int | str] | None) -> dict[str, int | None]:
    """Return the quota of each wanted pool in Mbit/s; None for a pool that is to be absent."""
    return {name: quota if isinstance(quota, int) else None for name, quota in (wanted or {}).items()}


# -- reading


def word(shares: SharesValue | None) -> SharesValue | None:
    """Return the word for shares where there is one: vCenter shows 50 and ``normal`` alike."""
    return next((w for w, number in LEVELS.items() if number == shares), shares)


def shares_in(given: api_types.Shares | None) -> SharesValue | None:
    """Return the shares in a SharesInfo: a word or a number; None where there are none."""
    found = given or api_types.Shares()
    level = found.get("level")
    return level if level in LEVELS else word(found.get("shares"))


def limit_in(number: int | None) -> int | str:
    """Return a limit as a playbook has it."""
    return "unlimited" if number is None or number == UNLIMITED else number


def shares_of(switch: Facts) -> dict[str, SharesValue | None]:
    """Return the shares of each kind of system traffic."""
    return {k: shares_in(a["shares"]) for k, a in _allocations(switch).items() if a.get("shares")}


def bandwidths(switch: Facts) -> dict[str, Bandwidth]:
    """Return reservation and limit of each kind of system traffic."""
    return {
        k: Bandwidth.model_construct(reservation=_mbits(a.get("reservation")), limit=limit_in(a.get("limit")))
        for k, a in _allocations(switch).items()
    }


def _allocations(switch: Facts) -> dict[str, api_types.Allocation]:
    known: Sequence[api_types.TrafficResource] = switch.get(TRAFFIC, ())
    found = {e.get("key"): e.get("allocationInfo") or api_types.Allocation() for e in known}
    return {name: found[api] for name, api in sorted(TO_API.items()) if api in found}


def pools(switch: Facts) -> dict[str, api_types.ResourcePool]:
    """Return the network resource pools of a switch by name, as they were read."""
    return {str(p["name"]): p for p in switch.get(POOLS, ()) if p.get("name")}


def quota(pool: api_types.ResourcePool) -> int:
    """Return the reservation quota of a pool in Mbit/s."""
    return _mbits((pool.get("allocationInfo") or {}).get("reservationQuota"))


def _mbits(number: int | None) -> int:
    """Return a reservation; an unset one, as of what is not there, reserves nothing."""
    return NOTHING if number is None else int(number)


def pool_of(group: Facts, switch: Facts | None) -> str:
    """Return the name of the pool a port group is in; the key of a pool that is not there."""
    key = group.get(POOL_KEY)
    if key in (None, "", NO_POOL_KEY):
        return NO_POOL
    return next((n for n, p in (pools(switch) if switch else {}).items() if p["key"] == key), str(key))


def pool_key(switch: Facts, name: str) -> str:
    """Return the key of a pool as the API takes it; empty when the switch has none of that name."""
    return NO_POOL_KEY if name == NO_POOL else str(pools(switch).get(name, api_types.ResourcePool()).get("key", ""))


def is_on(switch: Facts) -> bool:
    """Return whether version 3 of Network I/O Control is on; a switch without a stated version counts as version 3."""
    return bool(switch.get(ENABLED)) and switch.get(VERSION, "version3") == "version3"


def nic_count(switch: Facts) -> int:
    """Return how many physical NICs the hosts give a switch."""
    return sum(map(len, dvs.members(switch).values()))


def slowest_nic(switch: Facts, estate: Estate) -> tuple[int, str] | None:
    """Return the speed in Mbit/s of the slowest NIC with link that a switch has, and which it is; None if unknown."""
    found = []
    for ref, specs in dvs.members(switch).items():
        host, mine = estate.get(ref), {s["pnicDevice"] for s in specs}
        for nic in host.get("config.network.pnic", ()) if host else ():
            if nic["device"] in mine and nic.get("linkSpeed"):
                found.append((int(nic["linkSpeed"]["speedMb"]), f"{nic['device']} of {host.name if host else ref}"))
    return min(found, default=None)


# -- writing


def shares_info(shares: SharesValue) -> PlainObject:
    """Return shares as the API takes them; the number counts with the level ``custom`` only."""
    number, level = (LEVELS[shares], shares) if isinstance(shares, str) else (shares, "custom")
    return {"_typeName": "SharesInfo", "shares": number, "level": level}


def limit_number(limit: str | int) -> int:
    """Return a limit as the API takes it."""
    return limit if isinstance(limit, int) else UNLIMITED


def traffic_spec(
    switch: Facts | None, shares: Mapping[K, SharesValue], bandwidth: Mapping[K, Bandwidth]
) -> tuple[PlainObject, ...]:
    """Return the named kinds of traffic with what is said of them; what is not said stays as it was read."""
    have = {e["key"]: e for e in (switch.get(TRAFFIC, ()) if switch else ())}
    names = sorted({*shares, *bandwidth}, key=str)
    return tuple(_resource(have.get(TO_API[str(n)], {}), str(n), shares.get(n), bandwidth.get(n)) for n in names)


def _resource(present: PlainObject, name: str, shares: SharesValue | None, bandwidth: Bandwidth | None) -> PlainObject:
    given = named(present).get("allocationInfo")
    allocation = dict(given or {"_typeName": "DvsHostInfrastructureTrafficResourceAllocation"})
    if shares is not None or "shares" not in allocation:
        # an allocation without shares is refused
        default = "high" if name == VIRTUAL_MACHINE else "normal"
        allocation["shares"] = shares_info(shares if shares is not None else default)
    if bandwidth is not None and bandwidth.reservation is not None:
        allocation["reservation"] = bandwidth.reservation
    if bandwidth is not None and bandwidth.limit is not None:
        allocation["limit"] = limit_number(bandwidth.limit)
    return {"_typeName": "DvsHostInfrastructureTrafficResource", "key": TO_API[name], "allocationInfo": allocation}


def in_turn(
    switch: Facts, wanted: Mapping[str, int | None], reserved_each: int
) -> tuple[dict[str, int | None], dict[str, int | None]]:
    """Split changes of pools in those that come first and, as VMs still have of them, those that shrink or remove.

    When what is reserved does not suffice for both, all of them are one change.
    """
    have = {name: quota(pool) for name, pool in pools(switch).items()}
    shrink = {n: to for n, to in wanted.items() if n in have and (to is None or to < have[n])}
    grow = {n: to for n, to in wanted.items() if n not in shrink}
    peak = sum(q for q in {**have, **grow}.values() if q is not None)
    if grow and peak > reserved_each * nic_count(switch):
        return dict(wanted), {}
    return grow, shrink


def pool_steps(
    kind: KindName, target: Target, ref: str, switch: Facts | str, wanted: Mapping[str, int | None]
) -> Iterator[Invoke]:
    """Yield the step of a kind that makes, changes and (None) removes pools of a switch, or of a new one so named."""
    name, there = (switch, {}) if isinstance(switch, str) else (switch.name, pools(switch))
    if not wanted:
        return
    # quotas that shrink come first, so that others can grow
    growth = {n: _mbits(to) - quota(there.get(n, {})) for n, to in wanted.items()}
    specs = {n: _pool_spec(n, wanted[n], there.get(n)) for n in sorted(wanted, key=lambda n: growth[n])}
    verbs = {"add": "add", "edit": "change", "remove": "remove"}
    words = ", ".join(f"{verbs[str(s['operation'])]} {n}" for n, s in specs.items())
    yield Invoke(
        target=target,
        kinds=(kind,),
        on=ref,
        method="DvsReconfigureVmVnicNetworkResourcePool_Task",
        args={"configSpec": tuple(specs.values())},
        summary=f"resource pools of {name}: {words}",
    )


def _pool_spec(name: str, wanted: int | None, present: api_types.ResourcePool | None) -> PlainObject:
    spec: dict[str, Plain] = {"_typeName": "DvsVmVnicResourcePoolConfigSpec"}
    if present is not None:
        spec |= {"key": present["key"], "configVersion": present["configVersion"]}
    if wanted is None:
        return spec | {"operation": "remove"}
    return spec | {"operation": "edit" if present else "add", "name": name, "allocationInfo": _allocation(wanted)}


def _allocation(reservation: int) -> PlainObject:
    return {"_typeName": "DvsVmVnicResourceAllocation", "reservationQuota": reservation}


def planned_traffic(
    switch: Facts, shares: Mapping[K, SharesValue], bandwidth: Mapping[K, Bandwidth]
) -> tuple[PlainObject, ...]:
    """Return the kinds of traffic of a switch as they will be read."""
    after = {e["key"]: e for e in switch.get(TRAFFIC, ())}
    return tuple({**after, **{e["key"]: e for e in traffic_spec(switch, shares, bandwidth)}}.values())


def planned_pools(switch: Facts, at: str, wanted: Mapping[str, int | None]) -> tuple[PlainObject, ...]:
    """Return the pools of a switch as they will be read; a key that only the server gives is a `Deferred`."""
    after: dict[str, PlainObject] = {str(p["name"]): p for p in objects(switch.get(POOLS, ())) if p.get("name")}
    for name, reservation in wanted.items():
        if reservation is None:
            after.pop(name, None)
            continue
        deferred = Deferred(at, dvs.SWITCH, switch.name, inside(POOLS, ("name", name), "key"))
        before = after.get(name, {"_typeName": "DVSVmVnicNetworkResourcePool", "key": deferred, "name": name})
        after[name] = {**before, "allocationInfo": _allocation(reservation)}
    return tuple(after.values())
