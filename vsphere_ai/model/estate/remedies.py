"""Remedies of problems: what would work, as far as the hosts, their connection and --limit let it."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.model.estate.host_version import VersionLimit
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View

ADVISED = 19
"""ESXi 7.0 U2 runs it. A later one is advised only where it is needed: an upgrade cannot be undone."""


def play_for(host: Target, view: View, setting: str) -> str:
    """Return how a playbook gives a host a setting, such as ``mig: {mode: enabled}``, or why it cannot just now."""
    state = view.facts(host.ref).get("runtime.connectionState", "connected")
    if state != "connected":
        return f"reconnect {host.name} first: vCenter reports it as {state}"
    kind = setting.partition(":")[0]
    if host.ref in view.left_out:
        return f"--limit leaves out {host.name}, which the playbook has a play for: include it, with {setting}"
    if (host.ref, kind) in view.stated:
        return f"change {kind}: in the play for {host.name}, or solve the problems it has there"
    return f"add {setting} to a play for {host.name}"


def version_for(known: Sequence[VersionLimit], needed: int) -> int | None:
    """Return the hardware version to advise, at least the needed one, that all hosts run; None when one is too old.

    `known` is what `hardware_limits` knows of the hosts.
    """
    lowest = known[0].hardware if known else needed
    return max(needed, min(ADVISED, lowest)) if lowest >= needed else None
