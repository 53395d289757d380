"""Checks of health with what is known of each: side, whose matter it is, next step, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from vsphere_ai.health.finding import Finding, Verdict
from vsphere_ai.model.bounded import yaml_value

Side = Literal["guest", "host", "both", "owner"]
Who = Literal["operator_infra", "tenant_guest"]
Step = Literal["", "reset_gpu", "restart_os", "service_required"]
WORDS: Mapping[Verdict, str] = {
    "ok": "pass", "info": "info", "warn": "warning", "unknown": "unknown", "fail": "critical",
}  # fmt: skip
"""Verdicts in the words of NVIDIA Health Validation."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Check:
    """A check: the side that sees it, whose matter it is, the next step, and what is wrong."""

    side: Side
    who: tuple[Who, ...]
    about: str
    step: Step = ""


@cache
def checks() -> Mapping[str, Check]:
    """Return the checks by their ids; `ValueError` for an entry that is not as it has to be."""
    text = (resources.files("vsphere_ai.health") / "checks.yaml").read_text("utf-8")
    return TypeAdapter(dict[str, Check]).validate_python(yaml_value(text))


def who(found: Finding) -> tuple[Who, ...]:
    """Return whose matter a finding is; nothing for a check that is not listed."""
    check = checks().get(found.check)
    return check.who if check else ()


def step(found: Finding) -> str:
    """Return the next step of a finding that counts: its own, else that of its check; "" for none."""
    check = checks().get(found.check)
    if found.verdict in ("ok", "info") or check is None:
        return ""
    return found.step or check.step
