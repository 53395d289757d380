"""One PVRDMA adapter, as a playbook states it and as the kind `adapters` compares and sends it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Settings, setting
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter, read

NO_GROUP = "(no distributed port group)"


class PvrdmaAdapter(Settings):
    """One PVRDMA adapter."""

    port_group: str = Field(
        description="Distributed port group by name, `SWITCH/NAME` or path; RDMA-capable on every host in question."
    )
    protocol: Literal["rocev1", "rocev2"] | None = setting(
        "RoCE version, for hardware versions 14 to 19; leave out to take the default."
    )

    def __str__(self) -> str:
        return f"{self.port_group} ({self.protocol})" if self.protocol else self.port_group


def devices_of(vm: Facts) -> tuple[VirtualDevice, ...]:
    """Return the PVRDMA adapters of a VM, in their order."""
    devices: tuple[VirtualDevice, ...] = vm.get("config.hardware.device", ())
    return tuple(d for d in devices if d.get("_typeName") == ethernet.TYPES["pvrdma"])


def observed_adapter(device: VirtualDevice) -> PvrdmaAdapter:
    """Return an adapter of a VM, with the key of its port group."""
    network = ethernet.network_of(device)
    key = network.partition(":")[2] if ethernet.is_distributed(network) else NO_GROUP
    return PvrdmaAdapter.model_construct(port_group=key, protocol=device.get("deviceProtocol"))


def ref_of(adapter: PvrdmaAdapter) -> str:
    """Return the reference of the port group of an adapter that has its key."""
    return f"{dvs.PORT_GROUP}:{adapter.port_group}"


def card(adapter: PvrdmaAdapter) -> NetworkAdapter:
    """Return an entry of `adapters` that says the same."""
    return NetworkAdapter.model_construct(type="pvrdma", port_group=ref_of(adapter), protocol=adapter.protocol)


def card_there(device: VirtualDevice) -> NetworkAdapter:
    """Return an adapter of a VM as `adapters` compares it."""
    return read(device, on=True).model_copy(update={"port_group": ref_of(observed_adapter(device))})


def in_words(device: VirtualDevice, view: View) -> str:
    """Return an adapter of a VM in words."""
    label = (device.get("deviceInfo") or {}).get("label", "PVRDMA adapter")
    mac = f", {device['macAddress']}" if device.get("macAddress") else ""
    return f"{label} ({ethernet.named(view.estate, ref_of(observed_adapter(device)))}{mac})"


def key_of(port_group: str, vm: str, view: View) -> str:
    """Return the key of the distributed port group that a name means for a VM; the name where that is not one."""
    network = networks.for_vm(view.estate, vm, port_group).network
    distributed = network is not None and ethernet.is_distributed(network.ref)
    return str(network.get("key")) if network is not None and distributed else port_group
