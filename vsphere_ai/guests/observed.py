"""Network file that an existing VM carries for its guest: as text, and whether this tool would write it so."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.guests.cloud_init import METADATA, REDACTED, given_network
from vsphere_ai.guests.netplan import file_text, read_network, summary
from vsphere_ai.guests.network_problems import network_problems
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import objects
from vsphere_ai.model.state import Target

PATHS = ("config.extraConfig",)
"""Properties of a VM that are looked at."""


@dataclass(frozen=True)
class ObservedNetwork:
    """The network file of a VM. Without a `text` there is none, and `reason` is why.

    With both, the file is not of the form that this tool writes. `lines` is a summary, a line per NIC.
    """

    vm: Target
    text: str = ""
    reason: str = ""
    lines: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether there is a file, and nothing blocks it."""
        return bool(self.text) and not self.problems


def observed_network(vm: Target, facts: Facts) -> ObservedNetwork:
    """Return the network file in a VM's metadata, decoded and checked."""
    path = PATHS[0]
    if path in facts.unreadable:
        return ObservedNetwork(vm, reason=f"its advanced settings cannot be read: {facts.unreadable[path]}")
    settings = {str(option.get("key")): str(option.get("value", "")) for option in objects(facts.get(path))}
    try:
        config = given_network(settings)
    except ValueError as error:
        return ObservedNetwork(vm, reason=str(error))
    if config is None:
        return ObservedNetwork(vm, reason=_why_none(settings.get(METADATA, "").strip()))
    text = file_text(config)
    try:
        nics = read_network(text)
    except ValueError as error:
        return ObservedNetwork(vm, text, str(error))
    problems = tuple(network_problems(vm, nics))
    return ObservedNetwork(vm, text, "", () if problems else tuple(summary(nics)), problems)


def _why_none(value: str) -> str:
    if value == REDACTED:
        return f"its {METADATA} was redacted: the guest has read and cleared it"
    return f"its {METADATA} describes no network" if value else f"it has no {METADATA}"
