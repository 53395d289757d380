"""Settings of distributed ports as the API has them (VMwareDVSPortSetting): VLANs, teaming, what guests may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vsphere_ai.model.plain import Plain, PlainObject, inside, objects

MAC_MANAGEMENT = "6.6.0"
"""The first version of distributed switches with MAC learning (vSphere 6.7)."""
LAST_VLAN = 4094
MAC_LIMIT = 4096  # addresses a port learns unless something else is set
SECURITY = {"promiscuous": "allowPromiscuous", "mac_changes": "macChanges", "forged_transmits": "forgedTransmits"}
"""Playbook -> API, alike in the security policy and in MAC management."""


def ranges(value: object) -> object:
    """Return VLAN ranges in one spelling; anything else than a list as it is."""
    return merged(value) if isinstance(value, list | tuple) else value


def merged(values: Iterable[object]) -> tuple[str, ...]:
    """Return VLAN ranges ascending, as one where they touch; ValueError where one is no range."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(span(each) for each in values):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(f"{low}-{high}" if low < high else str(low) for low, high in found)


def span(value: object) -> tuple[int, int]:
    """Return the ends of ``200-299`` or ``100``; ValueError when it is no range of VLANs."""
    low, dash, high = str(value).partition("-")
    ends = (low, high) if dash else (low, low)
    if not all(e.isascii() and e.isdecimal() for e in ends) or not int(ends[0]) <= int(ends[1]) <= LAST_VLAN:
        raise ValueError(f"{value!r} is no range of VLANs\nwrite e.g. 100 or 200-299, from 0 to {LAST_VLAN}")
    return int(ends[0]), int(ends[1])


def tags(config: PlainObject) -> tuple[int | None, tuple[str, ...] | None]:
    """Return the VLAN of port settings, or the trunk; both None for a private VLAN."""
    vlan = inside(config, "vlan.vlanId")
    if isinstance(vlan, tuple):
        return None, merged(f"{each['start']}-{each['end']}" for each in objects(vlan))
    return vlan if isinstance(vlan, int) else None, None


def teaming(config: PlainObject) -> str | None:
    """Return how traffic is spread over several active uplinks."""
    policy = inside(config, "uplinkTeamingPolicy.policy.value")
    return policy if isinstance(policy, str) else None


def security(config: PlainObject) -> dict[str, Plain]:
    """Return what guests may do. MAC management took over from the security policy; servers show both."""
    new = inside(config, "macManagementPolicy")
    shown = new if isinstance(new, Mapping) else {}
    return {n: shown[a] if a in shown else inside(config, f"securityPolicy.{a}.value") for n, a in SECURITY.items()}


def learns(config: PlainObject) -> bool:
    """Return whether ports learn MAC addresses."""
    return bool(inside(config, "macManagementPolicy.macLearningPolicy.enabled"))


def vlan_spec(vlan: int | None, trunk: tuple[str, ...] | None) -> dict[str, object]:
    """Return a VLAN or a trunk as the API takes it."""
    if trunk is None:
        return _own("VmwareDistributedVirtualSwitchVlanIdSpec", vlanId=vlan)
    spans = tuple({"_typeName": "NumericRange", "start": low, "end": high} for low, high in map(span, trunk))
    return _own("VmwareDistributedVirtualSwitchTrunkVlanSpec", vlanId=spans)


def _own(type_name: str, **fields: object) -> dict[str, object]:
    """Return settings of a port group itself, not those of its switch."""
    return {"_typeName": type_name, "inherited": False, **fields}


def teaming_policy(
    active: tuple[str, ...] | None, standby: tuple[str, ...], policy: str | None, present: Plain
) -> dict[str, object]:
    """Return a teaming policy in full; what is None stays as it is present."""
    made = {**(present if isinstance(present, Mapping) else {}), **_own("VmwareUplinkPortTeamingPolicy")}
    if policy:
        made["policy"] = _own("StringPolicy", value=policy)
    if active is not None:
        # the order is one value: a list that is left out is empty, there is no other way to say so
        listed = {"standbyUplinkPort": standby} if standby else {}
        made["uplinkPortOrder"] = _own("VMwareUplinkPortOrderPolicy", activeUplinkPort=active, **listed)
    return made


def guest_policy(
    allowed: Mapping[str, bool | None], learning: bool | None, present: PlainObject, *, old: bool
) -> dict[str, object]:
    """Return what guests may do and whether ports learn, in full; `old` switches have the security policy only."""
    known = {SECURITY[name]: value for name, value in allowed.items() if value is not None}
    if old:
        bools = {name: _own("BoolPolicy", value=value) for name, value in known.items()}
        return {"securityPolicy": _own("DVSSecurityPolicy", **bools)}
    now, learns_now = present.get("macManagementPolicy"), inside(present, "macManagementPolicy.macLearningPolicy")
    made = {**(now if isinstance(now, Mapping) else {}), **_own("DVSMacManagementPolicy")}
    if learning is not None:
        limits = {"limit": MAC_LIMIT, "limitPolicy": "DROP"}
        policy = learns_now if learns_now and isinstance(learns_now, Mapping) else limits
        own = _own("DVSMacLearningPolicy", enabled=learning)
        made["macLearningPolicy"] = {"allowUnicastFlooding": True, **policy, **own}
    return {"macManagementPolicy": {**made, **known}}
