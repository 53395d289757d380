"""Checks of NIC settings: what is not read, and what a NIC cannot have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.fabric import nic_settings
from vsphere_ai.fabric.nic_settings import (
    MOST,
    RINGS,
    Coalesce,
    Rings,
)
from vsphere_ai.model.facts import Facts, ProbeFailure
from vsphere_ai.model.state import Problem, Target
from vsphere_ai.model.steps import Probe
from vsphere_ai.security.redaction import untrusted


def unread_problems(target: Target, facts: Facts, probe: Probe, what: str) -> Iterator[Problem]:
    """Yield that the output of a command is missing."""
    output = facts.probes.get(probe.name)
    if isinstance(output, ProbeFailure):
        yield Problem(target, output.rule, f"the {what} of the NICs cannot be read: {output.reason}", output.help)
    elif output is None or output.status != 0:
        words = (
            "it was not asked" if output is None else untrusted(output.stdout + output.stderr).strip() or "no answer"
        )
        yield Problem(target, "nics.unreadable", f"the {what} of the NICs cannot be read: {words}",
                      f"try it on the host: {' '.join(probe.argv)}")  # fmt: skip


def coalesce_problems(target: Target, name: str, wanted: Coalesce, now: Coalesce | None) -> Iterator[Problem]:
    """Yield which settings of coalescing a NIC does not have."""
    lacks = [
        n for n in Coalesce.model_fields if getattr(wanted, n) is not None and getattr(now or Coalesce(), n) is None
    ]
    if lacks:
        yield Problem(target, "nics.coalesce",
                      f"{name} shows nothing of {', '.join(lacks)}: its driver has no such setting",
                      "leave that out for it")  # fmt: skip


def ring_problems(target: Target, facts: Facts, nic: Mapping[str, object], wanted: Rings) -> Iterator[Problem]:
    """Yield what stands against the rings of a NIC."""
    name = str(nic["device"])
    output, most = facts.probes.get(f"{RINGS.name}:{name}"), nic_settings.rings(facts, name, MOST)
    if isinstance(output, ProbeFailure):
        yield Problem(target, output.rule, f"the rings of {name} cannot be read: {output.reason}", output.help)
    elif output is None and nic.get("rdmaDevice"):
        yield Problem(target, "nics.unreadable", f"the rings of {name} cannot be read: it was not asked",
                      f"try it on the host: {' '.join(RINGS.argv)} {name}")  # fmt: skip
    elif output is None:
        yield Problem(target, "nics.rings", f"{name} has no RDMA device; rings are set of NICs that have one",
                      "leave rings out for it")  # fmt: skip
    elif nic_settings.rings(facts, name) is None:
        words = " ".join(untrusted(output.stdout + output.stderr).split()) or "it answers nothing"
        yield Problem(target, "nics.rings", f"{name} does not show its rings: {words}",
                      "leave rings out for it; some drivers have no such setting")  # fmt: skip
    elif most is not None:
        large = [f"{way} {getattr(wanted, way)}" for way in ("rx", "tx")
                 if (getattr(wanted, way) or 0) > getattr(most, way)]  # fmt: skip
        if large:
            yield Problem(target, "nics.rings", f"{name} cannot have rings of {', '.join(large)} entries",
                          f"its largest: {most}")  # fmt: skip
