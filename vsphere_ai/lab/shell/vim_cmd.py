"""`vim-cmd hostsvc/...`: maintenance mode and the host's run state."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.lab.hardware.host import Host, HostRefused
from vsphere_ai.lab.shell import maintenance
from vsphere_ai.lab.shell.result import Result

_TASK = "'vim.Task:haTask-ha-host-vim.HostSystem.{}-{}'\n"


def main(host: Host, argv: Sequence[str]) -> Result:
    """Run ``vim-cmd ARGV``."""
    command = argv[0].strip("/") if argv else ""
    if command in ("hostsvc/maintenance_mode_enter", "hostsvc/maintenance_mode_exit"):
        return _maintenance(host, command.endswith("enter"))
    if command == "hostsvc/hostsummary":
        return Result(0, _summary(host))
    return Result(255, "", f"Invalid command '{command}'.\n")


def _maintenance(host: Host, enter: bool) -> Result:
    try:
        maintenance.request(host, enter, 0)
    except HostRefused as error:
        return Result(255, "", f"{error}\nThe operation is not allowed in the current state.\n")
    verb = "enterMaintenanceMode" if enter else "exitMaintenanceMode"
    return Result(0, _TASK.format(verb, len(host.ledger) + 100))


def _summary(host: Host) -> str:
    flag, booted = str(host.in_maintenance).lower(), host.shown_boot_time()
    return (
        "Listsummary:\n\n(vim.host.Summary) {\n   runtime = (vim.host.RuntimeInfo) {\n"
        f'      connectionState = "connected", \n      powerState = "poweredOn", \n'
        f'      inMaintenanceMode = {flag}, \n      bootTime = "{booted:%Y-%m-%dT%H:%M:%S.%fZ}"\n   }}\n}}\n'
    )
