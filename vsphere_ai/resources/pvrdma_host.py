"""Needs of PVRDMA on a host: the VMkernel adapter it uses, and the firewall ruleset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from vsphere_ai.fabric.corrections import HostForPvrdma
from vsphere_ai.fabric.host import RULESET
from vsphere_ai.fabric.vmk import OPTION, OPTION_FACT, VNICS
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.entries import overlaid
from vsphere_ai.resources._helpers.factories import set_option, switch_ruleset
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.mixins import Judged
from vsphere_ai.resources.topics import Topic

RULESETS = "config.firewall.ruleset"
NONE = "none"
"""A word for an option that is not set: an empty text in a playbook is more likely a template gone wrong."""


class PvrdmaHost(Judged, Corrects, Resource):
    """Names the vmkernel adapter PVRDMA uses on a host and opens the host firewall for it; neither needs a reboot."""

    kind = KindName("pvrdma_host")
    target = "host"
    traits = Traits(
        duties=(Duty("`pvrdma_host`", "hosts", ("UpdateOptions", "EnableRuleset", "DisableRuleset")),),
        topics=Topic.PVRDMA_HOST,
        decides={OPTION_FACT: "vmknic"},
        after=kind_names("vmkernel"),
        properties={"HostSystem": (OPTION_FACT, RULESETS, VNICS)},
        in_profile="advanced options, firewall rulesets",
    )

    vmknic: str | None = setting(
        f"vmkernel adapter for PVRDMA control traffic, e.g. `vmk2` (advanced option `{OPTION}`); `none` "
        "clears the option.",
        pattern=r"^(vmk\d+|none)$",
    )
    firewall: bool | None = setting(f"`true` opens the firewall ruleset `{RULESET}`.")

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A host with RDMA devices."""
        return bool(facts.get("config.network.rdmaDevice"))

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The VMkernel adapter of PVRDMA, and the firewall that lets it through."""
        found: dict[str, Plain] = {}
        for own in (c for c in corrections if isinstance(c, HostForPvrdma)):
            found |= {"vmknic": own.adapter} if own.adapter else {}
            found |= {"firewall": True}
        return found

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the advanced option and the ruleset."""
        if not {OPTION_FACT, RULESETS} & facts.properties.keys():
            return None
        return cls.model_construct(vmknic=facts.get(OPTION_FACT), firewall=_rulesets(facts).get(RULESET))

    def settle(self, target: Target, view: View) -> Self:
        """The option is empty where no adapter is named."""
        full = super().settle(target, view)
        return full.model_copy(update={"vmknic": ""}) if full.vmknic == NONE else full

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The vmkernel adapter or the ruleset does not exist."""
        facts = view.facts(target.ref)
        devices = [v["device"] for v in facts.get(VNICS, ())]
        present = sorted(d for d in devices if not is_deferred(d))
        if self.vmknic and self.vmknic not in present:
            made = (
                "; for one that this plan makes write pvrdma: true in vmkernel" if len(devices) > len(present) else ""
            )
            what = f"this host has no vmkernel adapter {self.vmknic}"
            yield self.problem(target, "pvrdma.vmknic-missing", what, f"it has {', '.join(present) or 'none'}{made}")
        if self.vmknic is not None and facts.get(OPTION_FACT) is None:
            why = facts.unreadable.get(OPTION_FACT, "the host does not know this option")
            what = f"the advanced option {OPTION} cannot be read: {why}"
            help_ = "PVRDMA needs ESXi 6.5 or later and Host.Config.AdvancedConfig"
            yield self.problem(target, "pvrdma.option-unknown", what, help_)
        if self.firewall is not None and RULESET not in _rulesets(facts):
            what = f"this host has no firewall ruleset {RULESET}"
            yield self.problem(target, "pvrdma.ruleset-missing", what, "PVRDMA needs ESXi 6.5 or later")

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the option and the ruleset as they will be, to those who follow the path of RDMA."""
        if after == "reboot":
            return Projection(self)
        facts = view.facts(target.ref)
        rulesets, stated = facts.get(RULESETS), view.said(PvrdmaHost, target.ref)
        if self.firewall is not None:
            rulesets = overlaid(rulesets, "key", {RULESET: {"enabled": self.firewall}})
        more: dict[str, object] = {RULESETS: tuple(rulesets or ())}
        if self.vmknic is not None and (stated is None or stated.vmknic is not None):
            more[OPTION_FACT] = self.vmknic
        return Projection(self, (facts.having(more),))

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A playbook leaves out an option that is not set; a rollback clears it again."""
        if form == "shown" or self.vmknic:
            return StateExport(self)
        unset = NONE if form == "rollback" and self.vmknic == "" else None
        return StateExport(self.model_copy(update={"vmknic": unset}))

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """One option and one ruleset, each only when it differs."""
        for field in change.fields:
            if field.name == "firewall":
                yield switch_ruleset(change, RULESET, is_open=bool(self.firewall))
            elif view.facts(change.target.ref).get(OPTION_FACT) != self.vmknic:  # vmkernel of the same plan may say it
                summary = f"set {OPTION} to {self.vmknic}" if self.vmknic else f"clear {OPTION}"
                yield set_option(change, OPTION, self.vmknic or "", summary)


def _rulesets(facts: Facts) -> dict[str, bool]:
    return {r["key"]: r["enabled"] for r in facts.get(RULESETS, ())}
