"""XIDs: what NVIDIA's driver reports of a GPU, the action that each asks for, and the source that says so.

The table is `xids.yaml`. Where sources disagree, all are kept, and the first one counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Any, Literal

from pydantic import ConfigDict, StrictInt, TypeAdapter
from pydantic.dataclasses import dataclass as checked

from vsphere_ai.health.kernel.kernel_log import nvlink_code
from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.model.dated_table import dated_table

Action = Literal["none", "restart_app", "reset_gpu", "restart_vm", "restart_host", "update", "inspect", "isolate"]
LADDER: tuple[Action, ...] = (
    "none", "restart_app", "update", "inspect", "reset_gpu", "restart_vm", "restart_host", "isolate",
)  # fmt: skip
"""Actions from the least to the most that they disturb."""
WORDS: Mapping[Action, str] = {
    "none": "nothing to do",
    "restart_app": "start the job again",
    "reset_gpu": "reset the GPU; for a vGPU: power the VM off and on",
    "restart_vm": "restart the VM",
    "restart_host": "restart the ESXi host",
    "update": "update driver or vGPU software",
    "inspect": "follow NVIDIA's workflow for this XID",
    "isolate": "take the GPU out of service, and have it looked at",
}
_ONLY_THESE = ConfigDict(extra="forbid")


@checked(frozen=True, config=_ONLY_THESE)
class Xid:
    """One XID: number, name, what its source asks for, and what other sources ask for instead.

    `fatal`: the GPU runs nothing more before the action. NVIDIA has no such column: it follows from the action, save
    where `fatal_as_listed` differs. `mnemonic` is the driver's name of the number.
    """

    number: StrictInt
    name: str
    action: Action
    source: str = "nvidia"
    others: Mapping[str, Action] = field(default_factory=dict)
    mnemonic: str = ""
    fatal_as_listed: bool | None = None

    @property
    def fatal(self) -> bool:
        """Whether this GPU runs nothing more before the action."""
        if self.fatal_as_listed is not None:
            return self.fatal_as_listed
        return self.action in ("reset_gpu", "restart_vm", "restart_host", "isolate")


@checked(frozen=True, config=_ONLY_THESE)
class Recovery:
    """Words in the text of XID 154, in lower case, and the action that they mean."""

    text: str
    action: Action
    source: str


@checked(frozen=True, config=_ONLY_THESE)
class NvlinkRule:
    """Action of an XID of NVLink of the fifth generation by the unit, sub-code and error status in its text.

    `recovery`: what XID 154 beside it names, and without one the job starts again.
    """

    number: StrictInt
    units: tuple[str, ...]
    sub: StrictInt
    statuses: tuple[StrictInt, ...] | Literal["any"]
    action: Literal["none", "reset_gpu", "recovery"]


@checked(frozen=True, config=_ONLY_THESE)
class LinkBits:
    """Bits of one of the seven registers in the text of XID 74, and what they ask for; `secondary` follow an error."""

    register: StrictInt
    bits: tuple[StrictInt, ...]
    action: Action
    words: str
    secondary: bool = False


@checked(frozen=True, config=_ONLY_THESE)
class Sxid:
    """Errors of an NVSwitch: numbers of one name, what they ask for, and what else to look at."""

    numbers: tuple[StrictInt, ...]
    name: str
    action: Action
    note: str = ""


@dataclass(frozen=True)
class Table:
    """The table, with its date: XIDs by number, texts of XID 154 in the order of trial, NVLink rules, sources by tag.

    `codes` are actions by the codes of XID 154, `sxids` errors of NVSwitches by number.
    """

    xids: Mapping[int, Xid]
    recovery: tuple[Recovery, ...]
    sources: Mapping[str, str]
    nvlink: tuple[NvlinkRule, ...]
    bits: tuple[LinkBits, ...]
    codes: Mapping[int, Action]
    sxids: Mapping[int, Sxid]
    date: date


@cache
def table() -> Table:
    """Return the table of the package; `ValueError` for an entry that is not as it has to be."""
    return _table(dated_table("health/xids.yaml").values)


def table_of(text: str) -> Table:
    """Return a table of a YAML text; `ValueError` for unknown fields, actions and sources, and for a number twice."""
    return _table(yaml_value(text))


def _table(values: object) -> Table:
    document: Any = values
    xids = TypeAdapter(list[Xid]).validate_python(document["xids"])
    recovery = TypeAdapter(list[Recovery]).validate_python(document["recovery"])
    sources = TypeAdapter(dict[str, str]).validate_python(document["sources"])
    by_number = {xid.number: xid for xid in xids}
    tags = {tag for xid in xids for tag in (xid.source, *xid.others)} | {each.source for each in recovery}
    unknown = tags - set(sources)
    if unknown:
        raise ValueError(f"sources that are not listed: {', '.join(sorted(unknown))}")
    if len(by_number) < len(xids):
        raise ValueError("an XID is listed twice")
    nvlink = TypeAdapter(list[NvlinkRule]).validate_python(document["nvlink5"])
    bits = TypeAdapter(tuple[LinkBits, ...]).validate_python(document["nvlink4"])
    codes = TypeAdapter(dict[int, Action]).validate_python(document["recovery_codes"])
    sxids = TypeAdapter(list[Sxid]).validate_python(document["sxids"])
    day = TypeAdapter(date).validate_python(document["read"])
    by_sxid = {number: sxid for sxid in sxids for number in sxid.numbers}
    return Table(by_number, tuple(recovery), sources, tuple(nvlink), bits, codes, by_sxid, day)


RECOVERY_XID, LINK_XID = 154, 74
_RECOVERY_CODE = re.compile(r"\bto 0x([0-9a-f]{1,8})\b")
_RECOVERED = re.compile(r"\bfrom 0x0*[1-9a-f][0-9a-f]{0,7}\b.* to 0x0+\b")
_REGISTERS = re.compile(r"\((0x[0-9a-fA-F]{1,8}(?:, ?0x[0-9a-fA-F]{1,8}){6})\)")


def known(number: int) -> Xid:
    """Return an XID; one that is in no table asks for NVIDIA's workflow."""
    return table().xids.get(number) or Xid(number, "not in the table", "inspect", source="unlisted")


def recovery_action(text: str) -> Action | None:
    """Return the action that the text of XID 154 names; None where it names none that is known."""
    said = text.lower()
    if code := _RECOVERY_CODE.search(said):
        return table().codes.get(int(code[1], 16))
    return next((each.action for each in table().recovery if each.text in said), None)


def is_recovered(text: str) -> bool:
    """Return whether the text of XID 154 says that the GPU needed an action, and needs none any more."""
    return _RECOVERED.search(text.lower()) is not None


NVLINK_NUMBERS = range(144, 151)
"""XIDs of NVLink 5. Form of their text: ``NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0 ...)``,
unit, word, information of the interrupt and error status (leptonai/gpud components/accelerator/nvidia/xid)."""
_NVLINK_TEXT = re.compile(
    r"\b([A-Z][A-Za-z0-9_]+(?: Degraded)?) (Fatal|Nonfatal) .*?"
    r"\((0x[0-9a-fA-F]{1,8})(?: (0x[0-9a-fA-F]{1,8}))?"
)
_RXPIPE, _RXPIPE_STATUSES = "RLW_RXPIPE", (0x1, 0x2, 0x4)
_RXPIPE_BEFORE_575 = 0xC2
"""Low ten bits of the information of RLW_RXPIPE before driver R575."""


def link_error(text: str) -> tuple[Action, str] | None:
    """Return what the registers in the text of XID 74 ask for, with words; None where it has none that are known.

    Source: NVIDIA, XID Errors, "XID 74": ``... link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)``.
    """
    found = _REGISTERS.search(text)
    registers = [int(word, 16) for word in found[1].split(",")] if found else []
    hits = [rule for rule in table().bits for bit in rule.bits if registers and registers[rule.register - 1] >> bit & 1]
    if not hits:
        return None
    worst = max(hits, key=lambda rule: (LADDER.index(rule.action), not rule.secondary))
    return worst.action, worst.words


@dataclass(frozen=True)
class NvlinkError:
    """What a text asks for: `is_fatal` is the driver's own word, which outranks the number."""

    unit: str
    is_fatal: bool
    action: Action


def nvlink_error(number: int, text: str) -> NvlinkError | None:
    """Return what the text of an XID asks for; None where it has not this form."""
    match = _NVLINK_TEXT.search(text)
    if match is None or number not in NVLINK_NUMBERS:
        return None
    unit, word, information, status = match[1], match[2], int(match[3], 16), match[4]
    action = _action(number, unit, nvlink_code(match[0]), int(status, 16) if status else None, information)
    if action is None:  # no rule fits
        action = "reset_gpu" if word == "Fatal" else "none"
    return NvlinkError(unit, word == "Fatal", "restart_app" if action == "recovery" else action)


def _action(
    number: int, unit: str, sub: int | None, status: int | None, information: int
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
