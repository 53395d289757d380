"""Document of `rdma devices`: the RDMA devices of hosts, each with its NIC, uplink, speed, driver and firmware."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.facts import About


class RdmaDeviceDocument(DocumentPart):
    """An RDMA device; what the host does not report is empty or null."""

    name: str
    description: str
    nic: str
    pci: str
    switch: str
    uplink: str
    speed: Annotated[int | None, Field(description="Mbit/s.")]
    state: str
    protocols: tuple[str, ...]
    mtu: Annotated[int | None, Field(description="RDMA MTU in bytes.")]
    driver: Annotated[str, Field(description="It drives RDMA, `nic_driver` the NIC.")]
    nic_driver: str
    driver_version: Annotated[str, Field(description="That of the NIC, as `firmware` is.")]
    firmware: str
    firmware_unknown: Annotated[str, Field(description="Why there is none.")]


class HostDevicesDocument(DocumentPart):
    """A host with its RDMA devices."""

    host: str
    devices: Annotated[tuple[RdmaDeviceDocument, ...] | None, Field(description="null: its network cannot be read.")]


class DevicesDocument(PrintedDocument):
    """What `rdma devices` prints."""

    printed_by: ClassVar = ("rdma devices",)

    vcenter: About
    hosts: tuple[HostDevicesDocument, ...]
