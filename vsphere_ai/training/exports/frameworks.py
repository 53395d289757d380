"""Configurations of Accelerate (a YAML document per machine) and TF_CONFIG of TensorFlow (a line per task)."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vsphere_ai.model.bounded import yaml_documents
from vsphere_ai.model.names.written_names import tab_field
from vsphere_ai.model.text import safe
from vsphere_ai.training.exports.finding import Finding
from vsphere_ai.training.launch import Plan
from vsphere_ai.training.launchers import accelerate, tensorflow


class _Machine(BaseModel):
    model_config = ConfigDict(strict=True)

    compute_environment: Literal["LOCAL_MACHINE"]
    distributed_type: Literal["NO", "MULTI_GPU", "DEEPSPEED", "FSDP"]
    mixed_precision: Literal["no", "fp16", "bf16", "fp8"] = "no"
    num_machines: int = Field(ge=1)
    num_processes: int = Field(ge=1)
    machine_rank: int = Field(ge=0)
    main_process_ip: str = Field(min_length=1)
    main_process_port: int = Field(ge=1, le=65535)
    rdzv_backend: Literal["static", "c10d"] = "static"
    same_network: bool = True


class _Task(BaseModel):
    model_config = ConfigDict(strict=True)

    type: Literal["chief", "worker", "ps", "evaluator"]
    index: int = Field(ge=0)


class _TfConfig(BaseModel):
    model_config = ConfigDict(strict=True)

    cluster: dict[Literal["chief", "worker", "ps", "evaluator"], list[str]]
    task: _Task


def write_accelerate(plan: Plan) -> str:
    """Return the configuration of each machine as a YAML document."""
    plan.even("Accelerate")
    return "".join(f"--- # {safe(node.vm)}\n{accelerate.config(plan, n)}" for n, node in enumerate(plan.nodes))


def check_accelerate(text: str) -> list[Finding]:
    """Return what stands against configurations: each alone, and all of them together."""
    try:
        documents = [each for each in yaml_documents(text) if each.value is not None]
    except ValueError as error:
        return [Finding(0, f"this is not YAML: {error}")]
    found, machines = [], []
    for line, document in documents:
        try:
            machines.append((line, _Machine.model_validate(document)))
        except ValidationError as error:
            found += [Finding(line, _words(fault["loc"], fault["msg"])) for fault in error.errors(include_url=False)]
    ranks = [machine.machine_rank for _, machine in machines]
    for line, machine in machines:
        if machine.num_processes % machine.num_machines:
            found.append(Finding(line, "num_processes is of all machines, and no multiple of num_machines"))
        if machine.machine_rank >= machine.num_machines or ranks.count(machine.machine_rank) > 1:
            found.append(Finding(line, f"machine_rank {machine.machine_rank} is too large, or there twice"))
    if len({(m.num_machines, m.num_processes, m.main_process_ip, m.main_process_port) for _, m in machines}) > 1:
        found.append(Finding(0, "the machines do not agree about their number, their processes or the main one"))
    return found or ([] if documents else [Finding(0, "there is no configuration")])


def write_tf_config(plan: Plan) -> str:
    """Return a line per task: its node, its name and TF_CONFIG."""
    tasks = tensorflow.tasks_of(plan)
    cluster = tensorflow.cluster_of(plan, tasks)
    names = [tab_field("name of the VM", node.vm) for node in plan.nodes]
    return "".join(f"{names[t.node]}\t{t.name}\t{tensorflow.tf_config(cluster, t)}\n" for t in tasks)


def check_tf_config(text: str) -> list[Finding]:
    """Return what stands against values of TF_CONFIG, each alone on a line or behind names and tabs."""
    found, clusters, tasks = [], set(), set()
    for number, line in ((n, x) for n, x in enumerate(text.splitlines(), 1) if x.strip()):
        try:
            config = _TfConfig.model_validate_json(line.rpartition("\t")[2])
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            found.append(Finding(number, _words(first["loc"], first["msg"])))
            continue
        kind, index = config.task.type, config.task.index
        members = config.cluster.get(kind, [])
        if kind != "evaluator" and index >= len(members):
            found.append(Finding(number, f"the cluster has {len(members)} tasks '{kind}', and this is number {index}"))
        if (kind, index) in tasks:
            found.append(Finding(number, f"the task {kind} {index} is there twice"))
        tasks.add((kind, index))
        clusters.add(json.dumps(config.cluster, sort_keys=True))
        every = [address for own in config.cluster.values() for address in own]
        if len(set(every)) < len(every):
            found.append(Finding(number, "two tasks have the same address and port"))
    if len(clusters) > 1:
        found.append(Finding(0, "the tasks do not have the same cluster"))
    return found or ([] if tasks else [Finding(0, "there is no task")])


def _words(place: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(map(str, place)) or 'the value'}: {message}"
