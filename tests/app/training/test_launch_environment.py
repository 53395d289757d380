"""Every rank of every mode has the job's variables, its secrets and the run's mark: read where it runs, of /proc.

Guests are OpenSSH servers with a network of their own, whose sessions pass no variable on. mpirun is Open MPI's own.
The launchers of frameworks are programs with the same options and remote commands (`support.launcher_programs`), or the
real ones beside `VSPHERE_AI_TORCH=/path/to/venv/bin/python`; pdsh is the real one where it is installed.
"""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest
from app.training.test_launch_run import Jobs
from support.gates import LONG
from support.launcher_programs import MODULES, NAMES, install
from support.training_guests import gone, networked, processes_of  # noqa: F401

from vsphere_ai.app.training.launch.run import run_logs, stop_run

PYTHON = os.environ.get("VSPHERE_AI_TORCH", "")
REAL = frozenset(
    name
    for name in NAMES
    if (PYTHON and (Path(PYTHON).parent / name).exists()) or (name == "pdsh" and shutil.which(name))
)
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}
"""Open MPI refuses root otherwise; that a rank has FOO is what counts."""
TOKEN, FOO = "hf_Zq8vT3kLw0PxR7", "a b;c $HOME 'd' \"e\""
OWN = """a"b $(touch /var/tmp/read-by-a-shell)"""
"""DeepSpeed exports names that begin with NCCL: by pdsh in a command that a shell reads."""
WAITING = "import time\ntime.sleep(600)\n"
ALL = "{rank}/{local_rank}/{node_rank}/{local_size}/{world_size}/{nodes}"
MODES = {
    "torchrun": ("torchrun", {}),
    "torchrun, elastic": ("torchrun", {"torchrun": {"elastic": "2:2"}}),
    "torchrun, legacy": ("torchrun", {"torchrun": {"legacy": True}}),
    "env": ("env", {}),
    "mpi": ("mpi", {}),
    "mpi, ssh_mesh": ("mpi", {"mpi": {"ssh_mesh": True}}),
    "horovod": ("horovod", {}),
    "horovod, mpirun": ("horovod", {"mpi": {"via": "mpirun"}}),
    "horovod, mpirun, ssh_mesh": ("horovod", {"mpi": {"via": "mpirun", "ssh_mesh": True}}),
    "deepspeed": ("deepspeed", {}),
    "deepspeed, pdsh": ("deepspeed", {"deepspeed": {"via": "pdsh"}}),
    "deepspeed, openmpi": ("deepspeed", {"deepspeed": {"via": "openmpi"}}),
    "accelerate": ("accelerate", {}),
    "accelerate, DeepSpeed": ("accelerate", {"accelerate": {"distributed_type": "DEEPSPEED"}}),
    "accelerate, FSDP": ("accelerate", {"accelerate": {"distributed_type": "FSDP"}}),
    "lightning": ("lightning", {}),
    "lightning, env": ("lightning", {"lightning": {"via": "env"}}),
}
BY_INHERITANCE = [m for m in MODES if m.startswith(("torchrun", "accelerate", "lightning")) or m == "deepspeed"]
"""A launcher on each node hands its own environment on; with placeholders rank.py starts each rank."""


@pytest.fixture
def two(networked, monkeypatch):
    monkeypatch.setenv("JOB_TOKEN", TOKEN)
    for vm in ("trn-01", "trn-02"):
        networked.start(vm)
        install(networked, vm, real=REAL)
    return networked


def environments(run, key="RANK"):
    """Return the processes of a run that are ranks: by the value of a variable, with their words and environment."""
    values = {}
    for pid in processes_of(run):
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().decode()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            own = dict(word.split("=", 1) for word in environment.split("\0") if "=" in word)
            if key in own and any(word.endswith("train.py") for word in words) and "rank.py" not in str(words[:4]):
                values[own[key]] = (pid, words, own)
    return values


def launched(two, mode, script=WAITING, **more):
    python = {"python": PYTHON} if PYTHON else {}
    modules = {} if PYTHON else {"PYTHONPATH": str(two.folder / MODULES)}
    env = {**ROOT, **modules, "FOO": FOO, "NCCL_OWN": OWN, "HF_TOKEN": "env:JOB_TOKEN", **more.pop("env", {})}
    return Jobs(two, script, mode, **python, env=env, nccl="off", **more).start()


def until_ranks(job, ranks, key="RANK"):
    until = time.monotonic() + LONG
    while set(found := environments(job.run, key)) != set(ranks):
        assert time.monotonic() < until, found
        assert not job.status().is_over, (found, run_logs(job.request))
        time.sleep(0.1)
    return found


def judge(two, job, *, has_values):
    """Judge the environment of each rank, and what its placeholders became."""
    networks = {vm: os.readlink(f"/proc/{two.servers[vm].process.pid}/ns/net") for vm in two.servers}
    for rank, (pid, words, own) in until_ranks(job, "0123").items():
        node, local = divmod(int(rank), 2)
        assert os.readlink(f"/proc/{pid}/ns/net") == networks[f"trn-0{node + 1}"]
        names = ("FOO", "NCCL_OWN", "HF_TOKEN", "VSPHERE_AI_RUN", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")
        values = (FOO, OWN, TOKEN, job.run, "4", str(local), two.address("trn-01"))
        assert {name: own.get(name) for name in names} == dict(zip(names, values, strict=True))
        if has_values:
            assert f"{rank}/{local}/{node}/2/4/2" in words
            assert own["WHERE"] == f"node {node}"
    stop_run(job.request)
    assert gone(job.run)


@pytest.mark.parametrize("mode", MODES)
def test_each_rank_has_the_jobs_variables_its_secrets_and_the_mark_of_the_run(two, mode):
    """With placeholders where each rank is started by rank.py anyhow, or is a process of the job itself."""
    name, more = MODES[mode]
    given = {} if mode in BY_INHERITANCE else {"args": [ALL], "env": {"WHERE": "node {node_rank}"}}
    judge(two, launched(two, name, **{**more, **given}), has_values=bool(given))


@pytest.mark.parametrize("mode", [mode for mode in BY_INHERITANCE if "elastic" not in mode])
def test_placeholders_have_the_values_of_where_a_rank_runs(two, mode):
    name, more = MODES[mode]
    job = launched(two, name, args=[ALL], env={"WHERE": "node {node_rank}"}, **more)
    judge(two, job, has_values=True)


def test_each_task_of_tensorflow_has_them(two):
    job = launched(two, "tensorflow", tensorflow={"parameter_servers": 1})
    ranks = until_ranks(job, json_tasks(two), "TF_CONFIG")
    for _, _, own in ranks.values():
        assert (own["FOO"], own["HF_TOKEN"], own["VSPHERE_AI_RUN"]) == (FOO, TOKEN, job.run)
    stop_run(job.request)
    assert gone(job.run)


def json_tasks(two):
    first, second = (two.address(vm) for vm in two.servers)
    cluster = {"worker": [f"{first}:2222", f"{second}:2222"], "ps": [f"{second}:2223"]}
    tasks = [("worker", 0), ("worker", 1), ("ps", 0)]
    return [json.dumps({"cluster": cluster, "task": {"type": kind, "index": n}}) for kind, n in tasks]
