"""Files for tools that watch nodes: node health check of Slurm sites, alert rules of Prometheus; written or checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Emit, Remark, ignore
from vsphere_ai.app.training.nodes.listed import NodesRequest, list_nodes, meant
from vsphere_ai.errors import Mark
from vsphere_ai.health import nhc, prometheus
from vsphere_ai.language.yaml_files.document import FaultCollector, excerpt, load, quotable_text, require
from vsphere_ai.model.topology import VmCpus

Form = Literal["nhc", "prometheus"]


@dataclass(frozen=True)
class NodesExportRequest:
    """What is written for the VMs of a playbook's set (`set`, where it makes several), or of patterns.

    `what` holds the playbook's file, or the patterns.
    """

    form: Form
    what: Sequence[str]
    set: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


def export_nodes(request: NodesExportRequest, emit: Emit = ignore) -> str:
    """Return the file for nodes. Changes nothing. `UsageError` where no VM is meant."""
    found = list_nodes(_wanted(request), emit)
    name = request.set or " ".join(request.what)
    if request.form == "nhc":
        sizes = {n.vm: _size(n.cpus) for n in found.nodes if n.cpus.count and n.cpus.per_socket}
        return nhc.written(found.nodes, sizes, name)
    for node in found.nodes:
        if not node.address:
            emit(Remark("render.guest", f"no address of {node.vm} is known: no alert is about it"))
    return yaml.safe_dump(prometheus.rule_file(found.nodes, name), sort_keys=False, width=100)


def _size(cpus: VmCpus) -> nhc.Size:
    return nhc.Size(max(1, cpus.count // cpus.per_socket), cpus.count, cpus.memory_mb // 1024)


@dataclass(frozen=True)
class CheckedNodeFiles:
    """How many checks or rules there are, and notes on what was not looked at, each with its place."""

    count: int
    notes: tuple[str, ...] = ()


def check_node_files(form: Form, files: Sequence[Path]) -> CheckedNodeFiles:
    """Return how many checks or rules files of a form have, and what of them no rule is about.

    `InputError` with every fault and its place; `UsageError` for a file that is not there.
    """
    faults, count = FaultCollector(), 0
    notes: list[str] = []
    for path in files:
        require(path, "file")
        count += _nhc(path, faults, notes) if form == "nhc" else _prometheus(path, faults)
    faults.raise_any()
    return CheckedNodeFiles(count, tuple(notes))


def _wanted(request: NodesExportRequest) -> NodesRequest:
    if len(request.what) == 1:
        return meant(request.what[0], request.estate, set=request.set)
    return NodesRequest(vms=tuple(request.what), estate=request.estate)


def _nhc(path: Path, faults: FaultCollector, notes: list[str]) -> int:
    text = quotable_text(path)  # notes name checks of the file
    lines, wrong = nhc.read(text)
    for fault in wrong:
        if fault.is_note:
            notes.append(f"{path}:{fault.line}:{fault.column}: {fault.message}")
            continue
        mark = Mark(str(path), fault.line, fault.column)
        faults.add(mark, fault.message, fault.help, excerpt=excerpt(text, mark))
    return sum(bool(line.check) for line in lines)


def _prometheus(path: Path, faults: FaultCollector) -> int:
    document = load(path, faults)
    for fault in prometheus.faults(document.data):
        document.refuse(faults, fault.path, fault.message, fault.help)
    faults.raise_any()
    groups = document.data.get("groups", ()) if isinstance(document.data, dict) else ()
    return sum(len(group["rules"]) for group in groups)  # without a fault, every group has rules
