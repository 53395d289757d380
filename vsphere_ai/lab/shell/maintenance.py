"""Entering and leaving maintenance mode from the ESXi Shell, for esxcli and vim-cmd alike."""

from __future__ import annotations

import time

from vsphere_ai.lab.hardware.host import HostRefused, LabHost

_POLL_SECONDS = 0.05


def request(host: LabHost, enabled: bool, timeout: float) -> None:
    """Enter or leave maintenance mode within `timeout` seconds (0 waits for ever); raise `HostRefused`."""
    if host.in_maintenance == enabled:
        raise HostRefused(f"Maintenance mode is already {'enabled' if enabled else 'disabled'}.")
    if host.maintenance is not None:
        host.maintenance(enabled, timeout)
    else:
        if enabled:
            _wait_until_empty(host, timeout)
        host.set_maintenance(enabled)
    call = "enterMaintenanceMode" if enabled else "exitMaintenanceMode"
    host.ledger.record(host.name, call, channel="ssh")


def _wait_until_empty(host: LabHost, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while host.running_vms():
        if timeout and time.monotonic() >= deadline:
            raise HostRefused("Maintenance mode timed out: virtual machines are still powered on.")
        time.sleep(_POLL_SECONDS)
