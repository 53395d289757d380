"""Placement of a set of VMs as a playbook writes it: rules of DRS, and the hosts that they are for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from vsphere_ai.model.state import Settings, setting
from vsphere_ai.resources.makes_vms import WantedPlacement


def listed(value: object) -> object:
    """Return a list, or one text, as the model has it."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


class SetPlacement(Settings):
    """Rules of DRS for the VMs of a set, and the hosts that they are for."""

    anti_affinity: Literal["should", "must"] | None = setting(
        "A rule that keeps the VMs on different hosts: where DRS can (`should`), or always (`must`)."
    )
    hosts: Annotated[tuple[str, ...], BeforeValidator(listed)] | None = setting(
        "Names of hosts, `*` for any letters: VMs are made there, and a rule between VMs and hosts keeps them there."
    )
    vm_host_rule: Literal["should", "must"] | None = setting(
        "Whether the VMs should or must run on `hosts`; `should` where it is left out."
    )
    drs_override: Literal["until_ready", "kept"] | None = setting(
        "DRS does not move the VMs by itself: until their guests are ready, or ever."
    )
    one_leaf: Literal["should", "must"] | None = setting(
        "Whether each rail of the VMs should or must be on one leaf switch; `should` where the inventory has `leaves`."
    )

    def __str__(self) -> str:
        words = (
            f"{self.anti_affinity} be on different hosts" if self.anti_affinity else "",
            f"{self.vm_host_rule or 'should'} run on {', '.join(self.hosts)}" if self.hosts else "",
            {"until_ready": "not moved by DRS until ready", "kept": "not moved by DRS", None: ""}[self.drs_override],
            f"{self.one_leaf} have each rail on one leaf" if self.one_leaf else "",
        )
        return ", ".join(filter(None, words)) or "no rules"


def wanted_placement(said: SetPlacement | None) -> WantedPlacement:
    """Return the rules that a play asks for; none where it says nothing."""
    if said is None:
        return WantedPlacement()
    rule = said.vm_host_rule or "should" if said.hosts else ""
    return WantedPlacement(
        said.anti_affinity or "", said.hosts or (), rule, said.drs_override or "", said.one_leaf or ""
    )
