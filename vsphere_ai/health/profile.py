"""Profile of health: which checks are made of VMs, with which values; learned from a good VM, or written by hand."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from vsphere_ai.health.answers import GuestFacts, link_of
from vsphere_ai.model.nodes import Node


class Profile(BaseModel):
    """What a healthy VM is like. A value that is None is not compared; `skip` names checks that are left out."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    gpus: Annotated[int, Field(ge=0, le=64)] | None = None
    gpu_name: str | None = None
    driver: str | None = None
    cuda: str | None = None
    packages: dict[str, str] = {}
    rails: Annotated[int, Field(ge=0, le=64)] | None = None
    mtu: Annotated[int, Field(ge=576, le=65535)] | None = None
    """MTU of the interfaces of rails, in bytes."""
    policy_routes: bool | None = None
    """Whether each address of a rail has a rule of its own."""
    roce_v2: bool | None = None
    """Whether each rail has a GID of RoCE v2."""
    xid_hours: Annotated[float, Field(gt=0, le=8760)] = 2.0
    """Hours back in which XIDs count (azurehpc-health-checks: 2)."""
    ecc_corrected: Annotated[int, Field(ge=0)] = 50_000_000
    """Corrected ECC errors since the driver was loaded (facebookresearch/gcm: 50,000,000)."""
    interval: Annotated[float, Field(ge=0, le=3600)] = 10.0
    """Seconds between two readings of counters where no earlier check has any; less than 10 are 10, 0: one reading."""
    skip: tuple[str, ...] = ()


def learned(node: Node, facts: GuestFacts) -> Profile:
    """Return the profile of a VM that is known to be good."""
    links = [(rail, link) for rail in node.rails if (link := link_of(rail, facts)) is not None]
    mtus = {i.mtu for r, link in links if (i := facts.interfaces.get(link.netdev or r.interface)) is not None}
    types = [facts.gid_types.get(f"{link.device}/{link.port}", ()) for _, link in links]
    sources = {source for source, _ in facts.rules}
    addresses = [rail.address for rail in node.rails if rail.address]
    first = next(iter(facts.gpus), None)
    return Profile(
        gpus=len(facts.gpus),
        gpu_name=first.name if first else None,
        driver=first.driver if first else None,
        cuda=facts.cuda or None,
        packages=dict(facts.packages),
        rails=len(links),
        mtu=mtus.pop() if len(mtus) == 1 else None,
        policy_routes=all(a in sources for a in addresses) if addresses else None,
        roce_v2=all("RoCE v2" in own for own in types) if types else None,
    )
