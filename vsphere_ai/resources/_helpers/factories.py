"""Factories of steps and problems: what follows from the change, or from the kind, is filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Change, Target
from vsphere_ai.model.steps import Invoke, Reconfigure, Shell, Step


class Flags(TypedDict, total=False):
    """What a step disrupts and when it is sent: fields of `Step`."""

    needs_maintenance: bool
    needs_power_off: bool
    needs_reboot: bool
    after_reboot: bool
    comes_first: bool
    comes_last: bool


def problem(kind: str, target: Target, rule: str, message: str, help: str = "") -> Problem:
    """Return a problem of a kind: the rule ``no-gpu`` of the kind ``mig`` is ``mig.no-gpu``; one with a dot stays."""
    return Finding.problem(target, rule if "." in rule else f"{kind}.{rule}", message, help)


def invoke(
    change: Change, path: str, method: str, args: Mapping[str, object], summary: str, **flags: Unpack[Flags]
) -> Invoke:
    """Return the call of a method on a change's target, or on its manager at `path`."""
    call = Invoke(target=change.target, kinds=(change.kind,), path=path, method=method, args=args, summary=summary)
    return replace(call, **flags)


def invoke_on(change: Change, ref: str, method: str, args: Mapping[str, object], summary: str) -> Invoke:
    """Return the call of a method on another object than the target, e.g. on a distributed switch."""
    return Invoke(target=change.target, kinds=(change.kind,), on=ref, method=method, args=args, summary=summary)


def set_option(change: Change, key: str, value: str | int, summary: str) -> Invoke:
    """Return the step that sets an advanced option of a host."""
    # a number goes as xsd:long, which a LongOption takes; an int of Python would be an xsd:int
    typed = {"_typeName": "xsd:long", "value": value} if type(value) is int else value
    option = {"_typeName": "OptionValue", "key": key, "value": typed}
    return invoke(change, "configManager.advancedOption", "UpdateOptions", {"changedValue": (option,)}, summary)


def switch_ruleset(change: Change, ruleset: str, *, is_open: bool) -> Invoke:
    """Return the step that opens or closes a ruleset of a host's firewall."""
    method, verb = ("EnableRuleset", "open") if is_open else ("DisableRuleset", "close")
    path = "configManager.firewallSystem"
    return invoke(change, path, method, {"id": ruleset}, f"{verb} firewall ruleset {ruleset}")


def shell(change: Change, argv: Iterable[str], summary: str, **flags: Unpack[Flags]) -> Shell:
    """Return a command on the host of a change."""
    return Shell(target=change.target, kinds=(change.kind,), argv=tuple(argv), summary=summary, **flags)


def restart(change: Change, summary: str) -> Step:
    """Return the restart of a host that makes active what is configured already."""
    return Step(target=change.target, kinds=(change.kind,), needs_maintenance=True, needs_reboot=True, summary=summary)


def reconfigure(
    change: Change, spec: Mapping[str, object], summary: str, extra: Iterable[tuple[str, str]] = ()
) -> Reconfigure:
    """Return the reconfigure of a VM, powered off: fields of its ConfigSpec, and advanced settings."""
    call = Reconfigure(target=change.target, kinds=(change.kind,), spec=spec, summary=summary, needs_power_off=True)
    return replace(call, extra_config=tuple(extra))
