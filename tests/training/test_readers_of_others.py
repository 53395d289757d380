"""Checks of files beside the programs that read them, where these are installed: many drawn files, one verdict each.

ansible-core is always here (the integration needs it); accelerate and DeepSpeed, with torch, may be. A check says wrong
for what the program refuses to load, and for nothing else; what accelerate refuses later, at its start, is not drawn.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable

import pytest
from support import seeds

from vsphere_ai.training.exports import accelerate_config, ansible_check, hostfiles
from vsphere_ai.training.exports.finding import LineFinding, faults

DRAWS = 1000 if seeds.FULL else 150
HEAD = "import json, os, sys, tempfile\ntexts = json.load(sys.stdin)\n"
TAIL = """
answers = []
for text in texts:
    try:
        read(text)
        answers.append(True)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        answers.append(False)
sys.__stdout__.write("\\n" + json.dumps(answers))
"""
ANSIBLE = """
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader, inventory_loader
init_plugin_loader()
def read(text):
    path = os.path.join(tempfile.mkdtemp(), "hosts.yml")
    open(path, "w").write(text)
    inventory_loader.get("yaml").parse(InventoryData(), DataLoader(), path, cache=False)
"""
ANSIBLE_INI = ANSIBLE.replace('"yaml"', '"ini"').replace("hosts.yml", "hosts.ini")
ACCELERATE = """
from accelerate.commands.config.config_args import load_config_from_file
def read(text):
    path = os.path.join(tempfile.mkdtemp(), "accelerate.yaml")
    open(path, "w").write(text)
    load_config_from_file(path)
"""
DEEPSPEED = """
from deepspeed.launcher.runner import _parse_hostfile
def read(text):
    _parse_hostfile(text.splitlines())
"""
GROUP = (
    "{hosts: {n1: }}", "{hosts: {'n[01:16]': {ansible_host: 10.0.0.1}}}", "{hosts: [n1, n2]}", "{hosts: n1}", "", "[]",
    "{children: {inner: }}", "{children: [inner]}", "{vars: {a: 1}}", "{vars: [a]}", "text", "{hosts: {'n1:2222': }}",
    "{hosts: {n1: {a: [1]}}}", "{other: 1}", "{hosts: }", "{children: inner}", "7",
)  # fmt: skip
GROUP_PARTS = (
    "hosts: {'n[1:]': }", "hosts: {'n[01:3]': }", "hosts: {'n[a:c]x': {b: 1}}", "hosts: {'n[1:9:2]-[1:2]': }",
    "hosts: {7: }", "hosts: {'[2001:db8::1]:22': }", "hosts: {'n[1-4]': }", "hosts: {n1: 0}", "hosts: {n1: text}",
    "hosts: {n1: []}", "children: {gpu: , login: {hosts: n2}}", "children: {gpu: text}",
    "children: {login: {children: {gpu: }}}", "children: {5: }", "vars: a", "vars: {}", "hosts: {'': }",
    "children: {all: }", "hosts: {'n[c:a]': }", "hosts: {n1: {a: !unsafe '{{ b }}'}}", "vars: {a: !unsafe [1]}",
    "hosts: {n1: {a: !other b}}",
)  # fmt: skip
INI_LINES = (
    "[gpu]", "[login]", "[gpu:children]", "[all:vars]", "[gpu:vars]", "[x:hostz]", "[a b]", "[gpu] # a comment",
    "[login:vars]", "n1", "n1 ansible_host=10.0.0.1", "n[01:16]:22 a=1 b='c d'", "n[01:3]", "n[1:]", "n1 b",
    "n1 a='b", "login", "gpu", "a=1", "a = 1 2", "# comment", "; comment", "", "[2001:db8::1]:22 a=1",
    "[2001:db8::1]", "n1:", "---", "n1 # note a", "login # below", "login x", "n[a:c].example", "[01:03]",
    "[1:3]x y=1", "n[1:3:0]", '"n1" a="b c"', "n1 a=b=c", "=1",
)  # fmt: skip
KEYS = (
    "num_processes: 8", "num_processes: '8'", "num_machines: 2\nmain_process_ip: 10.0.0.1", "machine_rank: 0",
    "main_process_port: 29500", "mixed_precision: bf16", "main_process_host: a", "gpu_ids: all", "fsdp_config: {}",
    "rdzv_backend: static", "compute_environment: LOCAL_MACHINE", "use_cpu: false", "newer_key: 1", "tpu_env: []",
    "dynamo_backend: 'no'", "debug: false", "parallelism_config: {}", "enable_cpu_affinity: true", "fp16: true",
)  # fmt: skip
KINDS = (
    "MULTI_GPU",
    "FSDP",
    "DEEPSPEED",
    "NO",
    "'NO'",
    "false",
    "MULTI_CPU",
    "MEGATRON_LM",
    "MULTI_NODE",
    "multi_gpu",
    "",
)
LINES = (
    "n1 slots=8", "n2\tslots=8", "n1  slots=4 max_slots=8", "# a comment", "", "n3 slots=0", "n3 slots = 8", "n4:8",
    "n5", "n6 slots=eight", "n2 slots=8 # note", "  n7 slots=8", "n8 slots=8,n9", "[fd00::1] slots=8",
    "user@n10 slots=2", "n1 slots=8 slots=8", "n11 SLOTS=8", "n12, slots=8",
)  # fmt: skip


def inventory(draw: random.Random) -> str:
    groups = draw.sample(("all", "gpu", "gpu-nodes", "n1", "login", "ungrouped"), draw.randint(1, 3))
    parts = [draw.choice((*GROUP, *(f"{{{part}}}" for part in GROUP_PARTS))) for _ in groups]
    return "".join(f"{name}: {part}\n" for name, part in zip(groups, parts, strict=True))


def ini_inventory(draw: random.Random) -> str:
    return "\n".join(["[gpu]", *draw.choices(INI_LINES, k=draw.randint(1, 5))]) + "\n"


def configuration(draw: random.Random) -> str:
    kind = [f"distributed_type: {draw.choice(KINDS)}"] if draw.random() < 0.9 else []
    return "\n".join([*kind, *draw.sample(KEYS, draw.randint(0, 5))]) + "\n"


def host_file(draw: random.Random) -> str:
    return "\n".join(draw.choices(LINES, k=draw.randint(0, 4))) + "\n"


READERS: dict[str, tuple[tuple[str, ...], str, Callable[[random.Random], str], Callable[[str], list[LineFinding]]]] = {
    "ansible-core": (("ansible",), ANSIBLE, inventory, ansible_check.check),
    "ansible-core, INI": (("ansible",), ANSIBLE_INI, ini_inventory, ansible_check.check),
    "accelerate": (("accelerate", "torch"), ACCELERATE, configuration, accelerate_config.check),
    "DeepSpeed": (("deepspeed", "torch"), DEEPSPEED, host_file, hostfiles.check_deepspeed),
}


def read_by(script: str, texts: list[str]) -> list[bool]:
    """Whether the program takes each text; it runs in a process of its own, whose settings are its own."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_LOCALHOST_WARNING": "0"}
    command = [sys.executable, "-c", HEAD + script + TAIL]
    done = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, env=environment, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[bool] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", READERS)
def test_a_check_says_wrong_for_what_the_program_refuses_and_for_nothing_else(name):
    modules, script, made, check = READERS[name]
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{name} is not installed: {module}")
    draw = random.Random(seeds.SEED)
    texts = list(dict.fromkeys(made(draw) for _ in range(DRAWS)))
    taken = read_by(script, texts)
    assert {True, False} <= set(taken), "some are to be refused, and some taken"
    differ = [
        (text, is_read) for text, is_read in zip(texts, taken, strict=True) if is_read == bool(faults(check(text)))
    ]
    assert differ[:5] == []
