"""Open MPI of Debian on guests with a network of their own: right ranks on both nodes, and a key that is removed."""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from app.training.test_launch_run import Jobs
from support.gates import LONG
from support.training_guests import ALL_REDUCE, gone, networked, processes_of  # noqa: F401

from vsphere_ai.app.training.launch.run import run_logs, stop_run

# Open MPI does not run as root unless it is told to: a guest's user is another one
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}
SHOW = """
import os, socket, sys
sys.stdout.write(" ".join([socket.gethostname(), *(os.environ[n] for n in %r)]) + "\\n")
"""
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR")


@pytest.fixture
def two(networked):
    for vm in ("trn-01", "trn-02"):
        networked.start(vm)
    return networked


def keys(two):
    found = [two.folder / vm / "home" / ".ssh" / "authorized_keys" for vm in two.servers]
    return "".join(path.read_text() for path in found if path.exists())


def launched(two, script, **more):
    return Jobs(two, script, "mpi", mpi={"ssh_mesh": True}, env={**ROOT, **more})


def test_processes_of_both_nodes_have_the_variables_of_their_rank_and_the_right_sum(two):
    job = launched(two, SHOW % (VARIABLES,) + ALL_REDUCE).start()
    found = job.wait()
    log = run_logs(job.request).logs["trn-01"]["launcher.log"]
    assert found.head.outcome == "done", (found, log)
    head = two.address("trn-01")
    shown = sorted(line for line in log.splitlines() if line.startswith("trn-"))
    assert shown == [
        f"trn-01 0 4 0 2 0 0 {head}",
        f"trn-01 1 4 1 2 0 0 {head}",
        f"trn-02 2 4 0 2 1 1 {head}",
        f"trn-02 3 4 1 2 1 1 {head}",
    ]
    assert sorted(line for line in log.splitlines() if line.startswith("rank ")) == [
        f"rank {n} sum 10" for n in range(4)
    ]
    assert keys(two) == ""
    assert not (two.folder_of("trn-01") / job.run / "mesh_key").exists()


def ranks_of(run):
    """Return the environments of the processes of a run by their rank."""
    found = {}
    for pid in processes_of(run):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
            own = dict(word.split("=", 1) for word in words if "=" in word)
            found |= {own["RANK"]: own} if "RANK" in own else {}
    return found


def test_the_jobs_variables_and_the_mark_of_the_run_are_in_each_process_of_both_nodes(two):
    job = launched(two, "import time\ntime.sleep(600)\n", FOO="bar").start()
    until = time.monotonic() + LONG
    while set(ranks := ranks_of(job.run)) != {"0", "1", "2", "3"}:
        assert time.monotonic() < until, (ranks, run_logs(job.request))
        time.sleep(0.1)
    for environment in ranks.values():
        assert (environment["FOO"], environment["MASTER_ADDR"]) == ("bar", two.address("trn-01"))
        assert environment["VSPHERE_AI_RUN"] == job.run
    stop_run(job.request)
    assert gone(job.run)


@pytest.mark.parametrize("how", ["a rank is killed", "mpirun is killed", "stop"])
def test_nothing_is_left_on_any_node(two, how):
    job = launched(two, "import time\ntime.sleep(600)\n").start()
    until = time.monotonic() + LONG
    while sum(two.processes_in(vm).count("python3") for vm in two.servers) < 6:  # four ranks, two supervisors
        assert time.monotonic() < until, run_logs(job.request)
        time.sleep(0.1)
    assert job.run in keys(two)
    if how == "stop":
        assert stop_run(job.request).head.outcome == "stopped"
    else:
        name = "mpirun" if how == "mpirun is killed" else "python3"
        found = ((p, Path(f"/proc/{p}/comm").read_text().strip()) for p in sorted(processes_of(job.run), reverse=True))
        victim = next(pid for pid, comm in found if comm == name)
        os.kill(victim, signal.SIGKILL)
        assert job.wait().head.outcome == "failed"
    assert gone(job.run)
    until = time.monotonic() + LONG
    while any(two.processes_in(vm) for vm in two.servers):
        assert time.monotonic() < until, [two.processes_in(vm) for vm in two.servers]
        time.sleep(0.1)
    assert keys(two) == ""
