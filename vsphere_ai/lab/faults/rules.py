"""The fault language as values: when a rule is met, which call it fires at, and what it then does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

EventKind = Literal["soap", "ssh", "connect", "versions", "rest", "ssh-connect"]
When = Literal["before", "after", "mid-body"]

WHENS: tuple[When, ...] = ("before", "after", "mid-body")
NOT_METHODS = ("any", "any-mutation", "connect", "versions", "rest", "ssh-connect")
"""What `on` may be besides a method of the API and ``ssh: COMMAND``."""

_EITHER_SIDE: tuple[When, ...] = ("before", "after")
_CALLS: tuple[EventKind, ...] = ("soap", "ssh")
_EVERYWHERE: tuple[EventKind, ...] = ("soap", "ssh", "connect", "versions", "rest", "ssh-connect")

# calls that change nothing an administrator would call a change: sessions, reading, views, filters
_READ = re.compile(
    r"(Query|Recommend|Retrieve|Get|Fetch|fetch|Find|Check|Wait|Continue|Cancel|Refresh|Is|Has|Log|Session|Terminate|Current|install)"
    r"|(Create|Destroy|Modify|Reset)(\w*View|\w*Filter|PropertyCollector|Collector|CollectorFor\w+)$"
    r"|ClusterEnterMaintenanceMode|PlaceVm$|LookupVm|HostImageConfigGet|Read(Next|Previous)|Rewind|Rescan|SetCollectorPageSize|Does|DVSManagerLookup"
)
CHECKS = re.compile(r"Check(PowerOn|VmConfig|Compatibility|Migrate|Relocate|Clone)_Task|ClusterEnterMaintenanceMode")
"""Methods whose answer `ON_CHECKS` changes."""
_MUTATING_COMMAND = re.compile(
    r"nvidia-smi\b.*\s(-mig|--multi-instance-gpu|-[cd][gc]i|--(create|destroy)-\S+)(\s|=|$)"
    r"|esxcli\b.*\s(set|reboot|poweroff)(\s|$)|\breboot\b|vim-cmd\s+hostsvc/maintenance_mode|nv-hostengine\s+-d"
)


@dataclass(frozen=True)
class Word:
    """What may be said about one kind of fault: where it can happen, when, and what its value is."""

    events: tuple[EventKind, ...]
    whens: tuple[When, ...] = ()
    value: Literal["", "seconds", "fault", "status", "percent", "count", "pci", "host", "alarm", "address"] = ""


WORDS: Mapping[str, Word] = {
    "drop": Word(_EVERYWHERE, WHENS),
    "reset": Word(_EVERYWHERE, WHENS),
    "hang": Word(_EVERYWHERE, WHENS),
    "delay": Word(_EVERYWHERE, WHENS, "seconds"),
    "hold": Word(_EVERYWHERE, WHENS),
    "lost-reply": Word(_CALLS),
    "truncate": Word((*_CALLS, "versions", "rest"), _EITHER_SIDE),
    "malformed": Word((*_CALLS, "versions", "rest"), _EITHER_SIDE),
    "503": Word(("soap", "versions", "rest"), _EITHER_SIDE),
    "401": Word(("soap", "versions", "rest"), _EITHER_SIDE),
    "fault": Word(("soap",), _EITHER_SIDE, "fault"),
    "fault-echoes": Word(("soap",), _EITHER_SIDE, "fault"),
    "exit": Word(("ssh",), _EITHER_SIDE, "status"),
    "task-fails": Word(("soap",), (), "fault"),
    "task-echoes": Word(("soap",), (), "fault"),
    "task-stuck": Word(("soap",), (), "percent"),
    "task-gone": Word(("soap",)),
    "most-tasks": Word(("soap",), (), "count"),
    "clone-elsewhere": Word(("soap",)),
    "check-finds": Word(("soap",), (), "fault"),
    "check-passes": Word(("soap",)),
    "guest-stuck": Word(("soap",)),
    "guest-never-ready": Word(("soap",)),
    "guest-address": Word(("soap",), (), "address"),
    "address-taken": Word(("soap",)),
    "gateway-silent": Word(("soap",)),
    "guestinfo-lost": Word(("soap",)),
    "customization-fails": Word(("soap",)),
    "expire-session": Word(_EVERYWHERE, _EITHER_SIDE),
    "restart": Word(_EVERYWHERE, _EITHER_SIDE, "seconds"),
    "cert-swap": Word(_EVERYWHERE, _EITHER_SIDE),
    "key-swap": Word(_EVERYWHERE, _EITHER_SIDE, "host"),
    "power-loss": Word(_EVERYWHERE, _EITHER_SIDE, "host"),
    "host-never-returns": Word(_EVERYWHERE, _EITHER_SIDE, "host"),
    "gpu-missing": Word(_EVERYWHERE, _EITHER_SIDE, "pci"),
    "raise-alarm": Word(_EVERYWHERE, _EITHER_SIDE, "alarm"),
}

NEED_HOST = ("key-swap", "power-loss", "host-never-returns", "gpu-missing", "raise-alarm")
ON_TASKS = ("task-fails", "task-echoes", "task-stuck", "task-gone", "most-tasks", "clone-elsewhere")
_BOOTS = ("PowerOnVM_Task", "PowerOnMultiVM_Task")
ON_GUESTS: Mapping[str, tuple[str, ...]] = {
    "guest-stuck": ("ShutdownGuest",),
    "guest-never-ready": _BOOTS,
    "guest-address": _BOOTS,
    "address-taken": _BOOTS,
    "gateway-silent": _BOOTS,
    "guestinfo-lost": _BOOTS,
    "customization-fails": _BOOTS,
}
"""Faults of guests, and the methods at which each can be."""
ON_CLONES: Mapping[str, tuple[str, ...]] = {"clone-elsewhere": ("CloneVM_Task",)}
"""Faults of clones, and the methods at which each can be."""
ON_CHECKS = ("check-finds", "check-passes")
"""Faults of vCenter's checks that change nothing: their answer is another one than the lab's own requirements give."""
LATE = ("delay", "hold")
"""Faults after which everything goes on as it would have without them."""


@dataclass(frozen=True)
class FaultEvent:
    """Something a rule may be met by; `name` is the method or the command, `objects` and `hosts` what it is about."""

    kind: EventKind
    name: str = ""
    objects: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def mutating(self) -> bool:
        """Return whether a call is made to change something."""
        if self.kind == "ssh":
            return bool(_MUTATING_COMMAND.search(self.name))
        return self.kind == "soap" and not _READ.match(self.name)

    def __str__(self) -> str:
        return {"soap": self.name, "ssh": f"ssh: {self.name}"}.get(self.kind, self.kind)


@dataclass(frozen=True)
class Action:
    """What a rule does; `value` is a fault type, PCI address, host glob or alarm, `seconds` a delay or an outage.

    `number` is an exit status, the percentage a task stops at (-1: it stays queued), or how many tasks may run.
    `starting` is how many seconds the server answers 503 after an outage.
    """

    word: str
    value: str = ""
    seconds: float = 0.0
    starting: float = 0.0
    number: int = 0


@dataclass(frozen=True)
class FaultRule:
    """One line of a fault file; `given` is how it was written, for showing it."""

    on: str
    do: Action
    when: When = "before"
    target: str = ""
    nth: int = 0
    every: int = 0
    probability: float = 1.0
    seed: int | None = None
    times: int = 0
    given: tuple[tuple[str, object], ...] = ()

    def matches(self, event: FaultEvent) -> bool:
        """Return whether an event is one this rule counts."""
        if event.kind not in WORDS[self.do.word].events or not self._is_on(event):
            return False
        if self.target and not any(fnmatchcase(name, self.target) for name in event.objects):
            return False
        if self.do.word in ON_TASKS and not event.name.endswith("_Task"):
            return False
        if self.do.word in ON_CHECKS and not CHECKS.fullmatch(event.name):
            return False
        if event.name not in {**ON_GUESTS, **ON_CLONES}.get(self.do.word, (event.name,)):
            return False
        named = self.do.value and WORDS[self.do.word].value == "host"
        return bool(self.do.word not in NEED_HOST or event.hosts or named)

    def _is_on(self, event: FaultEvent) -> bool:
        if event.kind not in ("soap", "ssh"):
            return self.on == event.kind
        if self.on == "any":
            return True
        if self.on == "any-mutation":
            return event.mutating
        if self.on.startswith("ssh:"):
            return event.kind == "ssh" and re.search(self.on[4:].strip(), event.name) is not None
        return event.kind == "soap" and self.on == event.name

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}: {_shown(value)}" for key, value in self.given) + "}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{key}: {_shown(inner)}" for key, inner in value) + "}"
    text = str(value)
    return text if re.fullmatch(r"[\w./+*?-][\w./+*?: -]*", text) and ": " not in text else json.dumps(text)
