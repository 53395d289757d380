"""torchrun itself on guests with networks of their own, where PyTorch is there: static, elastic and legacy rendezvous.

It is not among the packages of the tests: `VSPHERE_AI_TORCH=/path/to/venv/bin/python` names a Python that has it.
"""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

import pytest
from app.training.test_launch_run import Jobs
from support.gates import LONG
from support.training_guests import gone, networked, processes_of, separate  # noqa: F401

from vsphere_ai.app.training.launch.run import run_logs

PYTHON = os.environ.get("VSPHERE_AI_TORCH") or (sys.executable if shutil.which("torchrun") else "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="no PyTorch here: name its Python with VSPHERE_AI_TORCH")
ALL_REDUCE = """
import os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(value)
sys.stdout.write(f"rank {dist.get_rank()} sum {value.item()} local {sys.argv[1:]}\\n")
dist.destroy_process_group()
"""
WAITING = ALL_REDUCE + "import time\ntime.sleep(600)\n"


@pytest.fixture
def two(networked):
    for vm in ("trn-01", "trn-02"):
        networked.start(vm)
    return networked


def launched(two, script, mode="torchrun", **more):
    given = {"python": PYTHON, "env": {"GLOO_SOCKET_IFNAME": "ens192"}, **more}
    return Jobs(two, script, mode, **given).start()


def lines(job):
    logs = run_logs(job.request).logs
    text = "".join(t for own in logs.values() if isinstance(own, dict) for t in own.values())
    return sorted(line for line in text.splitlines() if line.startswith("rank ")), text


@pytest.mark.parametrize(
    "options", [{}, {"elastic": "2:2", "max_restarts": 1}, {"legacy": True}], ids=["static", "elastic", "legacy"]
)
def test_four_processes_have_the_right_sum(two, options):
    job = launched(two, ALL_REDUCE, torchrun=options, args=["{local_rank}"])
    found = job.wait()
    shown, text = lines(job)
    assert found.head.outcome == "done", (found.head, text)
    assert shown == [f"rank {n} sum 10 local ['{n % 2}']" for n in range(4)]
    assert gone(job.run)


def test_processes_started_one_by_one_have_the_right_sum(two):
    job = launched(two, ALL_REDUCE, "env")
    assert job.wait().head.outcome == "done"
    assert len(lines(job)[0]) == 4


@pytest.mark.parametrize("mode", ["accelerate", "deepspeed"])
@pytest.mark.parametrize("args", [[], ["{local_rank}"]], ids=["plain", "placeholders"])
def test_other_launchers_on_each_node_have_the_right_sum(two, mode, args):
    if not os.path.exists(os.path.join(os.path.dirname(PYTHON), mode)):
        pytest.skip(f"no {mode} beside this PyTorch")
    cpu = {"ACCELERATE_USE_CPU": "true", "DS_ACCELERATOR": "cpu"}
    job = launched(two, ALL_REDUCE, mode, args=args, env={"GLOO_SOCKET_IFNAME": "ens192", **cpu})
    found = job.wait()
    shown, text = lines(job)
    assert found.head.outcome == "done", (found.head, text)
    assert [line.partition(" local")[0] for line in shown] == [f"rank {n} sum 10" for n in range(4)], text


def test_a_worker_that_is_killed_ends_agents_and_workers_of_both_nodes(two):
    job = launched(two, WAITING)
    job.until_running(6)  # an agent and two workers on each node
    while len(lines(job)[0]) < 4:
        assert not job.status().is_over, lines(job)[1]
    workers = [p for p in processes_of(job.run) if b"LOCAL_RANK=1" in environment(p)]
    os.kill(workers[0], signal.SIGKILL)
    assert job.wait().head.outcome == "failed"
    assert gone(job.run)


def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read().split(b"\0")


@pytest.fixture
def three(separate):
    for vm in ("trn-01", "trn-02", "trn-03"):
        separate.start(vm)
    return separate


# workers as of a collective that fails when a node is lost
ELASTIC = """
import os, sys, time
folder, first = sys.argv[1], os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
sys.stdout.write(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n")
sys.stdout.flush()
while not os.path.exists(f"{folder}/done"):
    if first and os.path.exists(f"{folder}/lost"):
        sys.exit(1)
    time.sleep(0.05)
"""


def test_an_elastic_run_goes_on_with_fewer_nodes(three):
    folder = three.folder / "states"
    folder.mkdir()
    job = launched(three, ELASTIC, torchrun={"elastic": "2:3", "max_restarts": 3}, args=[str(folder)])

    def until(text):
        end = time.monotonic() + LONG
        while text not in lines(job)[1]:
            assert time.monotonic() < end, lines(job)[1][-3000:]
            assert not job.status().is_over, lines(job)[1][-3000:]
            time.sleep(0.5)

    until("of 6\n")
    three.cut("trn-03")
    (folder / "lost").touch()
    until("of 4\n")
    assert list(job.status().lost) == [2]
    (folder / "done").touch()
    found = job.wait()
    assert found.head.outcome == "done", (found.head, lines(job)[1][-3000:])
    assert gone(job.run)
