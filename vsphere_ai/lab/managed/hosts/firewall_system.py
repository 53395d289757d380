"""HostFirewallSystem: the rulesets of a host's firewall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, demand, reads
from vsphere_ai.lab.managed.host_managers import host_of_manager, shows
from vsphere_ai.lab.managed.refusals import not_found
from vsphere_ai.lab.store import ManagedObject, fill

LABELS = {
    "pvrdma": "pvrdma",
    "sshServer": "SSH Server",
    "sshClient": "SSH Client",
    "ntpClient": "NTP Client",
    "syslog": "syslog",
}
PORTS = {"pvrdma": 28250, "sshServer": 22, "sshClient": 22, "ntpClient": 123}
OUTBOUND = {"syslog": ((514, "udp"), (514, "tcp"), (1514, "tcp"))}
"""Rulesets that let the host's own traffic out: ports and protocols."""


@shows("firewallSystem")
def project(farm: Farm, mo: ManagedObject) -> None:
    """Write the rulesets of a host into its manager and into ``config``."""
    rulesets = dict(farm.host(mo).firewall)
    info = mo.shown("firewall", rulesets, lambda: _info(rulesets))
    farm.store.set(mo.extra["firewallSystem"], firewallInfo=info)
    if mo["config"] is not None:
        mo["config"].firewall = info


def _info(rulesets: Mapping[str, bool]) -> Any:
    made = [
        vim.host.Ruleset(
            key=key,
            label=LABELS.get(key, key),
            required=False,
            enabled=enabled,
            service="TSM-SSH" if key == "sshServer" else None,
            rule=_rules(key),
            allowedHosts=vim.host.Ruleset.IpList(allIp=True),
        )
        for key, enabled in rulesets.items()
    ]
    policy = vim.host.FirewallInfo.DefaultPolicy(incomingBlocked=True, outgoingBlocked=True)
    return fill(vim.host.FirewallInfo(defaultPolicy=policy, ruleset=made))


def _rules(key: str) -> list[Any]:
    if key in OUTBOUND:
        return [vim.host.Ruleset.Rule(port=p, direction="outbound", protocol=name) for p, name in OUTBOUND[key]]
    return [vim.host.Ruleset.Rule(port=PORTS.get(key, 0), direction="inbound", protocol="tcp")]


@changes(vim.host.FirewallSystem, "EnableRuleset")
def enable_ruleset(call: Call, id: str) -> None:
    """Open the firewall for a ruleset."""
    _set(call, id, True, "EnableRuleset")


@changes(vim.host.FirewallSystem, "DisableRuleset")
def disable_ruleset(call: Call, id: str) -> None:
    """Close the firewall for a ruleset."""
    _set(call, id, False, "DisableRuleset")


@reads(vim.host.FirewallSystem, "RefreshFirewall")
def refresh_firewall(call: Call) -> None:
    """Read the rulesets again."""
    mo, _ = host_of_manager(call)
    call.farm.mark(mo)


def _set(call: Call, key: str, enabled: bool, method: str) -> None:
    demand(call, "Host.Config.NetService")
    mo, host = host_of_manager(call)
    try:
        changed = host.set_firewall(key, enabled)
    except KeyError:
        raise not_found(key) from None
    if changed:
        call.farm.record(mo, method, id=key)
