"""Fields of inventories: addresses, ports, file paths, and references to passwords."""

from __future__ import annotations

import os
import re
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from vsphere_ai.security import secret_ref

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?")
"""RFC 1035's sizes; with '_', which some use, and the final dot of a name that is complete."""


def _address(text: str) -> str:
    if "@" in text:  # whatever it is, it may hold a password, so it is not repeated
        raise ValueError(
            "an address has no user name or password in it\n"
            "write the name or IP address only; the account goes into 'username' and 'password'"
        )
    if "://" in text or "/" in text:
        bare = text.partition("://")[2] or text
        raise ValueError(f"'{text}' is not an address\nwrite the name or IP address only: {bare.partition('/')[0]}")
    if not (_HOST.fullmatch(text) or _is_ipv6(text)):
        raise ValueError(
            f"'{text}' is not a host name or an IP address\nwrite a port as 'port: ...', not behind the name"
        )
    return text


def _is_ipv6(text: str) -> bool:
    try:
        return bool(IPv6Address(text))
    except ValueError:
        return False


def _reference(text: object, info: ValidationInfo) -> str:
    return placed_reference(text, info, "password")


def _secret(text: object, info: ValidationInfo) -> str:
    return placed_reference(text, info, "secret")


def placed_reference(text: object, info: ValidationInfo, what: str) -> str:
    """Return a reference to a secret, its file relative to the inventory; `ValueError` for what is none."""
    reference = secret_ref.require_reference(text, what)
    kind, _, path = reference.partition(":")
    return f"file:{_absolute(path, info)}" if kind == "file" else reference


def _absolute(path: str, info: ValidationInfo) -> str:
    base: Path | None = info.context
    return str(base / os.path.expanduser(path)) if base else path


def _peer(text: str) -> str:
    split_peer(text, 22)
    return text


def split_peer(text: str, port: int) -> tuple[str, int]:
    """Split ``address``, ``address:port`` or ``[IPv6]:port``; ValueError when it is none of them."""
    found = re.fullmatch(
        r"\[(?P<six>[^\]]+)\](?::(?P<p6>\d{1,5}))?|(?P<four>[^:]+)(?::(?P<p4>\d{1,5}))?|(?P<bare>.+)", text
    )
    if found is None:
        raise ValueError("an address is empty\nwrite a host name or an IP address")
    number = int(found["p6"] or found["p4"] or port)
    if not 0 < number < 65536:
        raise ValueError(f"{number} is not a port\ngive 1 to 65535")
    return _address(found["six"] or found["four"] or found["bare"]), number


Address = Annotated[str, AfterValidator(_address)]
Port = Annotated[int, Field(ge=1, le=65535)]
Password = Annotated[str, BeforeValidator(_reference)]
SecretReference = Annotated[str, BeforeValidator(_secret)]
FilePath = Annotated[str, AfterValidator(_absolute)]
"""A path, which is read relative to the folder of the inventory."""
Peer = Annotated[str, AfterValidator(_peer)]
"""``address``, ``address:port`` or ``[IPv6]:port``."""


class InventorySection(BaseModel):
    """A part of an inventory file."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)
