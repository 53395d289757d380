"""`vim-cmd hostsvc/...`: maintenance mode and the host's run state."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.lab.hardware.host import HostRefused, LabHost
from vsphere_ai.lab.shell import maintenance
from vsphere_ai.lab.shell.result import ShellResult

_TASK = "'vim.Task:haTask-ha-host-vim.HostSystem.{}-{}'\n"


def main(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Run ``vim-cmd ARGV``."""
    command = argv[0].strip("/") if argv else ""
    if command in ("hostsvc/maintenance_mode_enter", "hostsvc/maintenance_mode_exit"):
        return _maintenance(host, command.endswith("enter"))
    if command == "hostsvc/hostsummary":
        return ShellResult(0, _summary(host))
    return ShellResult(255, "", f"Invalid command '{command}'.\n")


def _maintenance(host: LabHost, enter: bool) -> ShellResult:
    try:
        maintenance.request(host, enter, 0)
    except HostRefused as error:
        return ShellResult(255, "", f"{error}\nThe operation is not allowed in the current state.\n")
    verb = "enterMaintenanceMode" if enter else "exitMaintenanceMode"
    return ShellResult(0, _TASK.format(verb, len(host.ledger) + 100))


def _summary(host: LabHost) -> str:
    flag, booted = str(host.in_maintenance).lower(), host.shown_boot_time()
    return (
        "Listsummary:\n\n(vim.host.Summary) {\n   runtime = (vim.host.RuntimeInfo) {\n"
        f'      connectionState = "connected", \n      powerState = "poweredOn", \n'
        f'      inMaintenanceMode = {flag}, \n      bootTime = "{booted:%Y-%m-%dT%H:%M:%S.%fZ}"\n   }}\n}}\n'
    )
