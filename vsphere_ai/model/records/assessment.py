"""Assessment of a farm against the five pillars of a well-architected workload: verdicts, attestations, records.

Values only. `unknown` is never a pass: it says that the evidence is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

Pillar = Literal["reliability", "security", "cost", "operations", "performance"]
PILLARS: tuple[Pillar, ...] = ("reliability", "security", "cost", "operations", "performance")
PillarVerdict = Literal["pass", "info", "warn", "unknown", "fail", "not applicable"]
WORST: tuple[PillarVerdict, ...] = ("fail", "unknown", "warn", "info", "pass", "not applicable")
"""The worst first: what is not known outranks a warning."""
Evidence = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Assessed:
    """What one rule finds on one object. `subject` is the object's name, empty for the farm as a whole.

    `evidence` are pairs of a property path (or the name of a record) and the value seen there.
    ValueError: a verdict of pass, warn or fail without evidence.
    """

    rule: str
    pillar: Pillar
    subject: str
    verdict: PillarVerdict
    message: str
    evidence: Evidence
    source: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.verdict in ("pass", "warn", "fail") and not self.evidence:
            raise ValueError(f"{self.rule}: a verdict of {self.verdict} needs evidence")


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
