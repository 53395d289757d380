"""XIDs 144 to 150, of NVLink of the fifth generation: what the unit, the status and the word in their text ask for.

Form of the text: ``NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 ...)``, unit, word, information of the
interrupt and error status (leptonai/gpud components/accelerator/nvidia/xid). Rules: `nvlink5` of `xids.yaml`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.health.kernel_log import nvlink_code
from vsphere_ai.health.xids import Action, table

NUMBERS = range(144, 151)
_TEXT = re.compile(
    r"\b([A-Z][A-Za-z0-9_]+(?: Degraded)?) (Fatal|Nonfatal) .*?\((0x[0-9a-fA-F]{1,8})(?: (0x[0-9a-fA-F]{1,8}))?"
)
_RXPIPE, _RXPIPE_STATUSES = "RLW_RXPIPE", (0x1, 0x2, 0x4)
_RXPIPE_BEFORE_575 = 0xC2
"""Low ten bits of the information of RLW_RXPIPE before driver R575."""


@dataclass(frozen=True)
class NvlinkError:
    """What a text asks for: `is_fatal` is the driver's own word, which outranks the number."""

    unit: str
    is_fatal: bool
    action: Action


def nvlink_error(number: int, text: str) -> NvlinkError | None:
    """Return what the text of an XID asks for; None where it has not this form."""
    match = _TEXT.search(text)
    if match is None or number not in NUMBERS:
        return None
    unit, word, information, status = match[1], match[2], int(match[3], 16), int(match[4] or "0", 16)
    action = _action(number, unit, nvlink_code(match[0]), status, information)
    if action is None:  # no rule fits
        action = "reset_gpu" if word == "Fatal" else "none"
    return NvlinkError(unit, word == "Fatal", "restart_app" if action == "recovery" else action)


def _action(
    number: int, unit: str, sub: int | None, status: int, information: int
) -> Literal["none", "reset_gpu", "recovery"] | None:
    if unit == _RXPIPE and status in _RXPIPE_STATUSES:
        bit = 10 if information & 0x3FF == _RXPIPE_BEFORE_575 else 7
        if information >> bit & 1:
            return "reset_gpu"
    for rule in table().nvlink:
        is_about = rule.number == number and unit in rule.units and rule.sub == sub
        if is_about and (rule.statuses == "any" or status in rule.statuses):
            return rule.action
    return None
