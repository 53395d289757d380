"""Agent VMs: virtual machines that vCenter or another product manages, found by configuration, not by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VCLS_KEYS = ("HDCS.agent", "vCLSCRX.agent")
"""Advanced settings of the VMs of vSphere Cluster Services (Broadcom KB 370219); their name is no proof."""
AGENT_MANAGER = "com.vmware.vim.eam"
VCENTER = "VirtualCenter"
PATHS = ("config.extraConfig", "config.managedBy")
"""Properties that mark an agent VM; `config.managedBy` alone marks every vCLS VM of vCenter 7.0 U1 and later."""
VCLS_TYPES = ((AGENT_MANAGER, "cluster-agent"), (VCENTER, "vcls-entity"))
VCLS, EAM = "vSphere Cluster Services", "ESX Agent Manager"


def agent_of(properties: Mapping[str, Any]) -> str:
    """Return which service of vCenter looks after a VM and takes it off a host by itself; empty for any other VM."""
    managed = properties.get("config.managedBy") or {}
    key, kind = managed.get("extensionKey"), managed.get("type")
    options = (o for o in properties.get("config.extraConfig") or () if o["key"] in VCLS_KEYS)
    if (key, kind) in VCLS_TYPES or any(str(o.get("value")).lower() == "true" for o in options):
        return VCLS
    return EAM if key == AGENT_MANAGER else VCENTER if key == VCENTER else ""


def manager_of(properties: Mapping[str, Any]) -> str:
    """Return who manages a VM instead of the user: a service of vCenter, or the extension; empty for a user's VM."""
    managed = properties.get("config.managedBy") or {}
    return agent_of(properties) or str(managed.get("extensionKey") or "")
