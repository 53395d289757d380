"""Remedies of problems: what would work, as far as the host, its connection and --limit let it."""

from __future__ import annotations

from vsphere_ai.facts import View
from vsphere_ai.state import Target


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
