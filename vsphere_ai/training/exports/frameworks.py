"""TF_CONFIG of TensorFlow: a line per task.

Source: tensorflow/tensorflow tensorflow/python/distribute/cluster_resolver/tfconfig_cluster_resolver.py.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vsphere_ai.model.names.written_names import tab_field
from vsphere_ai.training.exports.finding import LineFinding, at_line
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.launchers import tensorflow


class _Task(BaseModel):
    model_config = ConfigDict(defer_build=True, strict=True)

    type: Literal["chief", "worker", "ps", "evaluator"]
    index: int = Field(ge=0)


class _TfConfig(BaseModel):
    model_config = ConfigDict(defer_build=True, strict=True)

    cluster: dict[Literal["chief", "worker", "ps", "evaluator"], list[str]]
    task: _Task


def write_tf_config(plan: LaunchPlan) -> str:
    """Return a line per task: its node, its name and TF_CONFIG."""
    tasks = tensorflow.tasks_of(plan)
    cluster = tensorflow.cluster_of(plan, tasks)
    names = [tab_field("name of the VM", node.vm) for node in plan.nodes]
    return "".join(f"{names[t.node]}\t{t.name}\t{tensorflow.tf_config(cluster, t)}\n" for t in tasks)


def check_tf_config(text: str) -> list[LineFinding]:
    """Return the problems of values of TF_CONFIG, each alone on a line or behind names and tabs."""
    found, clusters, tasks = [], set(), set()
    for number, line in ((n, x) for n, x in enumerate(text.splitlines(), 1) if x.strip()):
        try:
            config = _TfConfig.model_validate_json(line.rpartition("\t")[2])
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            found.append(at_line(number, _words(first["loc"], first["msg"])))
            continue
        kind, index = config.task.type, config.task.index
        members = config.cluster.get(kind, [])
        if kind != "evaluator" and index >= len(members):
            found.append(at_line(number, f"the cluster has {len(members)} tasks '{kind}', and this is number {index}"))
        if (kind, index) in tasks:
            found.append(at_line(number, f"the task {kind} {index} is there twice"))
        tasks.add((kind, index))
        clusters.add(json.dumps(config.cluster, sort_keys=True))
        every = [address for own in config.cluster.values() for address in own]
        if len(set(every)) < len(every):
            found.append(at_line(number, "two tasks have the same address and port"))
    if len(clusters) > 1:
        found.append(at_line(0, "the tasks do not have the same cluster"))
    return found or ([] if tasks else [at_line(0, "there is no task")])


def _words(place: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(map(str, place)) or 'the value'}: {message}"
