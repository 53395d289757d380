"""Network adapter of a VM as a playbook states it: read from a virtual device, compared, and written back.

Source: vSphere Web Services API reference, VirtualEthernetCard and the types derived from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from vsphere_ai.fabric import nioc
from vsphere_ai.fabric.matching import assigned
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.names.pci_address import SPELLINGS, normal_pci
from vsphere_ai.model.state import Settings, observed, setting
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import ethernet

AUTOMATIC_MACS = ("generated", "assigned")
BANDWIDTH = {"shares": "normal", "reservation": 0, "limit": "unlimited"}
"""What an adapter has of Network I/O Control where nothing is said; an adapter as read says only what differs."""


def _function(text: str) -> str:
    return text if text == "auto" else normal_pci(text)


class NetworkAdapter(Settings):
    """One adapter. What is left out stays as it is; a new adapter gets vSphere's default for it."""

    type: Literal["vmxnet3", "e1000e", "sriov", "pvrdma"] = Field(
        default="vmxnet3", description="Kind of adapter, `vmxnet3` where it is left out."
    )
    port_group: str = Field(
        min_length=1,
        description="Port group by name, `SWITCH/NAME` or path; `sriov` and `pvrdma` need a distributed one.",
    )
    mac: str | None = setting(
        "MAC address given by hand; `generated` or `assigned`: ESXi or vCenter chooses it.",
        pattern=r"^(generated|assigned|([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2})$",
    )
    connected: bool | None = setting("Connected now and at every power-on, or neither; `true` for a new adapter.")
    protocol: Literal["rocev1", "rocev2"] | None = setting(
        "RoCE version of a `pvrdma` adapter, for hardware versions 14 to 19."
    )
    physical_function: Annotated[str, AfterValidator(_function)] | None = setting(
        "NIC an `sriov` adapter takes its virtual function of, by PCI address; `auto`: any of the port "
        "group's uplinks.",
        pattern=rf"^(auto|{SPELLINGS})$",
    )
    shares: nioc.Shares | None = setting(
        "Shares of its traffic under Network I/O Control: `low`, `normal`, `high` or 1 to 100; `normal` "
        "for a new adapter."
    )
    reservation: nioc.Megabits | None = setting("Mbit/s it is sure of under Network I/O Control; 0 for none.")
    limit: nioc.Limit | None = setting("Mbit/s it never exceeds under Network I/O Control; or `unlimited`.")
    device: int | None = observed("")
    address_type: str | None = observed("")

    @property
    def identity(self) -> tuple[str, str]:
        """What makes it this adapter: its type and its port group."""
        return self.type, self.port_group

    @property
    def bandwidth(self) -> tuple[object, ...]:
        """Its shares, reservation and limit; None for what is as on a new adapter."""
        return self.shares, self.reservation, self.limit

    @property
    def is_bounded(self) -> bool:
        """Return whether any bandwidth is said of it."""
        return any(v is not None for v in self.bandwidth)

    @property
    def unbounded(self) -> NetworkAdapter:
        """The adapter with no bandwidth said of it."""
        return self.model_copy(update=dict.fromkeys(BANDWIDTH))

    @property
    def has_address(self) -> bool:
        """Return whether its address is one, and not only a word for who chooses it."""
        return bool(self.mac) and self.mac not in AUTOMATIC_MACS

    def __str__(self) -> str:
        said = self.mac if self.address_type in (None, "manual") else None
        more = [said, "" if self.connected in (None, True) else "disconnected", self.protocol]
        more += [self.physical_function if self.physical_function != "auto" else ""]
        more += [f"shares {self.shares}" if self.shares is not None else ""]
        more += [f"{self.reservation} Mbit/s reserved" if self.reservation else ""]
        more += [f"limit {self.limit} Mbit/s" if isinstance(self.limit, int) else ""]
        words = ", ".join(filter(None, more))
        return f"{self.type} on {self.port_group}" + (f" ({words})" if words else "")


# -- reading


def read(device: Mapping[str, Any], on: bool) -> NetworkAdapter:
    """Return the adapter of a virtual device; `on`: its VM is powered on."""
    info = device.get("connectable") or {}
    at_start, now = bool(info.get("startConnected", True)), bool(info.get("connected", True))
    return NetworkAdapter.model_construct(
        type=ethernet.type_of(device),
        port_group=ethernet.network_of(device),
        mac=str(device["macAddress"]).lower() if device.get("macAddress") else None,
        # connected now but not at the next power-on, or the other way round, is neither
        connected=at_start if not on or at_start == now else None,
        protocol=device.get("deviceProtocol"),
        physical_function=ethernet.function_of(device),
        device=device["key"],
        address_type=device.get("addressType"),
        **_bandwidth_in(device),
    )


def _bandwidth_in(device: Mapping[str, Any]) -> dict[str, Any]:
    given = device.get("resourceAllocation")
    if not given:
        return {}
    found = {
        "shares": nioc.shares_in(given.get("share")),
        "reservation": given.get("reservation") or 0,
        "limit": nioc.limit_in(given.get("limit")),
    }
    return {field: _unless_default(field, value) for field, value in found.items()}


def _unless_default(field: str, value: str | int | None) -> object:
    value = nioc.word(value) if field == "shares" else value
    return None if value == BANDWIDTH[field] else value


class HasAdapters:
    """A kind whose states list network adapters of a VM; a stated one may leave them open."""

    def cards(self) -> tuple[NetworkAdapter, ...] | None:
        """Return the adapters; None where they are left open or not known."""
        raise NotImplementedError

    def removes_others(self) -> bool:
        """Return whether a stated list is all adapters of the VM."""
        return False


def is_statable(nic: NetworkAdapter) -> bool:
    """Return whether a playbook can say this: older types and NSX networks it cannot."""
    return nic.type in ethernet.TYPES and ethernet.is_port_group(nic.port_group)


def stated(nic: NetworkAdapter, view: View) -> NetworkAdapter:
    """Return an adapter as a playbook states it: by names, with its address only where that was given by hand."""
    return NetworkAdapter.model_construct(
        type=nic.type,
        port_group=ethernet.named(view.estate, nic.port_group),
        mac=nic.mac if nic.address_type == "manual" else None,
        connected=nic.connected,
        protocol=nic.protocol,
        physical_function=nic.physical_function,
        shares=nic.shares,
        reservation=nic.reservation,
        limit=nic.limit,
    )


def in_full(nic: NetworkAdapter) -> NetworkAdapter:
    """Return a stated adapter with the bandwidth it has said out loud, so that another one goes back to it."""
    unset = {f: default for f, default in BANDWIDTH.items() if getattr(nic, f) is None}
    return nic if nic.type == "sriov" else nic.model_copy(update=unset)


def matched(entries: Sequence[NetworkAdapter], have: Sequence[NetworkAdapter]) -> dict[int, int]:
    """Say which adapter each entry means, by their places; entries that mean a new one are left out.

    Of equals (same type, same port group) one that is as stated already comes first, then the next in order.
    """
    alike = grouped(range(len(have)), lambda i: have[i].identity)
    found = assigned([[i for i in alike.get(e.identity, ()) if updated(have[i], e) == have[i]] for e in entries])
    taken = set(found.values())
    free = {identity: [i for i in own if i not in taken] for identity, own in alike.items()}
    for index, entry in enumerate(entries):
        if index not in found and free.get(entry.identity):
            found[index] = free[entry.identity].pop(0)
    return found


def updated(nic: NetworkAdapter, entry: NetworkAdapter) -> NetworkAdapter:
    """Return an adapter with what an entry says of it."""
    fields = ("connected", "protocol", "physical_function")
    said = {f: getattr(entry, f) for f in fields if getattr(entry, f) is not None}
    mac = entry.mac.lower() if entry.mac else nic.mac
    # vCenter hands out addresses of its own where ESXi is asked for one, so either word means: not by hand
    if mac != nic.mac and (mac not in AUTOMATIC_MACS or nic.address_type == "manual"):
        said |= {"mac": mac, "address_type": None}
    return nic.model_copy(update=said | _said_of_bandwidth(entry))


def _said_of_bandwidth(entry: NetworkAdapter) -> dict[str, object]:
    return {f: _unless_default(f, getattr(entry, f)) for f in BANDWIDTH if getattr(entry, f) is not None}


def new(entry: NetworkAdapter) -> NetworkAdapter:
    """Return the adapter that is made of an entry."""
    more: dict[str, Any] = {"connected": entry.connected is not False}
    more |= {"physical_function": entry.physical_function or "auto"} if entry.type == "sriov" else {}
    more |= _said_of_bandwidth(entry)
    return entry.model_copy(update={"mac": entry.mac.lower() if entry.mac else None, **more})


# -- writing


def device_of(nic: NetworkAdapter, view: View) -> dict[str, object]:
    """Return a new adapter as it is sent."""
    device: dict[str, object] = {
        "_typeName": ethernet.TYPES[nic.type],
        "backing": ethernet.backing(nic.port_group, view),
        "connectable": ethernet.connectable(nic.connected is not False),
        **_address(nic.mac),
    }
    if nic.protocol:
        device["deviceProtocol"] = nic.protocol
    if nic.type == "sriov":
        device["sriovBacking"] = ethernet.sriov_backing(nic.physical_function or "auto")
    if nic.is_bounded:
        device["resourceAllocation"] = _allocation(nic)
    return device


def edited(device: Mapping[str, Any], before: NetworkAdapter, after: NetworkAdapter) -> dict[str, object]:
    """Return a device with what is different after as before, as it is sent; its key and port stay."""
    edited = dict(device)
    if after.connected != before.connected:
        there, now = device.get("connectable") or {}, after.connected
        edited["connectable"] = {**ethernet.connectable(True), **there, "startConnected": now, "connected": now}
    if after.mac != before.mac:
        edited |= _address(after.mac)
    if after.protocol != before.protocol:
        edited["deviceProtocol"] = after.protocol
    if after.physical_function != before.physical_function:
        edited["sriovBacking"] = ethernet.sriov_backing(after.physical_function or "auto")
    if after.bandwidth != before.bandwidth:
        edited["resourceAllocation"] = _allocation(after)
    return edited


def _allocation(nic: NetworkAdapter) -> dict[str, object]:
    return {
        "_typeName": "VirtualEthernetCardResourceAllocation",
        "reservation": nic.reservation or 0,
        "share": nioc.shares_info(nic.shares if nic.shares is not None else "normal"),
        "limit": nioc.limit_number(nic.limit if nic.limit is not None else "unlimited"),
    }


def _address(mac: str | None) -> dict[str, str]:
    if mac is None:
        return {}
    if mac in AUTOMATIC_MACS:
        return {"addressType": mac, "macAddress": ""}
    return {"addressType": "manual", "macAddress": mac}
