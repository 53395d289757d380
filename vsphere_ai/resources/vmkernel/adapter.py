"""One VMkernel adapter, as a playbook states it and as it is read and sent."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Interface
from typing import Annotated, Literal

from pydantic import AfterValidator

from vsphere_ai.fabric.api_types import Vnic
from vsphere_ai.fabric.vmk import DHCP, OPTION, OPTION_FACT, Spot, address_of, carried, plain_address
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Settings, setting

Service = Literal[
    "management",
    "vmotion",
    "vSphereProvisioning",
    "faultToleranceLogging",
    "vSphereReplication",
    "vSphereReplicationNFC",
    "vsan",
]


def _address(text: str) -> str:
    """Return an address as ``10.20.0.1/24``; ValueError when no adapter can have it."""
    if text == DHCP:
        return text
    if "/" not in text:
        raise ValueError(f"{text!r} has no prefix length\nwrite for example 10.20.0.1/24, or dhcp")
    address = IPv4Interface(text)
    net = address.network
    if net.prefixlen < 31 and address.ip in (net.network_address, net.broadcast_address):
        raise ValueError(f"{text} is the address of a network or its broadcast address\ngive one between them")
    return address.with_prefixlen


Address = Annotated[str, AfterValidator(_address)]


class VmkernelAdapter(Settings):
    """One VMkernel adapter. What is left out stays as it is."""

    address: Address | Mapping[str, Address] | None = setting(
        "IPv4 address with prefix length, `dhcp`, or a mapping from host name to address."
    )
    mtu: int | None = setting("MTU in bytes; at most that of the switch.", ge=1280, le=9000)
    pvrdma: bool | None = setting(f"`true` makes it the adapter PVRDMA uses on the host (advanced option `{OPTION}`).")
    services: tuple[Service, ...] | None = setting(
        "What it carries of the host's own traffic, exactly these: `[vmotion]`."
    )


def observed_adapter(vnic: Vnic, facts: Facts) -> VmkernelAdapter:
    """Return an adapter as it was read."""
    known, option = carried(facts), facts.get(OPTION_FACT)
    services = None if known is None else known.get(vnic["device"], ())
    return VmkernelAdapter.model_construct(
        address=address_of(vnic),
        mtu=(vnic.get("spec") or {}).get("mtu"),
        pvrdma=None if option is None else option == vnic["device"],
        services=services,
    )


def settled_adapter(wanted: VmkernelAdapter, now: VmkernelAdapter | None, host: str) -> VmkernelAdapter:
    """Return a wanted adapter with the address of one host."""
    address = wanted.address.get(host) if isinstance(wanted.address, Mapping) else wanted.address
    have = now.services if now else None
    same = wanted.services is not None and have is not None and set(wanted.services) == set(have)
    return wanted.model_copy(update={"address": address, "services": have if same else wanted.services})


def own_address(adapter: VmkernelAdapter, instead: Mapping[str, object]) -> VmkernelAdapter:
    """Return an adapter with a mapping instead of the address of one host; other adapters as they are."""
    fixed = isinstance(adapter.address, str) and adapter.address != DHCP
    return adapter.model_copy(update={"address": instead}) if fixed else adapter


def is_changed(wanted: VmkernelAdapter, now: VmkernelAdapter) -> bool:
    """Return whether the adapter itself has to change, not only what it carries."""
    return wanted.address not in (None, now.address) or wanted.mtu not in (None, now.mtu)


def nic_spec(spot: Spot, wanted: VmkernelAdapter) -> dict[str, object]:
    """Build the HostVirtualNicSpec: of an adapter that is there only what is wanted of it."""
    spec: dict[str, object] = {"_typeName": "HostVirtualNicSpec"}
    if isinstance(wanted.address, str):
        spec["ip"] = plain_address(wanted.address)
    if wanted.mtu is not None:
        spec["mtu"] = wanted.mtu
    if spot.vnic is None and spot.group is not None:
        spec["distributedVirtualPort"] = {
            "_typeName": "DistributedVirtualSwitchPortConnection",
            "switchUuid": spot.switch.get("uuid") if spot.switch else "",
            "portgroupKey": spot.group.get("key"),
        }
    return spec
