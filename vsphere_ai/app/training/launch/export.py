"""Exports of a job's nodes: host files, settings and inventories, written from the nodes of now, or checked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.estate.scope import EstateRequest, inventory_of
from vsphere_ai.app.events import Emit, Remark, ignore
from vsphere_ai.app.training.launch.job import job_nodes, load_job
from vsphere_ai.app.training.launch.machines import RULE, machines_of
from vsphere_ai.app.training.launch.planned import added_by_the_run, known_nodes
from vsphere_ai.app.training.nodes.listed import guest_settings
from vsphere_ai.errors import REPORT_IT, StepFailed, UsageError
from vsphere_ai.language.yaml_files.document import BYTE_ORDER_MARK, judged_text, require
from vsphere_ai.training.exports import EXPORTS
from vsphere_ai.training.exports.finding import LineFinding, at_line, faults, in_file, line_of
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.machine import NodeMachine

FORMATS = tuple(EXPORTS)
TOPOLOGY = "/etc/nccl-topo.xml"
"""Where exports expect the topology file of a node, which `render nccl-topo` writes."""


@dataclass(frozen=True)
class JobExportRequest:
    """A job, and one of `FORMATS`."""

    format: str
    job: Path
    estate: EstateRequest = field(default_factory=EstateRequest)


def export_job(request: JobExportRequest, emit: Emit = ignore) -> str:
    """Return the text of an export; `Refused` where the job cannot be launched so. Changes nothing.

    What is written is read back by the rules of `check_job_export`; a finding is an error of this tool.
    """
    job = load_job(request.job)
    found = job_nodes(job, request.job, request.estate, emit)
    export = EXPORTS[request.format]
    nodes, why = known_nodes(job, found, request.estate, emit) if export.has_rails else (found[0], {})
    machines: dict[str, NodeMachine] = {}
    if request.format == "slurm":
        # nodes that a job lists need no inventory; without one their guests are not asked
        with suppress(UsageError):
            machines = machines_of(nodes, guest_settings(inventory_of(request.estate)), emit)
    plan = LaunchPlan(job, nodes, job.training_job, TOPOLOGY, machines)
    for note in added_by_the_run({node.vm: plan.nccl(number) for number, node in enumerate(nodes)}, why):
        emit(Remark(RULE, note))
    text = export.write(plan)
    for each in faults(export.check(text)):
        said = f"what was written cannot be read back: line {line_of(each)}: {each.message}"
        raise StepFailed(said, REPORT_IT, rule="internal")
    return text


def check_job_export(format: str, path: Path) -> tuple[LineFinding, ...]:
    """Return the problems of a file in a format; `InputError` when it cannot be read."""
    require(path, "file")
    text, export = judged_text(path), EXPORTS[format]
    findings = export.check(text.removeprefix(BYTE_ORDER_MARK))
    if text.startswith(BYTE_ORDER_MARK) and export.takes_mark_for_text(text.removeprefix(BYTE_ORDER_MARK)):
        what = "it begins with a byte order mark, which is read as a part of this line: save it as UTF-8 without one"
        findings = [at_line(1, what), *findings]
    return in_file(findings, str(path), format)
