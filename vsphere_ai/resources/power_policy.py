"""Power policy of a host: how its CPU speed and sleep states follow its load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Self

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_corrections import HighPerformance
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain, PlainObject, objects
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import invoke
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits
from vsphere_ai.resources.corrections import Corrects

Policy = Literal["high_performance", "balanced", "low_power", "custom"]
INFO, CAPABILITY = "config.powerSystemInfo", "config.powerSystemCapability"
MANAGER = "configManager.powerSystem"
SHORT: Mapping[Policy, str] = {
    "high_performance": "static",
    "balanced": "dynamic",
    "low_power": "low",
    "custom": "custom",
}
"""Name in a playbook -> `HostPowerPolicy.shortName`; the keys of policies are the host's own."""
USUAL = "balanced"
"""What ESXi is installed with (vSphere Resource Management, CPU Power Management Policies)."""


class PowerPolicy(Corrects, Resource):
    """Chooses the power policy of a host; it needs neither maintenance mode nor a restart.

    It has an effect only where the firmware of the host leaves power management to the operating system.
    """

    kind = KindName("power_policy")
    target = "host"
    shorthand = "policy"
    traits = Traits(
        properties={"HostSystem": (INFO, CAPABILITY)},
        decides={INFO: "policy"},
        duties=(Duty("`power_policy`", "hosts", ("ConfigurePowerPolicy",)),),
    )

    policy: Policy | None = setting("The policy, as the vSphere Client names it.")

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The policy that keeps processors at their highest speed."""
        return "high_performance" if any(isinstance(c, HighPerformance) for c in corrections) else ""

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the current policy; None where the host does not show it."""
        info = facts.get(INFO)
        if info is None:
            return None
        short = (info.get("currentPolicy") or {}).get("shortName")
        return cls.model_construct(policy=next((name for name, s in SHORT.items() if s == short), None))

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The policies cannot be read, or the host does not have the one that is wanted."""
        facts = view.facts(target.ref)
        for path in (INFO, CAPABILITY):
            if facts.get(path) is None:
                why = facts.unreadable.get(path, "vCenter does not show it")
                message = f"the power policy of this host cannot be read: {why}"
                yield self.problem(target, "unreadable", message, "System.Read on the host; a host that is connected")
                return
        if self.policy and _available(facts, self.policy) is None:
            shown = {str(p.get("shortName")) for p in objects(facts.get(CAPABILITY).get("availablePolicy"))}
            known = ", ".join(name for name, short in SHORT.items() if short in shown) or "none"
            message = f"this host does not have the power policy {self.policy}"
            remedy = f"it has {known}; let its firmware leave power management to the operating system"
            yield self.problem(target, "unavailable", message, remedy)

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Choose the policy by the key that this host has for it."""
        policy = self.policy and _available(view.facts(change.target.ref), self.policy)
        if policy:
            args = {"key": policy["key"]}
            yield invoke(change, MANAGER, "ConfigurePowerPolicy", args, f"set power policy to {self.policy}")

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A playbook leaves out the policy that hosts are installed with."""
        return StateExport(None if form == "playbook" and self.policy in (USUAL, None) else self)


def _available(facts: Facts, policy: Policy) -> PlainObject | None:
    shown = objects((facts.get(CAPABILITY) or {}).get("availablePolicy"))
    return next((p for p in shown if p.get("shortName") == SHORT[policy]), None)
