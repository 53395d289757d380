"""Settings of one distributed switch, as a playbook writes them and as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator

from vsphere_ai.fabric import dvs, nioc
from vsphere_ai.fabric.nioc import Bandwidth, Megabits, Shares, Traffic
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Settings, setting
from vsphere_ai.resources._helpers.entries import twice
from vsphere_ai.resources._helpers.maximums import MOST_UPLINKS

UPLINKS = "config.uplinkPortPolicy"
Name = Annotated[str, Field(min_length=1, max_length=80)]


class DistributedSwitchSettings(Settings):
    """One distributed switch; what is left out stays as it is, or takes vSphere's default on a new switch."""

    version: str | None = setting(
        "Version of the switch, e.g. `7.0.2`; it is upgraded, never downgraded.", pattern=r"^\d+\.\d+\.\d+$"
    )
    mtu: int | None = setting("Largest frame in bytes; 9000 for RoCE.", ge=1280, le=9000)
    uplinks: tuple[Name, ...] | None = setting(
        "Names of the uplinks, all of them. PVRDMA wants one NIC per switch and host.",
        min_length=1,
        max_length=MOST_UPLINKS,
    )
    nioc: bool | None = setting("Network I/O Control on or off.")
    shares: Mapping[Traffic, Shares] | None = setting(
        "Shares of system traffic under Network I/O Control (`management`, `virtual_machine`, `vmotion`, "
        "`vsan`, `nfs`, `iscsi`, `fault_tolerance`, `replication`, `backup`): `low`, `normal`, `high` or 1 to 100; "
        "traffic that is not named keeps its shares."
    )
    bandwidth: Mapping[Traffic, Bandwidth] | None = setting(
        "Reservation and limit of system traffic, by the same words."
    )
    resource_pools: Mapping[Name, Megabits | Literal["absent"]] | None = setting(
        "Network resource pool -> Mbit/s it reserves for VMs, of what `virtual_machine` reserves on all "
        "NICs together; or `absent`. Pools that are not named stay."
    )

    @field_validator("uplinks")
    @classmethod
    def _each_once(cls, uplinks: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if several := twice(uplinks or ()):
            raise ValueError(f"{', '.join(several)} is listed twice\nname each uplink once")
        return uplinks

    @field_validator("resource_pools")
    @classmethod
    def _own_pools(cls, pools: Mapping[str, object] | None) -> Mapping[str, object] | None:
        if nioc.NO_POOL in (pools or ()):
            raise ValueError(f"{nioc.NO_POOL} is the pool without a reservation, which always is\nchoose another name")
        return pools


NEW = DistributedSwitchSettings.model_construct(mtu=1500, uplinks=tuple(f"Uplink {n}" for n in range(1, 5)))
"""What the vSphere Client gives a new switch."""


def observed(facts: Facts) -> DistributedSwitchSettings:
    """Return the settings of a switch as they were read."""
    return DistributedSwitchSettings.model_construct(
        version=dvs.version(facts),
        mtu=facts.get("config.maxMtu"),
        uplinks=dvs.uplinks(facts) or None,
        nioc=facts.get(nioc.ENABLED),
        shares=nioc.shares_of(facts) or None,
        bandwidth=nioc.bandwidths(facts) or None,
        resource_pools={name: nioc.quota(pool) for name, pool in nioc.pools(facts).items()} or None,
    )


def settled(wanted: DistributedSwitchSettings, now: DistributedSwitchSettings | None) -> DistributedSwitchSettings:
    """Return wanted settings in full: what is left out is taken from the switch, or from vSphere's defaults."""
    have, full = now or NEW, dict[str, object]()
    if set(wanted.uplinks or ()) == set(have.uplinks or ()):
        full["uplinks"] = have.uplinks  # in which order they are listed does not matter
    if wanted.shares:
        full["shares"] = dict(sorted((k, nioc.word(v)) for k, v in wanted.shares.items()))
    if wanted.bandwidth:
        before = have.bandwidth or {}
        full["bandwidth"] = {k: v.filled(before.get(k)) for k, v in sorted(wanted.bandwidth.items())}
    if wanted.resource_pools:
        full["resource_pools"] = {n: None if q == nioc.ABSENT else q for n, q in sorted(wanted.resource_pools.items())}
    return wanted.filled(have).model_copy(update=full)
