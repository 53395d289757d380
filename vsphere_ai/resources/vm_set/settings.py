"""Settings of a set of VMs as a playbook writes them: NICs and users of each VM."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from vsphere_ai.model.state import Settings, setting

DHCP = "dhcp"
MOST_NICS = 10
"""Virtual NICs of a VM (vSphere configuration maximums)."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")
_KEY = re.compile(r"(ssh-(ed25519|rsa)|ecdsa-sha2-nistp\d+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+( .*)?")


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _nic_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"'{text}' is no name of a network interface\nat most 15 letters, digits, '_', '-' and '.'")
    return text


def _public_key(text: str) -> str:
    if not _KEY.fullmatch(text.strip()):
        raise ValueError("this is no public key of SSH\nwrite the line of a .pub file, such as ssh-ed25519 AAAA... ops")
    return text.strip()


class SetNic(Settings):
    """A NIC of every VM of a set."""

    name: Annotated[str, AfterValidator(_nic_name)] = Field(description="Name of the interface in the guest.")
    port_group: str = Field(min_length=1, description="Port group by name.")
    type: Literal["vmxnet3", "pvrdma", "sriov"] = Field(
        default="vmxnet3", description="Kind of adapter, `vmxnet3` where it is left out."
    )
    protocol: Literal["rocev1", "rocev2"] | None = setting("RoCE version of a `pvrdma` adapter.")
    role: Literal["mgmt", "storage", "rdma"] | None = setting("What its traffic is.")
    rail: int | None = setting("Number of its rail, for an RDMA network with several.", ge=0, le=63)
    mtu: int | None = setting("MTU of the interface in the guest.", ge=1280, le=9000)
    primary: bool | None = setting("`true` on one NIC of several: it has the default route.")
    addresses: Annotated[tuple[str, ...], BeforeValidator(_listed)] | None = setting(
        "Address pools of the inventory, of each family the first with room; `dhcp`, which is what it means where it "
        "is left out."
    )
    shares: Literal["low", "normal", "high"] | int | None = setting("Shares under Network I/O Control.")
    limit: int | None = setting("Mbit/s it never exceeds under Network I/O Control.", ge=1)

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of its address pools; none with DHCP."""
        return tuple(name for name in self.addresses or () if name != DHCP)

    def __str__(self) -> str:
        rail = f"rail {self.rail}" if self.rail is not None else ""
        more = (self.role or "", rail, f"MTU {self.mtu}" if self.mtu else "", "primary" if self.primary else "")
        words = ", ".join(filter(None, (*more, f"of {', '.join(self.addresses)}" if self.addresses else "DHCP")))
        return f"{self.name}: {self.type} on {self.port_group} ({words})"


class SetUser(Settings):
    """An account in every guest of a set, which logs in by public keys only."""

    name: str = Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$", description="Name of the account.")
    ssh_authorized_keys: tuple[Annotated[str, AfterValidator(_public_key)], ...] = Field(
        min_length=1, description="Public keys of SSH."
    )
    sudo: bool = Field(default=True, description="Whether it may become root without a password.")

    def __str__(self) -> str:
        many = len(self.ssh_authorized_keys)
        return f"{self.name} ({many} SSH key{'' if many == 1 else 's'})"
