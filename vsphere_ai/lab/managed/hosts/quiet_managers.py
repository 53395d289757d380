"""Managers of a host that are only read: its certificate, its health, its vMotion."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.host_managers import host_manager
from vsphere_ai.lab.store import ManagedObject

host_manager("healthStatusSystem")
host_manager("vmotionSystem")


@host_manager("certificateManager")
def start(_farm: Farm, mo: ManagedObject) -> Mapping[str, Any]:
    """A certificate of vCenter's own authority."""
    certificate = vim.host.CertificateManager.CertificateInfo(
        issuer="CN=CA, DC=vsphere, DC=local",
        subject=f"CN={mo['name']}",
        notBefore=datetime(2021, 1, 1, tzinfo=UTC),
        notAfter=datetime(2031, 1, 1, tzinfo=UTC),
        status="good",
    )
    return {"certificateInfo": certificate}
