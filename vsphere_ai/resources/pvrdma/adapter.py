"""One PVRDMA adapter, as a playbook states it and as a VM has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vsphere_ai.fabric import dvs
from vsphere_ai.model.view import View

DEVICE = "VirtualVmxnet3Vrdma"


class Adapter(BaseModel):
    """One PVRDMA adapter."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    port_group: str = Field(description="Distributed port group; it has to be RDMA-capable on every host in question.")
    protocol: Literal["rocev1", "rocev2"] | None = Field(
        default=None, description="RoCE version, for hardware versions 14 to 19; leave out to take the default."
    )

    def __str__(self) -> str:
        return f"{self.port_group} ({self.protocol})" if self.protocol else self.port_group


def describe(changes: list[Mapping[str, object]]) -> str:
    """Say what a list of device changes does, e.g. ``add 1, remove 2``."""
    count = Counter(c["operation"] for c in changes)
    return ", ".join(f"{verb} {count[verb]}" for verb in ("add", "edit", "remove") if count[verb]) or "reserve memory"


def is_there(adapter: Adapter, view: View) -> bool:
    """Return whether the port group of an adapter exists."""
    return f"{dvs.PORT_GROUP}:{adapter.port_group}" in view.estate.objects


def named_device(device: Mapping[str, Any], view: View) -> str:
    """Return an adapter of a VM in words."""
    group = view.estate.get(f"{dvs.PORT_GROUP}:{key_in(device)}")
    label = (device.get("deviceInfo") or {}).get("label", "PVRDMA adapter")
    mac = f", {device['macAddress']}" if device.get("macAddress") else ""
    return f"{label} ({group.name if group else key_in(device)}{mac})"


def key_of(port_group: str, view: View) -> str:
    """Return the key of a port group; its name where that is not one."""
    groups = dvs.port_groups_named(view.estate, port_group)
    return str(groups[0].get("key")) if len(groups) == 1 else port_group


def key_in(device: Mapping[str, Any]) -> str:
    """Return the key of the port group that a device is on."""
    port = (device.get("backing") or {}).get("port") or {}
    return str(port.get("portgroupKey", "(no distributed port group)"))
