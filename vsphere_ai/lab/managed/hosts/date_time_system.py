"""HostDateTimeSystem: the clock, the time zone and the time servers of a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager
from vsphere_ai.lab.store import ManagedObject

ZONE = "UTC"


@host_manager("dateTimeSystem")
def start(_farm: Farm, mo: ManagedObject) -> Mapping[str, Any]:
    """UTC, and no time servers."""
    mo["config"].dateTimeInfo = vim.host.DateTimeInfo(
        timeZone=_zone(), systemClockProtocol="ntp", ntpConfig=vim.host.NtpConfig(server=[])
    )
    return {"dateTimeInfo": mo["config"].dateTimeInfo}


def _zone() -> Any:
    return vim.host.DateTimeSystem.TimeZone(key=ZONE, name=ZONE, description=ZONE, gmtOffset=0)


@reads(vim.host.DateTimeSystem, "QueryDateTime")
def query_time(call: Call) -> Any:
    """Return the host's clock."""
    _mo, host = host_of_manager(call)
    return host.clock()


@reads(vim.host.DateTimeSystem, "QueryAvailableTimeZones")
def time_zones(call: Call) -> Any:
    """Return the time zones a host may have: one."""
    host_of_manager(call)
    return [_zone()]


@reads(vim.host.DateTimeSystem, "RefreshDateTimeSystem")
def refresh_time(call: Call) -> None:
    """Read the time settings again."""
    host_of_manager(call)
