"""PCI addresses in the spellings of vSphere, lspci and nvidia-smi, as one: that of vSphere, ``0000:3b:00.0``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

SPELLINGS = r"((0000)?[0-9A-Fa-f]{4}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
"""Domain, bus, device and function in hexadecimal; lspci leaves the domain out, nvidia-smi writes eight digits of it.

Domains above ffff do not exist on ESXi hosts.
"""
_SPELLED = re.compile(SPELLINGS)


def normal_pci(text: str) -> str:
    """Return a PCI address as vSphere writes it: ``00000000:3B:00.0`` and ``3b:00.0`` become ``0000:3b:00.0``.

    ValueError for any other text.
    """
    address = text.strip().lower()
    if not _SPELLED.fullmatch(address):
        raise ValueError(f"not a PCI address: {text!r}\nwrite it as 0000:3b:00.0")
    return f"0000:{address}"[-len("0000:3b:00.0") :]


def distinct(value: object) -> object:
    """Return a mapping whose keys are addresses as it is; ValueError where two spellings are of one device."""
    known: dict[str, str] = {}
    for key in value if isinstance(value, Mapping) else ():
        if isinstance(key, str) and _SPELLED.fullmatch(key.strip()):
            first = known.setdefault(normal_pci(key), key)
            if first != key:
                raise ValueError(f"'{first}' and '{key}' are the same device\nname it once")
    return value


PciAddress = Annotated[str, Field(pattern=f"^{SPELLINGS}$"), AfterValidator(normal_pci)]
"""An address in a playbook, in any of the spellings; as a value it is that of vSphere."""
