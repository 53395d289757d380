"""Checks of NIC settings: what is not read, and what a NIC cannot have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Literal

from vsphere_ai.fabric import nic_settings
from vsphere_ai.fabric.nic_settings import MOST, RINGS, Coalesce, Rings
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import PlainObject, objects
from vsphere_ai.model.state import Target
from vsphere_ai.resources._helpers import factories
from vsphere_ai.security.redaction import untrusted

problem = partial(factories.problem, "nics")


def unread_problems(
    target: Target, output: CommandOutput | ProbeFailure | None, what: str, argv: tuple[str, ...]
) -> Iterator[Problem]:
    """Yield that the output of a command is missing; `what` is what it would show."""
    if isinstance(output, ProbeFailure):
        yield problem(target, output.rule, f"the {what} cannot be read: {output.reason}", output.help)
    elif output is None or output.status != 0:
        answer = untrusted(output.stdout + output.stderr).strip() or "no answer" if output else "it was not asked"
        message = f"the {what} cannot be read: {answer}"
        yield problem(target, "unreadable", message, f"try it on the host: {' '.join(argv)}")


def speed_problems(target: Target, nic: PlainObject, wanted: int | Literal["auto"] | None) -> Iterator[Problem]:
    """Yield why a NIC cannot have a speed, in Mbit/s."""
    able = [s["speedMb"] for s in objects(nic.get("validLinkSpecification")) if s["duplex"]]
    speeds = ", ".join(map(str, able))
    if isinstance(wanted, int) and wanted not in able:
        remedy = f"its speeds: {speeds or 'it only negotiates'}"
        yield problem(target, "speed", f"{nic['device']} cannot be set to {wanted} Mbit/s", remedy)
    if wanted == "auto" and nic.get("autoNegotiateSupported") is False:
        yield problem(target, "speed", f"{nic['device']} does not negotiate its speed", f"its speeds: {speeds}")


def coalesce_problems(target: Target, name: str, wanted: Coalesce, now: Coalesce | None) -> Iterator[Problem]:
    """Yield which settings of coalescing a NIC does not have."""
    has = now or Coalesce()
    lacks = ", ".join(n for n, value in wanted if value is not None and getattr(has, n) is None)
    if lacks:
        message = f"{name} shows nothing of {lacks}: its driver has no such setting"
        yield problem(target, "coalesce", message, "leave that out for it")


def ring_problems(target: Target, facts: Facts, nic: Mapping[str, object], wanted: Rings) -> Iterator[Problem]:
    """Yield the problems of the rings of a NIC."""
    name = str(nic["device"])
    output, most = facts.probes.get(f"{RINGS.name}:{name}"), nic_settings.rings(facts, name, MOST)
    if isinstance(output, ProbeFailure) or (output is None and nic.get("rdmaDevice")):
        yield from unread_problems(target, output, f"rings of {name}", (*RINGS.argv, name))
    elif output is None:
        message = f"{name} has no RDMA device; rings are set of NICs that have one"
        yield problem(target, "rings", message, "leave rings out for it")
    elif nic_settings.rings(facts, name) is None:
        answer = " ".join(untrusted(output.stdout + output.stderr).split()) or "it answers nothing"
        remedy = "leave rings out for it; some drivers have no such setting"
        yield problem(target, "rings", f"{name} does not show its rings: {answer}", remedy)
    elif most is not None:
        large = ", ".join(f"{way} {size}" for way, size in wanted if size and size > getattr(most, way))
        if large:
            yield problem(target, "rings", f"{name} cannot have rings of {large} entries", f"its largest: {most}")
