"""Settings of distributed ports as the API has them (VMwareDVSPortSetting): VLANs, teaming, what guests may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAC_MANAGEMENT = "6.6.0"
"""The first version of distributed switches with MAC learning (vSphere 6.7)."""
LAST_VLAN = 4094
MAC_LIMIT = 4096  # addresses a port learns unless something else is set
SECURITY = {"promiscuous": "allowPromiscuous", "mac_changes": "macChanges", "forged_transmits": "forgedTransmits"}
"""Playbook -> API, alike in the security policy and in MAC management."""


def ranges(value: object) -> Any:
    """Return VLAN ranges in one spelling: ascending, merged where they touch."""
    if not isinstance(value, list | tuple):
        return value
    spans = sorted(span(each) for each in value)
    merged: list[tuple[int, int]] = []
    for low, high in spans:
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(f"{low}-{high}" if low < high else str(low) for low, high in merged)


def span(value: object) -> tuple[int, int]:
    """Return the ends of ``200-299`` or ``100``; ValueError when it is no range of VLANs."""
    low, dash, high = str(value).partition("-")
    ends = (low, high) if dash else (low, low)
    if not all(e.isascii() and e.isdigit() for e in ends) or not int(ends[0]) <= int(ends[1]) <= LAST_VLAN:
        raise ValueError(f"{value!r} is no range of VLANs\nwrite e.g. 100 or 200-299, from 0 to {LAST_VLAN}")
    return int(ends[0]), int(ends[1])


def tags(config: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...] | None]:
    """Return the VLAN of port settings, or the trunk; both None for a private VLAN."""
    vlan = (config.get("vlan") or {}).get("vlanId")
    if isinstance(vlan, tuple):
        return None, ranges([f"{each['start']}-{each['end']}" for each in vlan])
    return vlan, None


def teaming(config: Mapping[str, Any]) -> str | None:
    """Return how traffic is spread over several active uplinks."""
    policy = (config.get("uplinkTeamingPolicy") or {}).get("policy") or {}
    return policy.get("value")


def security(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what guests may do. MAC management took over from the security policy; servers show both."""
    new, old = config.get("macManagementPolicy") or {}, config.get("securityPolicy") or {}
    return {name: new[api] if api in new else (old.get(api) or {}).get("value") for name, api in SECURITY.items()}


def learns(config: Mapping[str, Any]) -> bool:
    """Return whether ports learn MAC addresses."""
    return bool(((config.get("macManagementPolicy") or {}).get("macLearningPolicy") or {}).get("enabled"))


def vlan_spec(vlan: int | None, trunk: tuple[str, ...] | None) -> dict[str, object]:
    """Return a VLAN or a trunk as the API takes it."""
    if trunk is None:
        return {"_typeName": "VmwareDistributedVirtualSwitchVlanIdSpec", "inherited": False, "vlanId": vlan}
    spans = tuple({"_typeName": "NumericRange", "start": low, "end": high} for low, high in map(span, trunk))
    return {"_typeName": "VmwareDistributedVirtualSwitchTrunkVlanSpec", "inherited": False, "vlanId": spans}


def teaming_policy(
    active: tuple[str, ...] | None,
    standby: tuple[str, ...],
    policy: str | None,
    present: Mapping[str, object] | None,
) -> dict[str, Any]:
    """Return a teaming policy in full; what is None stays as it is present."""
    made = {**(present or {}), "_typeName": "VmwareUplinkPortTeamingPolicy", "inherited": False}
    if policy:
        made["policy"] = {"_typeName": "StringPolicy", "inherited": False, "value": policy}
    if active is not None:
        # the order is one value: a list that is left out is empty, there is no other way to say so
        made["uplinkPortOrder"] = {
            "_typeName": "VMwareUplinkPortOrderPolicy",
            "inherited": False,
            "activeUplinkPort": active,
            **({"standbyUplinkPort": standby} if standby else {}),
        }
    return made


def guest_policy(
    allowed: Mapping[str, bool | None], learning: bool | None, present: Mapping[str, Any], *, old: bool
) -> dict[str, object]:
    """Return what guests may do and whether ports learn, in full; `old` switches have the security policy only."""
    known = {SECURITY[name]: value for name, value in allowed.items() if value is not None}
    if old:
        bools = {k: {"_typeName": "BoolPolicy", "inherited": False, "value": v} for k, v in known.items()}
        return {"securityPolicy": {"_typeName": "DVSSecurityPolicy", "inherited": False, **bools}}
    made = {**(present.get("macManagementPolicy") or {}), "_typeName": "DVSMacManagementPolicy", "inherited": False}
    if learning is not None:
        policy = made.get("macLearningPolicy") or {"limit": MAC_LIMIT, "limitPolicy": "DROP"}
        made["macLearningPolicy"] = {
            "allowUnicastFlooding": True,
            **policy,
            "_typeName": "DVSMacLearningPolicy",
            "inherited": False,
            "enabled": learning,
        }
    return {"macManagementPolicy": {**made, **known}}
