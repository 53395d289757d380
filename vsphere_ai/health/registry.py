"""Checks of health with what is known of each: side, who is responsible, next step, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from vsphere_ai.health.finding import STEP, VmFinding, evidence_of
from vsphere_ai.model.tables import packaged_table

Side = Literal["guest", "host", "both", "owner"]
Who = Literal["operator_infra", "tenant_guest"]
Step = Literal["", "reset_gpu", "restart_os", "service_required"]
WHO = "responsible"
"""Name of the evidence that holds who has to act."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Check:
    """A check: the side that sees it, who is responsible, the next step, and what is wrong."""

    side: Side
    who: tuple[Who, ...]
    about: str
    step: Step = ""


@cache
def checks() -> Mapping[str, Check]:
    """Return the checks by their ids; `ValueError` for an entry that is not as it has to be."""
    return TypeAdapter(dict[str, Check]).validate_python(packaged_table("vsphere_ai.health", "checks.yaml"))


def with_next_step(finding: VmFinding) -> VmFinding:
    """Return a finding with who is responsible, and the next step, as evidence: its own step, else that of its check.

    What only informs has neither; a check that is not listed has none.
    """
    check = checks().get(finding.rule)
    if check is None or finding.verdict in ("pass", "info"):
        return finding
    step = evidence_of(finding, STEP) or check.step
    rest = tuple(pair for pair in finding.evidence if pair[0] not in (STEP, WHO))
    steps = ((STEP, step),) if step else ()
    return replace(finding, evidence=(*rest, *steps, (WHO, ", ".join(check.who))))
