"""Steps in growing logs: forms of frameworks, floods, and lines without an end."""

from __future__ import annotations

import pytest

from vsphere_ai.app.training.node_program.watching import MOST, Log, checksum
from vsphere_ai.training.job import STEP

MEGATRON = (
    " [2025-03-01 10:00:0{n}] iteration       {n}/     500 | consumed samples:           64 | "
    "elapsed time per iteration (ms): 812.1 | learning rate: 1.0E-04 | lm loss: 1.0E+01 |\n"
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "rank-0.log"
    found = Log(str(path), STEP, 3)

    def write(text, now):
        with path.open("ab") as file:
            file.write(text.encode())
        return found.look(now)

    write.log = found
    return write


@pytest.mark.parametrize(
    "line",
    [
        MEGATRON,
        "step {n} loss 2.1\n",
        "INFO:trainer:global_step={n} loss=2.1\n",
        "{{'loss': 2.1, 'step': {n}}}\n",
        "Step [{n}/100], loss 2.1\n",
        "iter: {n}, lr 0.1\n",
        "Epoch: [0][ {n}/5005]\tTime  0.2 (0.3)\n",
        "\rEpoch 0:  12%|##   | {n}/100 [00:05<00:40,  2.2it/s, v_num=3]\r",
    ],
)
def test_steps_of_frameworks(log, line):
    for n in range(1, 8):
        assert log(line.format(n=n), 10.0 * n)
    clock = log.log.clock()
    assert (clock["step"], clock["count"], clock["last"], clock["mean"]) == (7, 7, 70.0, 10.0)


@pytest.mark.parametrize("text", ["max_steps=1000\n", "stepping down\n", "loss 3\n", "steps\n", "step one\n"])
def test_what_is_no_step(log, text):
    assert not log(text, 1.0)


def test_the_warm_up_is_not_in_the_mean(log):
    for n, at in enumerate([0, 300, 500, 510, 520, 530]):
        log(f"step {n}\n", float(at))
    assert log.log.clock()["mean"] == 10.0


def test_before_the_warm_up_is_over_there_is_no_mean(log):
    log("step 1\nstep 2\nstep 3\n", 5.0)
    assert log.log.clock()["mean"] is None


def test_the_same_step_again_and_a_half_line_are_no_step(log):
    assert log("step 5\n", 1.0)
    assert not log("step 5 saved\nstep ", 2.0)
    assert log("6\n", 3.0)
    assert log("epoch 2: step 0\n", 4.0), "numbers begin anew with an epoch"


def test_a_flood_is_read_at_its_end_only(log):
    log("step 1\n", 1.0)
    assert log("x" * (3 * MOST) + "\nstep 2\n", 2.0)
    assert not log("y" * (3 * MOST), 3.0)
    assert len(log.log.rest) < 5000


def test_bytes_that_are_no_text(log, tmp_path):
    (tmp_path / "rank-0.log").write_bytes(b"\xff\xfe\x00step 3\n")
    assert log("", 1.0)


def test_checksums(tmp_path):
    (tmp_path / "a.py").write_text("")
    assert checksum(str(tmp_path / "a.py")).startswith("e3b0c44298fc1c149afbf4c8996fb924")
    assert checksum(str(tmp_path / "b.py")) == "no such file or directory"
    assert checksum(str(tmp_path)) == "is a directory"
