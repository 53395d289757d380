"""HostDateTimeSystem: the clock, the time zone and the time servers of a host."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, reads
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager, touch
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject

ZONE = "UTC"


@host_manager("dateTimeSystem")
def start(_farm: Farm, mo: ManagedObject) -> Mapping[str, Any]:
    """UTC, and no time servers."""
    mo["config"].dateTimeInfo = vim.host.DateTimeInfo(timeZone=_zone(), ntpConfig=vim.host.NtpConfig(server=[]))
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


@changes(vim.host.DateTimeSystem, "UpdateDateTimeConfig", "Host.Config.DateTime")
def update_time(call: Call, config: Any) -> None:
    """Change the time servers."""
    mo, _host = host_of_manager(call)
    if config.timeZone not in (None, ZONE):
        raise invalid_argument("config.timeZone", config.timeZone)
    info = call.mo["dateTimeInfo"]
    before = copy.deepcopy(info.ntpConfig)
    if config.ntpConfig is not None:
        info.ntpConfig = vim.host.NtpConfig(
            server=list(config.ntpConfig.server or ()), configFile=list(config.ntpConfig.configFile or ())
        )
    servers = list(info.ntpConfig.server or ())
    if servers != list(before.server or ()):
        touch(call, mo, "dateTimeInfo")
        call.farm.record(mo, "UpdateDateTimeConfig", ntp=servers)
