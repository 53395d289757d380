"""Privilege that a method of the vSphere API needs, from pyVmomi's type information."""

from __future__ import annotations

from vsphere_ai.connect.plain import NAMESPACE
from vsphere_ai.connect.vmomi import VmomiSupport


def privilege_of(method: str) -> str | None:
    """Return the privilege id of a method (by its WSDL name, KeyError if unknown); None when it states none."""
    stated = VmomiSupport.GetWsdlMethod(NAMESPACE, method).info.privId
    return str(stated) if stated else None
