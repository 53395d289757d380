"""PCI addresses in the spellings of vSphere, esxcli, lspci and nvidia-smi, as one: vSphere's ``0000:3b:00.0``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

_DOMAIN = r"((000[0-9A-Fa-f]|[0-9A-Fa-f])?[0-9A-Fa-f]{4}:)?"
_HEX = rf"{_DOMAIN}[0-9A-Fa-f]{{2}}:[0-9A-Fa-f]{{2}}\.[0-7]"
_DECIMAL = r"([0-9]{3,5}:)?[0-9]{3}:[0-9]{2}\.[0-7]"
_FIELDS = r"(PCI )?[0-9]{1,5}:[0-9]{1,3}:[0-9]{1,2}:[0-7]"
SPELLINGS = f"({_HEX}|{_DECIMAL}|{_FIELDS})"
"""Domain, bus, device and function.

Hexadecimal: lspci leaves the domain out (or writes five digits of it, for devices behind Intel's VMD), nvidia-smi
writes eight digits. Decimal: a bus of three digits, as in the file of a VM on ESXi (``00000:059:00.0``, unverified) and
in lspci of old ESXi releases; and four numbers with colons, as ``esxcli hardware pci list`` names a parent or dependent
device (``PCI 0:134:0:0`` is ``0000:86:00.0``; Virtual GPU Software User Guide, a listing of an A100).
"""
_SPELLED = re.compile(SPELLINGS)
_WITHOUT_FUNCTION = re.compile(rf"{_DOMAIN}[0-9A-Fa-f]{{2}}:[0-9A-Fa-f]{{2}}")
_DECIMAL_SPELLED = re.compile(_DECIMAL)


def normal_pci(text: str) -> str:
    """Return a PCI address as vSphere writes it: ``00000000:3B:00.0`` and ``3b:00.0`` become ``0000:3b:00.0``.

    ValueError for any other text.
    """
    address = text.strip()
    if not _SPELLED.fullmatch(address):
        raise ValueError(f"not a PCI address: {text!r}\nwrite it as 0000:3b:00.0")
    numbers = re.split("[:.]", address.removeprefix("PCI ").lower())
    decimal = "." not in address or _DECIMAL_SPELLED.fullmatch(address) is not None
    *domain, bus, device, function = (int(number, 10 if decimal else 16) for number in numbers)
    if bus > 0xFF or device > 0x1F:
        raise ValueError(f"not a PCI address: {text!r}\na bus is at most ff (255), a device at most 1f (31)")
    return f"{domain[0] if domain else 0:04x}:{bus:02x}:{device:02x}.{function}"


@lru_cache(maxsize=65536)  # a large estate has some 20,000 devices, each read several times
def read_pci(text: str) -> str:
    """Return an address as vSphere writes it, of a log or an answer; without a function where none was written.

    Kernel logs write ``PCI:0000:3b:00`` and ``0000:3b:00.0``. A text that is no address is returned in lower case.
    """
    address = re.sub(r"^pci:\s*", "", text.strip(), flags=re.IGNORECASE)
    try:
        if _WITHOUT_FUNCTION.fullmatch(address):
            return normal_pci(f"{address}.0").removesuffix(".0")
        return normal_pci(address)
    except ValueError:
        return address.lower()


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
