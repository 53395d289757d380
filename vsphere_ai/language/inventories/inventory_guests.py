"""Guests of an inventory: section `guests:`, how to reach the guests of VMs over SSH."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, model_validator

from vsphere_ai.language.inventories.inventory_fields import (
    FilePath,
    InventorySection,
    Password,
    Peer,
    Port,
    split_peer,
)


class GuestsSettings(InventorySection):
    """How to reach guests over SSH. Exactly one of `key_file` and `agent` is set: guests get no passwords.

    `key_passphrase` is a reference for `credentials.fetch`, `connect_timeout` is in seconds. Source of the port:
    RFC 4251 and IANA's register of ports.
    """

    username: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z_][A-Za-z0-9_.@-]*$")]
    key_file: FilePath | None = None
    key_passphrase: Password | None = None
    agent: bool = False
    """Whether the login is made with the keys of the SSH agent that SSH_AUTH_SOCK names."""
    known_hosts: FilePath
    port: Port = 22
    connect_timeout: Annotated[float, Field(gt=0, le=600)] = 10.0
    addresses: Mapping[str, Peer] = {}
    """Name of a VM -> ``address:port``, for guests that are not reached by their own address."""

    @model_validator(mode="after")
    def _one(self) -> GuestsSettings:
        if bool(self.key_file) == self.agent:
            raise ValueError("guests needs one of 'key_file' and 'agent: true'\nkeep exactly one of them")
        if self.key_passphrase and not self.key_file:
            raise ValueError("'key_passphrase' is for a 'key_file'\nremove it, or give the key file")
        return self

    @property
    def endpoints(self) -> dict[str, tuple[str, int]]:
        """Name of a VM -> address and port of its SSH service, for those with an own entry."""
        return {vm: split_peer(text, self.port) for vm, text in self.addresses.items()}
