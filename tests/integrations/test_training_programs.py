"""Training programs of the package: the same loss wherever they run, also after a run that was cut off."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.gates import LONG, until
from support.guest_sshd import free_port
from support.places import ROOT

PROGRAMS = ROOT / "integrations" / "training"


class Job:
    """The ranks of a job on this machine, with a folder of checkpoints."""

    def __init__(self, folder, world, program="all_reduce.py"):
        self.folder, self.world, self.program = folder, world, program

    def start(self, *options):
        at = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(self.world)}
        argv = [sys.executable, PROGRAMS / self.program, "--checkpoints", self.folder, *options]
        return [
            subprocess.Popen(argv, env={**os.environ, **at, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
            for rank in range(self.world)
        ]

    def run(self, *options):
        """Run to the end; return the output of rank 0."""
        ranks = self.start(*options)
        out = [rank.communicate(timeout=LONG)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * self.world
        return out[0]


def loss(text):
    return re.search(r"(?m)^done: \d+ steps, \d+ ranks, loss (\S+)$", text)[1]


def test_a_run_that_was_killed_goes_on_to_the_loss_of_one_that_was_not(tmp_path):
    whole = Job(tmp_path / "whole", 3).run("--steps", "40")
    cut = Job(tmp_path / "cut", 3)
    ranks = cut.start("--steps", "40", "--pause", "0.1")
    until(lambda: list((tmp_path / "cut").glob("step-*.json")))
    ranks[1].send_signal(signal.SIGKILL)
    for rank in ranks:
        rank.communicate(timeout=LONG)
    assert [rank.returncode for rank in ranks] == [1, -signal.SIGKILL, 1], "a rank that is lost ends the others"
    assert not (tmp_path / "cut" / "result.txt").exists()
    rest = cut.run("--steps", "40")
    begun = int(re.match(r"goes on after step (\d+)\n", rest)[1])
    assert 0 < begun < 40
    assert rest.count("\nstep ") == 40 - begun
    assert loss(rest) == loss(whole)
    assert (tmp_path / "cut" / "result.txt").read_text() == rest.splitlines()[-1] + "\n"


def test_more_ranks_learn_from_more_data_and_the_loss_falls(tmp_path):
    one, two = (Job(tmp_path / str(n), n).run("--steps", "30") for n in (1, 2))
    first, *_, last = map(float, re.findall(r"(?m)^step \d+ loss (\S+)$", two))
    assert last < first / 4
    assert loss(one) != loss(two)


def test_the_program_of_pytorch_comes_to_one_loss(tmp_path):
    pytest.importorskip("torch")
    whole = Job(tmp_path / "whole", 2, "all_reduce_torch.py").run("--steps", "40")
    cut = Job(tmp_path / "cut", 2, "all_reduce_torch.py")
    cut.run("--steps", "20")
    rest = cut.run("--steps", "40")
    assert rest.startswith("goes on after step 20\n")
    assert loss(rest) == loss(whole)


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.name)
def test_programs_are_written_for_python_3_8(path):
    """Guests have other versions of Python than this machine."""
    ast.parse(Path(path).read_text("utf-8"), feature_version=(3, 8))
