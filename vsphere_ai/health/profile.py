"""Profile of health: which checks are made of VMs, with which values; learned from a good VM, or written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from vsphere_ai.health.answers import GuestFacts, SmiGpu, link_of
from vsphere_ai.health.kernel.kernel_log import normal
from vsphere_ai.health.preflight import rail_part
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.nodes import Node


class HealthyNumber(BaseModel):
    """A number that was measured on healthy VMs: the mean, and the spread of one VM (standard deviation)."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    typical: float
    spread: Annotated[float, Field(ge=0)] = 0.0
    vms: Annotated[int, Field(ge=1)] = 1


@dataclass(frozen=True)
class ProfileMeasure:
    """What a number is: its unit, the check that judges it, and the least share that it may differ by.

    `rises`: too much is wrong, else too little.
    """

    unit: str
    check: str
    verdict: Verdict
    share: float
    remedy: str
    rises: bool = False

    def limit(self, number: HealthyNumber) -> float:
        """Return from which value on a VM is found: four times the spread, and no less than the share."""
        apart = max(4 * number.spread, self.share * number.typical)
        return number.typical + apart if self.rises else number.typical - apart


MEASURES: Mapping[str, ProfileMeasure] = {
    "gpu_memory": ProfileMeasure("MiB", "gpu-memory", "fail", 0.01, "look at the vGPU profile, and at ECC of the GPU"),
    "gpu_clock": ProfileMeasure("MHz", "gpu-clock", "fail", 0.02, "look at clock limits (`nvidia-smi -q -d CLOCK`)"),
    "gpu_power": ProfileMeasure("W", "gpu-power", "warn", 0.02, "look at the power limit (`nvidia-smi -q -d POWER`)"),
    "gpu_temperature": ProfileMeasure("°C", "gpu-temperature", "warn", 0.3, "look at cooling and its load", rises=True),
    "rail_speed": ProfileMeasure("Gb/s", "rail-speed", "fail", 0.02, "look at cable, transceiver and switch port"),
}
"""Numbers of a profile. The limits are own ones: no source gives any for a set of like VMs."""
_OF_SMI = {"gpu_clock": "clocks.max.sm", "gpu_power": "power.limit", "gpu_temperature": "temperature.gpu"}


def measured(node: Node, facts: GuestFacts, owned: Sequence[tuple[str, SmiGpu]]) -> dict[str, list[tuple[str, float]]]:
    """Return the numbers of a VM by their names, each with its part; `owned`: GPUs as their owner shows them."""
    found: dict[str, list[tuple[str, float]]] = {}
    for gpu in facts.gpus:
        if gpu.memory_total:
            known = next((g.host_pci for g in node.gpus if g.index == gpu.index and g.host_pci), gpu.bus)
            found.setdefault("gpu_memory", []).append((f"GPU {known}", gpu.memory_total))
    for part, gpu in owned:
        for name, field in _OF_SMI.items():
            if field in gpu.measures:
                found.setdefault(name, []).append((part, gpu.measures[field]))
    for rail in node.rails:
        link = link_of(rail, facts)
        rate = facts.rates.get(f"{link.device}/{link.port}") if link else None
        if rate:
            found.setdefault("rail_speed", []).append((rail_part(rail), rate))
    return found


class HealthProfile(BaseModel):
    """What a healthy VM is like. A value that is None is not compared.

    `skip` names checks that are left out, `shadow` those that are reported and do not count.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

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
    numbers: dict[str, HealthyNumber] = {}
    """Numbers of healthy VMs, by the names of `MEASURES`."""
    kernel_log: tuple[str, ...] = ()
    """Lines of the kernel's log of healthy VMs, without what differs from boot to boot; empty: not compared."""
    common: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the VMs from which a check that fails on more of them is a finding about the estate."""
    skip: tuple[str, ...] = ()
    shadow: tuple[str, ...] = ()

    @field_validator("numbers")
    @classmethod
    def _known(cls, given: dict[str, HealthyNumber]) -> dict[str, HealthyNumber]:
        unknown = [name for name in given if name not in MEASURES]
        if unknown:
            raise ValueError(f"there is no number '{unknown[0]}'\nthere are: {', '.join(MEASURES)}")
        return given


@dataclass(frozen=True)
class Learned:
    """A profile, the VMs that it was learned from, and those that were left out, each with the reason."""

    profile: HealthProfile
    vms: tuple[str, ...]
    left_out: Mapping[str, str]


def learned(node: Node, facts: GuestFacts) -> HealthProfile:
    """Return the profile of a VM that is known to be good, without numbers."""
    links = [(rail, link) for rail in node.rails if (link := link_of(rail, facts)) is not None]
    mtus = {i.mtu for r, link in links if (i := facts.interfaces.get(link.netdev or r.interface)) is not None}
    types = [facts.gid_types.get(f"{link.device}/{link.port}", ()) for _, link in links]
    sources = {source for source, _ in facts.rules}
    addresses = [rail.address for rail in node.rails if rail.address]
    first = next(iter(facts.gpus), None)
    return HealthProfile(
        gpus=len(facts.gpus),
        gpu_name=first.name if first else None,
        driver=first.driver if first else None,
        cuda=facts.cuda or None,
        packages=dict(facts.packages),
        rails=len(links),
        mtu=mtus.pop() if len(mtus) == 1 else None,
        policy_routes=all(a in sources for a in addresses) if addresses else None,
        roce_v2=all("RoCE v2" in own for own in types) if types else None,
        kernel_log=tuple(dict.fromkeys(form for line in facts.kernel if (form := normal(line)))),
    )
