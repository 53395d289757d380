"""The program that starts a process of a rank on a node, as a process of its own."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest
from support.gates import LONG

from vsphere_ai.training.on_node import rank_file

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
BY_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
BY_TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1"}
BY_DEEPSPEED = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_SIZE": "4", "CROSS_RANK": "1"}
BY_DEEPSPEED["CROSS_SIZE"] = "2"
BY_HOROVOD = {"HOROVOD_RANK": "5", "HOROVOD_SIZE": "8", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "4"}
BY_HOROVOD |= {"HOROVOD_CROSS_RANK": "1", "HOROVOD_CROSS_SIZE": "2"}
STARTED_BY = [BY_MPI, BY_TORCHRUN, BY_DEEPSPEED, BY_HOROVOD]


@pytest.fixture
def start(tmp_path):
    (tmp_path / "rank.py").write_text(rank_file(), "utf-8")

    def run(*words, **environment):
        argv = [sys.executable, str(tmp_path / "rank.py"), sys.executable, "-c", SHOW, *words]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LONG, check=False)

    return run


@pytest.mark.parametrize("given", STARTED_BY, ids=["mpirun", "torchrun", "DeepSpeed", "Horovod"])
def test_arguments_have_the_values_of_the_rank(start, given):
    words, env = json.loads(
        start("{rank}/{world_size}", "{node_rank}:{local_rank}", "{nodes}", "{{rank}}", **given).stdout
    )
    assert words == ["5/8", "1:1", "2", "{rank}"]
    assert env.items() >= {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "NODE_RANK": "1", "NNODES": "2"}.items()
    assert env["LOCAL_WORLD_SIZE"] == "4"


def test_variables_of_the_node_lie_beside_it(start, tmp_path):
    (tmp_path / "env.json").write_text('{"NCCL_IB_HCA": "=mlx5_0:1"}')
    assert json.loads(start(**BY_MPI).stdout)[1]["NCCL_IB_HCA"] == "=mlx5_0:1"


def test_no_shell_reads_arguments(start):
    words = ["$(id)", "a b", "'\"", ";", "*"]
    assert json.loads(start(*words, **BY_MPI).stdout)[0] == words


def test_a_launcher_that_says_no_rank(start):
    done = start("{local_rank}")
    assert (done.returncode, "LOCAL_RANK" in done.stderr) == (1, True)


def test_it_runs_on_the_python_of_old_guests():
    ast.parse(rank_file(), feature_version=(3, 7))
