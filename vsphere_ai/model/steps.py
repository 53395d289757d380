"""The closed set of things `apply` can do; steps are data: printable, comparable, JSON-able."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vsphere_ai.model.state import Target


@dataclass(frozen=True)
class Probe:
    """A read-only command on an ESXi host. `argv` is fixed: nothing from a user ever gets into it."""

    name: str
    argv: tuple[str, ...]
    each_rdma_nic: bool = False
    """Ask it of each NIC with an RDMA device, whose name ends the command; the answers are called ``NAME:vmnic4``."""


def _whole(answer: Any) -> Any:
    return answer


@dataclass(frozen=True)
class Query:
    """A question to a manager of an object that no property answers; `method` only reads.

    Its answer, as plain values, is the fact ``query:NAME`` of the object; a fault says why it is unreadable.
    """

    name: str
    path: str
    """Property path of the manager, e.g. ``configManager.kernelModuleSystem``."""
    method: str
    args: Mapping[str, Any] = field(default_factory=dict)
    on: str = ""
    """Reference of the object; every host that is read deeply where it is empty."""
    keep: Callable[[Any], Any] = _whole
    """What is kept of the answer."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What every step has: whom it touches, a line an operator reads, and what it disrupts."""

    target: Target
    summary: str
    kinds: tuple[str, ...] = ()
    """The kinds this step serves, for the report."""
    needs_maintenance: bool = False
    needs_power_off: bool = False
    needs_reboot: bool = False
    after_reboot: bool = False
    comes_last: bool = False
    """Of a datacenter's steps: sent only when everything of its hosts and VMs has ended well."""


@dataclass(frozen=True, kw_only=True)
class Reconfigure(Step):
    """A fragment of a ``ReconfigVM_Task``; all fragments of one VM become one task.

    `spec` holds top-level ConfigSpec fields, `device_changes` VirtualDeviceConfigSpec mappings in VMware's spelling
    with ``_typeName``, `extra_config` key/value strings (an empty value removes the key).
    """

    spec: Mapping[str, Any] = field(default_factory=dict)
    device_changes: tuple[Mapping[str, Any], ...] = ()
    extra_config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Invoke(Step):
    """Call a vim method by its WSDL name on the target (or on the object `on`), or on the manager at `path` of it.

    `path` is a property path such as ``configManager.graphicsManager``. A name ending in ``_Task`` is waited for.
    `on` and strings in `args` may be looked up later (see `deferred`): what an earlier step makes has no reference yet.
    """

    method: str
    on: str = ""
    path: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Shell(Step):
    """Run one command on an ESXi host over SSH: an argv, never a string; the exit status alone proves nothing."""

    argv: tuple[str, ...]


Until = Literal["host-back", "gpus-answer", "as-planned", "healthy"]
Action = Literal[
    "enter-maintenance", "exit-maintenance", "reboot", "start-ssh", "stop-ssh", "power-off", "power-on", "migrate"
]


@dataclass(frozen=True, kw_only=True)
class Lifecycle(Step):
    """A change of a target's life; only the graph makes these. `options` are plain values the runner needs."""

    action: Action
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Wait(Step):
    """Nothing is done until it was seen; only the graph makes these.

    ``host-back``: connected with a newer boot time. ``gpus-answer``: nvidia-smi lists every GPU.
    ``as-planned``: the target was read again and nothing is left to change (`but_last`: but what comes last).
    ``healthy``: the host is in service again as it was before its turn; the next host waits for that.
    """

    until: Until
    options: Mapping[str, Any] = field(default_factory=dict)


What = Action | Until | Literal["change", ""]
"""What a step is: its action, what it waits for, or a change of some kinds; empty when it is none of these."""


def what(step: Step) -> What:
    """Return what a step is, in a word that stays when its summary is worded anew."""
    if isinstance(step, Lifecycle):
        return step.action
    if isinstance(step, Wait):
        return step.until
    return "change" if isinstance(step, Reconfigure | Invoke | Shell) and step.kinds else ""
