"""Checks of health, explained by the table that their findings are worded with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.health.registry import Side, Step, Who, checks
from vsphere_ai.model.records.explained import ExplanationPart, NameExplained

SIDES: Mapping[Side, str] = {
    "guest": "the guest",
    "host": "the host",
    "both": "guest and host",
    "owner": "the owner of the GPU: the host of a vGPU, the guest of a whole one",
}
WHO: Mapping[Who, str] = {"operator_infra": "operator of the environment", "tenant_guest": "user of the guest"}
STEPS: Mapping[Step, str] = {
    "": "",
    "reset_gpu": "reset the GPU",
    "restart_os": "restart the guest, or the host",
    "service_required": "have the hardware looked at",
}


def explained() -> Iterator[NameExplained]:
    """Yield every check that `health` makes."""
    for name, check in checks().items():
        pairs = (
            ("what is wrong", check.about),
            ("seen by", SIDES[check.side]),
            ("responsible", ", ".join(WHO[who] for who in check.who)),
            ("next step", STEPS[check.step]),
        )
        parts = (ExplanationPart("", tuple(pair for pair in pairs if pair[1])),)
        source = "NVIDIA Health Validation (steps and responsibilities)"
        yield NameExplained(name, "check", check.about, (), parts, source, "docs/health.md, What is checked")
