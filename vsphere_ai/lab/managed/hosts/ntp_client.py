"""NTP client of a host: the time servers that HostDateTimeSystem sets, as the service reads them when it starts."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.host_managers import host_of_manager, touch
from vsphere_ai.lab.managed.refusals import invalid_argument, not_supported
from vsphere_ai.lab.store import given

TAKEN = ("timeZone", "ntpConfig")
"""Fields of a HostDateTimeConfig that the lab carries out; PTP is refused."""


@changes(vim.host.DateTimeSystem, "UpdateDateTimeConfig", "Host.Config.DateTime")
def update(call: Call, config: Any) -> None:
    """Replace the time servers; a configuration without any takes all away, one without NTP changes nothing."""
    mo, _host = host_of_manager(call)
    other = [name for name in given(config) if name not in TAKEN]
    if other:
        raise not_supported(f"the lab sets time servers only, not {', '.join(other)}")
    info = call.mo["dateTimeInfo"]
    if config.timeZone not in (None, info.timeZone.key):
        raise invalid_argument("config.timeZone", config.timeZone)
    if config.ntpConfig is None:
        return
    servers = [str(server) for server in config.ntpConfig.server or ()]
    if any(not server.strip() or set(server) & set(" \t\n#") for server in servers):
        raise invalid_argument("config.ntpConfig.server")
    if servers != list(info.ntpConfig.server or ()):
        info.ntpConfig = vim.host.NtpConfig(server=servers)
        touch(call, mo, "dateTimeInfo")
        call.farm.record(mo, "UpdateDateTimeConfig", ntp=servers)
