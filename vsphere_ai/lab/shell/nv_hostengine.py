"""`nv-hostengine`: stopping and starting NVIDIA's host engine, which activates configured graphics types."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell.result import ShellResult


def main(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Run ``nv-hostengine -t`` (stop) or ``-d`` (start as a daemon)."""
    if list(argv) == ["-t"]:
        if not host.host_engine_running:
            return ShellResult(1, "", "Unable to terminate host engine, it may not be running.\n")
        host.host_engine_running = False
        return ShellResult(0, "Host engine successfully terminated.\n")
    if list(argv) in ([], ["-d"]):
        if host.host_engine_running:
            return ShellResult(1, "", "Host engine already running.\n")
        if host.start_host_engine():
            host.ledger.record(host.name, "nv-hostengine -d", channel="ssh")
        return ShellResult(0, f"Started host engine version {host.driver} using port number: 5555\n")
    return ShellResult(1, "", "PARSE ERROR: Argument not recognized\n")
