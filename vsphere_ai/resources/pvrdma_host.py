"""Needs of PVRDMA on a host: the VMkernel adapter it uses, and the firewall ruleset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

from pydantic import Field

from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Change, Problem, Target
from vsphere_ai.model.steps import Invoke, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources.base import After, Export, Form, Projection, Resource, Traits
from vsphere_ai.resources.mixins import Judged

OPTION = "Net.PVRDMAVmknic"
RULESET = "pvrdma"
NONE = "none"
"""A word for an option that is not set: an empty text in a playbook is more likely a template gone wrong."""


class PvrdmaHost(Judged, Resource):
    """Names the vmkernel adapter PVRDMA uses on a host and opens the host firewall for it; neither needs a reboot."""

    kind = "pvrdma_host"
    target = "host"
    traits = Traits(
        decides={f"option:{OPTION}": "vmknic"},
        after=("vmkernel",),
        properties={"HostSystem": (f"option:{OPTION}", "config.firewall.ruleset", "config.network.vnic")},
        in_profile="advanced options, firewall rulesets",
    )

    vmknic: str | None = Field(
        default=None,
        pattern=r"^(vmk\d+|none)$",
        description=f"vmkernel adapter for PVRDMA control traffic, e.g. `vmk2` (advanced option `{OPTION}`); `none` "
        "clears the option.",
    )
    firewall: bool | None = Field(default=None, description=f"`true` opens the firewall ruleset `{RULESET}`.")

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A host with RDMA devices."""
        return bool(facts.get("config.network.rdmaDevice"))

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the advanced option and the ruleset."""
        if f"option:{OPTION}" not in facts.properties and "config.firewall.ruleset" not in facts.properties:
            return None
        rulesets = {r["key"]: r["enabled"] for r in facts.get("config.firewall.ruleset", ())}
        vmknic = facts.get(f"option:{OPTION}")
        return cls.model_construct(vmknic=vmknic, firewall=rulesets.get(RULESET))

    def settle(self, target: Target, view: View) -> Self:
        """The option is empty where no adapter is named."""
        full = super().settle(target, view)
        return full.model_copy(update={"vmknic": ""}) if full.vmknic == NONE else full

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The vmkernel adapter or the ruleset does not exist."""
        facts = view.facts(target.ref)
        devices = [v["device"] for v in facts.get("config.network.vnic", ())]
        present = [d for d in devices if not is_deferred(d)]
        if self.vmknic and self.vmknic not in present:
            made = len(devices) > len(present)
            yield self.problem(
                target,
                "pvrdma.vmknic-missing",
                f"this host has no vmkernel adapter {self.vmknic}",
                f"it has {', '.join(sorted(present)) or 'none'}"
                + ("; for one that this plan makes write pvrdma: true in vmkernel" if made else ""),
            )
        if self.vmknic is not None and facts.get(f"option:{OPTION}") is None:
            why = facts.unreadable.get(f"option:{OPTION}", "the host does not know this option")
            yield self.problem(
                target,
                "pvrdma.option-unknown",
                f"the advanced option {OPTION} cannot be read: {why}",
                "PVRDMA needs ESXi 6.5 or later and Host.Config.AdvancedConfig",
            )
        if self.firewall is not None and RULESET not in {r["key"] for r in facts.get("config.firewall.ruleset", ())}:
            yield self.problem(
                target,
                "pvrdma.ruleset-missing",
                f"this host has no firewall ruleset {RULESET}",
                "PVRDMA needs ESXi 6.5 or later",
            )

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the option and the ruleset as they will be, to those who follow the path of RDMA."""
        if after == "reboot":
            return Projection(self)
        facts = view.facts(target.ref)
        rulesets = tuple(
            {**r, "enabled": self.firewall} if r["key"] == RULESET and self.firewall is not None else r
            for r in facts.get("config.firewall.ruleset", ())
        )
        more: dict[str, Any] = {"config.firewall.ruleset": rulesets}
        stated = view.said(PvrdmaHost, target.ref)
        if self.vmknic is not None and (stated is None or stated.vmknic is not None):
            more[f"option:{OPTION}"] = self.vmknic
        return Projection(self, (replace(facts, properties={**facts.properties, **more}),))

    def export(self, target: Target, view: View, form: Form) -> Export:
        """A playbook leaves out an option that is not set; a rollback clears it again."""
        if form == "shown" or self.vmknic:
            return Export(self)
        unset = NONE if form == "rollback" and self.vmknic == "" else None
        return Export(self.model_copy(update={"vmknic": unset}))

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """One option and one ruleset, each only when it differs."""
        for field in change.fields:
            if field.name == "vmknic":
                if view.facts(change.target.ref).get(f"option:{OPTION}") == self.vmknic:
                    continue  # vmkernel of the same plan says it too
                option = {"_typeName": "OptionValue", "key": OPTION, "value": self.vmknic}
                yield Invoke(
                    target=change.target,
                    kinds=(self.kind,),
                    path="configManager.advancedOption",
                    method="UpdateOptions",
                    args={"changedValue": (option,)},
                    summary=f"set {OPTION} to {self.vmknic}" if self.vmknic else f"clear {OPTION}",
                )
            else:
                method, verb = ("EnableRuleset", "open") if self.firewall else ("DisableRuleset", "close")
                yield Invoke(
                    target=change.target,
                    kinds=(self.kind,),
                    path="configManager.firewallSystem",
                    method=method,
                    args={"id": RULESET},
                    summary=f"{verb} firewall ruleset {RULESET}",
                )
