"""Values of an acceptance: its request, and what its gates work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.training.nodes.listed import NodesRequest
from vsphere_ai.compat.certified_facts import parts_of
from vsphere_ai.health.certificate import Gate, Measurement
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.nodes import Node

GateName = Literal["assess", "health", "rdma", "nccl", "megatron"]
ORDER: tuple[GateName, ...] = ("assess", "health", "rdma", "nccl")
"""Gates that are carried out unless others are named, the cheapest first; `megatron` only where it is named."""
WORSE: frozenset[Verdict] = frozenset(("warn", "unknown", "fail"))


@dataclass(frozen=True)
class AcceptRequest:
    """The set of a playbook, the gates to carry out, and the file of the certificate, from which it also goes on.

    `attestations` are for the assessment, `profile` for health, `baseline` for benchmarks; `again`: everything is
    measured again. What failed before ends only with a pass, also then. `megatron_folder` is where Megatron-LM is.
    """

    playbook: Path
    certificate: Path
    set: str = ""
    gates: tuple[GateName, ...] = ORDER
    attestations: Path | None = None
    profile: Path | None = None
    baseline: Path | None = None
    again: bool = False
    megatron_folder: str = "/opt/Megatron-LM"
    estate: EstateRequest = field(default_factory=EstateRequest)

    @property
    def inputs(self) -> Mapping[str, Path]:
        """The files that gates read, by what they are."""
        every = {name: getattr(self, name) for name in ("playbook", "attestations", "profile", "baseline")}
        return {name: path for name, path in every.items() if path}


@dataclass(frozen=True)
class Acceptance:
    """What gates work on: the request, the vCenter, the set with its nodes, and the facts that are certified."""

    request: AcceptRequest
    vcenter: str
    set: str
    nodes: tuple[Node, ...]
    facts: Mapping[str, Mapping[str, str]]
    not_asked: Mapping[str, str] = field(default_factory=dict)
    """VMs whose guests could not be asked for facts, with the reason."""
    before: Mapping[str, Gate] = field(default_factory=dict)
    """What an earlier certificate has, by gate."""
    valid: Mapping[str, Gate] = field(default_factory=dict)
    """What of it still holds."""

    @property
    def asked(self) -> NodesRequest:
        """The VMs of the set."""
        return NodesRequest(playbook=self.request.playbook, set=self.set, estate=self.request.estate)

    def parts(self, vm: str) -> tuple[str, ...]:
        """Return the parts that a measurement on a VM rests on."""
        return next((parts_of(node) for node in self.nodes if node.vm == vm), (f"vm:{vm}",))

    def passed(self, gate: GateName) -> dict[str, Measurement]:
        """Return what a gate need not measure again, by name: measurements that hold of tests that passed."""
        every = self.valid[gate].measurements if gate in self.valid else ()
        bad = {m.key for m in every if m.status not in ("pass", "warn")}
        return {m.name: m for m in every if m.key not in bad}
