"""PCI addresses as scenarios, rules of faults and defects name them; the lab shows them as ESXi's lspci does."""

from __future__ import annotations

import re

_HEXADECIMAL = re.compile(r"(?:(?:000)?([0-9a-f]{4,5}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])", re.IGNORECASE)
_DECIMAL = re.compile(r"(?:(\d{3,5}):)?(\d{3}):(\d{2})\.([0-7])|(?:PCI )?(\d{1,5}):(\d{1,3}):(\d{1,2}):([0-7])")
_LAST_BUS, _LAST_DEVICE = 0xFF, 0x1F


def slot_of(text: str) -> str:
    """Return the address of a slot such as ``0000:3b:00.0``; empty where the text names none.

    Hexadecimal with and without a domain, as lspci and nvidia-smi write it; decimal as the file of a VM has it
    (``00000:059:00.0``), or with colons only, as `esxcli hardware pci list` names parent devices (``PCI 0:59:0:0``).
    """
    for form, base in ((_HEXADECIMAL, 16), (_DECIMAL, 10)):
        match = form.fullmatch(text.strip())
        if match is None:
            continue
        parts = match.groups() if len(match.groups()) == 4 or match[4] else match.groups()[4:]
        domain, bus, device, function = (int(part or "0", base) for part in parts[:4])
        if bus <= _LAST_BUS and device <= _LAST_DEVICE:
            return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    return ""
