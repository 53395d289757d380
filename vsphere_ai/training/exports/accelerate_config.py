"""Configurations of Accelerate: a YAML document per machine, judged as Accelerate loads and launches it.

Source: huggingface/accelerate, in the release that accelerate.yaml names: src/accelerate/commands/config/config_args.py
(BaseConfig.from_yaml_file refuses unknown keys and checks no type) and commands/launch.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.model.bounded import yaml_documents
from vsphere_ai.model.dated_table import dated_table
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.text import safe
from vsphere_ai.training.exports.finding import LineFinding, at_line
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.launchers import accelerate

_TABLE = dated_table("training/exports/accelerate.yaml").values
RELEASE = str(_TABLE["release"])
"""The release whose keys and kinds are known: a later one may have more of them."""
KEYS, OLDER = frozenset(_TABLE["keys"]), frozenset(_TABLE["older_keys"])
"""Keys of ClusterConfig, with the two that are converted; and keys that only earlier releases have."""
TYPES, OLDER_TYPES = frozenset(_TABLE["types"]), frozenset(_TABLE["older_types"])
"""Values of distributed_type; and those that only earlier releases have."""
_NUMBERS = ("num_machines", "num_processes", "machine_rank", "main_process_port")


def write(plan: LaunchPlan) -> str:
    """Return the configuration of each machine as a YAML document."""
    plan.even("Accelerate")
    return "".join(f"--- # {safe(node.vm)}\n{accelerate.config(plan, n)}" for n, node in enumerate(plan.nodes))


def check(text: str) -> list[LineFinding]:
    """Return the findings of configurations: each alone, and all of them together."""
    try:
        documents = [each for each in yaml_documents(text) if each.value is not None]
    except ValueError as error:
        return [at_line(0, f"this is not YAML: {error}")]
    findings, machines = [], []
    for line, document in documents:
        if not isinstance(document, dict):
            findings.append(at_line(line, "a configuration is a mapping of keys"))
            continue
        findings += [at_line(line, message, verdict) for message, verdict in _document(document)]
        machines.append((line, document))
    ranks = [machine.get("machine_rank") for _, machine in machines]
    for line, machine in machines:
        rank, count = _number(machine, "machine_rank"), _number(machine, "num_machines")
        if rank is not None and ((count is not None and rank >= count) or ranks.count(rank) > 1):
            findings.append(at_line(line, f"machine_rank {rank} is too large, or there twice"))
    common = ("num_machines", "num_processes", "main_process_ip", "main_process_port")
    if len({tuple(str(m.get(name)) for name in common) for _, m in machines}) > 1:
        findings.append(at_line(0, "the machines do not agree about their number, their processes or the main one"))
    return findings if documents else [at_line(0, "there is no configuration")]


def _document(document: Mapping[object, object]) -> Iterator[tuple[str, Verdict]]:
    environment = document.get("compute_environment", "LOCAL_MACHINE")
    if environment == "AMAZON_SAGEMAKER":
        yield "not looked at: a configuration of SageMaker", "info"
        return
    if environment != "LOCAL_MACHINE":
        yield f"compute_environment {environment} is neither LOCAL_MACHINE nor AMAZON_SAGEMAKER: it is refused", "fail"
    names = [str(key) for key in document]
    if unknown := [name for name in names if name not in KEYS | OLDER]:
        yield f"Accelerate {RELEASE} refuses a file with keys it does not have: {', '.join(unknown)}", "fail"
    if older := [name for name in names if name in OLDER]:
        yield f"Accelerate {RELEASE} refuses {', '.join(older)}, which earlier releases have", "warn"
    for name in _NUMBERS:
        if isinstance(document.get(name), str):
            yield f"{name} is a text; Accelerate does not convert it", "warn"
    kind = document.get("distributed_type")
    if "distributed_type" not in document:
        yield "distributed_type is missing", "fail"
    elif not isinstance(kind, str):
        # NO without quotes is false in YAML 1.1, which Accelerate takes as it takes whatever is no text: it checks none
        kind = "NO"
        yield "distributed_type is no text, such as NO without quotes: one process without communication", "warn"
    elif kind in OLDER_TYPES:
        yield f"Accelerate {RELEASE} refuses distributed_type {kind}, which earlier releases have", "warn"
    elif kind not in TYPES:
        yield f"Accelerate {RELEASE} refuses distributed_type {kind}: it has {', '.join(sorted(TYPES))}", "fail"
    yield from _launch(document, str(kind))


def _launch(document: Mapping[object, object], kind: str) -> Iterator[tuple[str, Verdict]]:
    """Yield what `accelerate launch` refuses, or starts in another way (_validate_launch_command)."""
    machines, processes = _number(document, "num_machines"), _number(document, "num_processes")
    is_multi = kind.startswith("MULTI_") and kind != "MULTI_CPU"
    if is_multi and processes == 1:
        yield f"{kind} with 1 process: accelerate launch --multi_gpu refuses it", "warn"
    if kind != "NO" and document.get("num_processes", -1) == -1:
        yield "num_processes is missing: accelerate launch refuses the file without --num_processes", "warn"
    gpus = document.get("gpu_ids")
    if gpus is not None and not isinstance(gpus, str):
        yield f"gpu_ids {gpus} is no text, at which accelerate launch ends: write it in quotes", "fail"
    elif is_multi and (1 if machines is None else machines) <= 1 and gpus not in (None, "all") and "," not in str(gpus):
        yield f"{kind} on one machine with gpu_ids {gpus}, one GPU, is refused", "fail"
    if machines is not None and machines > 1 and not document.get("main_process_ip"):
        yield "main_process_ip is missing, which more than one machine needs", "fail"
    if kind == "DEEPSPEED" and machines is not None and machines > 1 and not _started_by_each(document):
        yield (
            "DeepSpeed on several machines is started by pdsh with deepspeed_hostfile, and without one each machine "
            "trains alone; deepspeed_config: {deepspeed_multinode_launcher: standard} starts it on each",
            "warn",
        )
    if machines and processes and processes > 0 and processes % machines:
        yield "num_processes is of all machines, and no multiple of num_machines", "fail"


def _started_by_each(document: Mapping[object, object]) -> bool:
    """Return whether DeepSpeed has a host file, or is started on each machine (utils/launch.py)."""
    own = document.get("deepspeed_config")
    return isinstance(own, dict) and (
        bool(own.get("deepspeed_hostfile")) or own.get("deepspeed_multinode_launcher") == "standard"
    )


def _number(document: Mapping[object, object], name: str) -> int | None:
    """Return a number, also one that is written as a text; None where there is none."""
    value = document.get(name)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
