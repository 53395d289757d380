"""The burn program itself: it refuses without PyTorch, and with it every cycle gives the same losses, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.gates import LONG

from vsphere_ai.benchmarks.programs.burn import read_report
from vsphere_ai.training.on_node import burn_file

PYTHON = os.environ.get("VSPHERE_AI_TORCH", "")
SMALL = ("--device", "cpu", "--size", "64", "--steps", "10", "--layers", "2", "--seconds", "0.5", "--every", "0.1")


def burn(tmp_path, python, *more):
    file = tmp_path / "burn.py"
    file.write_text(burn_file(), "utf-8")
    argv = [python, str(file), *SMALL, *more]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, check=False)
    return done.returncode, read_report(done.stdout.splitlines()), done.stderr


def test_it_refuses_without_pytorch(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    code, report, _ = burn(tmp_path, sys.executable)
    assert (code, report.refused, report.is_comparable) == (3, "No module named 'torch'", False)


@pytest.mark.skipif(not PYTHON, reason="no PyTorch here: name its Python with VSPHERE_AI_TORCH")
@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
def test_each_cycle_and_each_process_computes_the_same(tmp_path, kind):
    code, one, error = burn(tmp_path, PYTHON, "--type", kind)
    assert code == 0, error
    assert one.end
    assert one.cycles > 1
    assert one.digests == {one.first: one.cycles}
    assert one.differs is None
    assert one.finite
    _, other, _ = burn(tmp_path, PYTHON, "--type", kind)
    assert (other.first, other.key) == (one.first, one.key)
    _, seeded, _ = burn(tmp_path, PYTHON, "--type", kind, "--seed", "2")
    assert seeded.first != one.first
    assert seeded.key != one.key


@pytest.mark.skipif(not PYTHON, reason="no PyTorch here: name its Python with VSPHERE_AI_TORCH")
def test_a_flipped_bit_is_reported_with_its_cycle_and_step(tmp_path):
    text = burn_file()
    at = "            loss.backward()\n"
    assert at in text
    flip = "            Program.count = getattr(Program, 'count', 0) + 1\n            if Program.count == 35:\n"
    flip += "                loss = torch.nextafter(loss, loss + 1)\n"
    file = tmp_path / "wrong.py"
    file.write_text(text.replace(at, flip + at), "utf-8")
    done = subprocess.run([PYTHON, str(file), *SMALL], capture_output=True, text=True, timeout=LONG, check=False)
    report = read_report(done.stdout.splitlines())
    assert len(report.digests) == 2
    # the first cycle, of ten steps, is not reported
    assert (report.differs.cycle, report.differs.step) == (3, 5)
    assert report.differs.found != report.differs.expected
