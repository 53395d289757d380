"""XIDs: what NVIDIA's driver reports of a GPU, the action that each asks for, and the source that says so.

Where sources disagree, all are kept, and the first one counts. Names are short forms of NVIDIA's (unverified for 136
and above).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
SOURCES: Mapping[str, str] = {
    "nvidia": "NVIDIA, XID Errors, catalogue (immediate action)",
    "aws": "aws-samples, awsome-distributed-training, gpu-cluster-healthcheck",
    "dcgm": "NVIDIA DCGM, health watch of the whole node",
    "gcm": "facebookresearch/gcm",
    "gpud": "leptonai/gpud",
}
"""Sources by their tags."""


@dataclass(frozen=True)
class Xid:
    """One XID: number, name, what NVIDIA's catalogue asks for, and what other sources ask for instead.

    `fatal`: the GPU, or the job on it, does not go on.
    """

    number: int
    name: str
    action: Action
    source: str = "nvidia"
    others: Mapping[str, Action] = field(default_factory=dict)

    @property
    def fatal(self) -> bool:
        """Whether more than the job has to be started again."""
        return self.action not in ("none", "restart_app")


def _xids(action: Action, names: Mapping[int, str], **others: Mapping[int, Action]) -> list[Xid]:
    found = []
    for number, name in names.items():
        said = {tag: by_number[number] for tag, by_number in others.items() if number in by_number}
        found.append(Xid(number, name, action, others=said))
    return found


_NODE_FAILS: Mapping[int, Action] = dict.fromkeys((48, 74, 79, 95, 119, 120, 140), "isolate")
_ALL = (
    *_xids(
        "restart_app",
        {
            13: "graphics engine exception",
            31: "GPU memory page fault",
            68: "video decoder exception",
            69: "graphics engine class error",
            94: "contained memory error",
        },
        gcm={94: "isolate"},
        gpud={94: "none"},
    ),
    *_xids(
        "none",
        {
            43: "GPU stopped processing of a channel",
            63: "row remapping or page retirement recorded",
            92: "high rate of corrected memory errors",
            121: "corrected errors of the chip-to-chip link",
            137: "privilege error of an NVLink address",
            160: "event without an action",
        },
    ),
    *_xids(
        "reset_gpu",
        {
            46: "GPU stopped processing",
            62: "micro-controller halted",
            64: "row remapping or page retirement failed",
            95: "uncontained memory error",
            109: "context switch timeout",
            110: "security fault",
            119: "no answer of the GPU system processor",
            120: "error of the GPU system processor",
            136: "link training failed",
            140: "memory error without recovery",
            143: "initialization of the GPU failed",
            155: "NVLink error",
            156: "resource retirement event",
            158: "fatal timeout of the GPU",
        },
        aws={64: "isolate"},
        gcm={109: "none"},
        dcgm=_NODE_FAILS,
    ),
    *_xids("restart_host", {79: "GPU has fallen off the bus"}, dcgm=_NODE_FAILS),
    *_xids("restart_vm", {151: "key rotation failed"}),
    *_xids("update", {78: "vGPU did not start"}),
    *_xids(
        "inspect",
        {
            45: "channels removed, after another error",
            48: "memory error that cannot be corrected",
            74: "NVLink error",
            **dict.fromkeys(range(144, 151), "NVLink error (fifth generation)"),
        },
        dcgm=_NODE_FAILS,
    ),
)
XIDS: Mapping[int, Xid] = {xid.number: xid for xid in sorted(_ALL, key=lambda x: x.number)}
RECOVERY: tuple[tuple[str, Action], ...] = (
    ("node reboot required", "restart_host"),
    ("gpu reset required", "reset_gpu"),
    ("drain and reset", "reset_gpu"),
    ("drain p2p", "reset_gpu"),
    ("none", "none"),
)
"""Text of XID 154, in which the driver itself says what to do -> action (aws). The best sign where it is given."""
RECOVERY_XID = 154


def known(number: int) -> Xid:
    """Return an XID; one that is in no table asks for NVIDIA's workflow."""
    return XIDS.get(number) or Xid(number, "not in the table", "inspect", source="unlisted")


def recovery_action(text: str) -> Action | None:
    """Return the action that the text of XID 154 names; None where it names none that is known."""
    said = text.lower()
    return next((action for words, action in RECOVERY if words in said), None)
