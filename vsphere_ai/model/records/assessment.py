"""Assessment of a farm against the five pillars of a well-architected workload: pillars, attestations, records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

Pillar = Literal["reliability", "security", "cost", "operations", "performance"]
PILLARS: tuple[Pillar, ...] = ("reliability", "security", "cost", "operations", "performance")


def pillar_of(rule: str) -> Pillar:
    """Return the pillar of a rule, which its id begins with."""
    return rule.partition(".")[0]  # type: ignore[return-value]


@dataclass(frozen=True)
class Attestation:
    """An operator's answer to a question that no software can answer: who answered, when, and until when it holds."""

    rule: str
    answer: Literal["yes", "no", "not applicable"]
    owner: str
    given: date
    expires: date
    note: str = ""


@dataclass(frozen=True)
class LatestBenchmark:
    """The newest benchmark of a set: when, which one, its bus bandwidth in GB/s, and the baseline (None: none)."""

    taken: date
    name: str
    gb_per_second: float
    baseline: float | None = None


@dataclass(frozen=True)
class HealthChecked:
    """The last check of a VM's health: when, the XIDs of its GPUs that were kept, and the fatal ones among them."""

    taken: date
    xids: tuple[int, ...] = ()
    fatal: tuple[int, ...] = ()


@dataclass(frozen=True)
class Records:
    """What is known besides the estate. None, or an absent key: not known.

    `ssh_login`: how the inventory logs in to hosts; `surplus`: privileges the account has and the tool never uses;
    `options`: settings of vCenter; `spare`: cluster (reference) -> why its vGPU VMs would not restart after the loss
    of a host, empty where all would; `drift`: what differs from the playbook; `anti_affinity`: sets whose playbook
    asks for it; `measured`: newest benchmark by set; `checked`: last check of health by VM (name).
    """

    today: date
    ssh_login: Literal["password", "key", "none"] | None = None
    surplus: tuple[str, ...] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    spare: Mapping[str, str] = field(default_factory=dict)
    drift: tuple[str, ...] | None = None
    anti_affinity: frozenset[str] = frozenset()
    measured: Mapping[str, LatestBenchmark] = field(default_factory=dict)
    checked: Mapping[str, HealthChecked] = field(default_factory=dict)
    attestations: Mapping[str, Attestation] = field(default_factory=dict)
