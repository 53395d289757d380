"""Checkpoints and memory: published cases, units, and properties of the formulas."""

from __future__ import annotations

import json
from math import isclose

import pytest
from click.testing import CliRunner

from vsphere_ai.cli.reference.calculate import command
from vsphere_ai.training import quantities
from vsphere_ai.training.checkpoint import checkpoint_size, checkpoints, daly, write_time, young
from vsphere_ai.training.memory import GIB, Parallel, Shape, activations, memory

HOUR = 3600


@pytest.mark.parametrize(
    ("rate", "minutes"), [("19.2GB/s", 2.20), ("64GB/s", 0.66), ("128GB/s", 0.33), ("256GB/s", 0.16)]
)
def test_the_checkpoint_of_gpt_175b_in_units_that_agree(rate, minutes):
    size = quantities.size("2.3TiB")
    assert round(size / 1e9) == 2529
    assert round(write_time(size, quantities.rate(rate)) / 60, 2) == minutes


def test_fourteen_bytes_per_parameter_are_near_the_listed_size():
    assert 0.95 < checkpoint_size(175e9) / quantities.size("2.3TiB") < 1


def test_the_interval_of_sixty_four_nodes_that_fail_every_400_hours():
    found = checkpoints(60 * 1e9, 1e9, 400 * HOUR, 64)
    assert found.write == 60
    assert found.mtbf == 6.25 * HOUR
    assert round(found.young / 60) == 27
    assert isclose(found.daly, found.young, rel_tol=0.05)
    assert 0.06 < found.lost < 0.08


def test_daly_agrees_with_young_where_writing_is_short_and_stays_below_the_mtbf_where_it_is_long():
    assert isclose(daly(1, 1e6), young(1, 1e6), rel_tol=1e-2)
    assert daly(5, 2) == daly(4, 2) == 2
    for write in range(1, 200):
        assert 0 < daly(write, 100) < young(write, 100) * 1.5
        assert daly(write, 100) <= 100 * 1.12


def test_daly_s_interval_loses_least():
    """The expected time with failures, by Daly's full model, is least near his interval."""
    from math import exp

    def time(every, write, mtbf, restart=0):
        return mtbf * exp(restart / mtbf) * (exp((every + write) / mtbf) - 1) / every

    for write, mtbf in ((60, 22500), (600, 22500), (3000, 22500)):
        best = min(range(60, 60000, 60), key=lambda every: time(every, write, mtbf))
        assert time(daly(write, mtbf), write, mtbf) <= time(best, write, mtbf) * 1.001


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        ("size", "2.3TiB", 2.3 * 1024**4),
        ("size", "80GB", 80e9),
        ("size", "8Gb", 1e9),
        ("size", "512B", 512),
        ("rate", "200Gb/s", 25e9),
        ("rate", "19.2 GB/s", 19.2e9),
        ("seconds", "400h", 1.44e6),
        ("seconds", "30min", 1800),
        ("count", "175B", 175e9),
        ("count", "1e9", 1e9),
        ("count", "350M", 350e6),
    ],
)
def test_quantities(read, text, value):
    assert isclose(getattr(quantities, read)(text), value)


@pytest.mark.parametrize(
    ("read", "text"),
    [("size", "80"), ("size", "80GB/s"), ("size", "80iB"), ("size", "0GB"), ("rate", "80GB"), ("seconds", "400"),
     ("seconds", "0h"), ("count", "-7B"), ("count", "7GB"), ("size", ""), ("size", "1e400GB/s")],
)  # fmt: skip
def test_what_is_no_quantity(read, text):
    with pytest.raises(ValueError, match="write e"):
        getattr(quantities, read)(text)


def test_model_states_take_sixteen_bytes_per_parameter_and_zero_divides_them():
    """The example of the ZeRO paper: 7.5 billion parameters on 64 GPUs, 120, 31.4, 16.6 and 1.9 GB."""
    states = [memory(7.5e9, Parallel(64, zero=stage)) for stage in range(4)]
    found = [round((m.weights + m.gradients + m.optimizer) / 1e9, 1) for m in states]
    assert found == [120.0, 31.4, 16.6, 1.9]


def test_tensor_and_pipeline_divide_the_model():
    assert memory(8e9, Parallel(8, tensor=2, pipeline=4)).weights == 2e9
    with pytest.raises(ValueError, match="no multiple"):
        memory(8e9, Parallel(6, tensor=4))


def test_activations_of_gpt_3():
    """Equations 2, 4 and 6 of arXiv:2205.05198; 175B: 96 layers, hidden 12288, 96 heads, sequence 2048, tensor 8."""
    shape = {"layers": 96, "hidden": 12288, "heads": 96, "sequence": 2048}
    by = {r: activations(Shape(**shape, recompute=r), Parallel(8, tensor=8)) for r in ("none", "selective", "full")}
    unit = 2048 * 12288 * 96
    assert by["none"] == unit * (10 + 24 / 8 + 5 * 96 * 2048 / 12288 / 8)
    assert by["selective"] == unit * 13
    assert by["full"] == unit * 2
    assert by["full"] < by["selective"] < by["none"]


@pytest.fixture
def calculate():
    def run(*words, code=0):
        done = CliRunner().invoke(command, words, standalone_mode=False)
        found = done.return_value if done.exception is None else getattr(done.exception, "exit_code", done.exception)
        assert (found or 0) == code, (done.output, done.exception)
        return done.stdout

    return run


def test_the_commands(calculate):
    words = ("checkpoint", "--params", "175B", "--rate", "64GB/s", "--mtbf", "400h", "--nodes", "64")
    found = json.loads(calculate(*words, "-o", "json"))
    assert found["bytes"] == 2_450_000_000_000
    assert "interval (Daly)" in calculate(*words)
    calculate("checkpoint", "--size", "1TB", "--params", "1B", "--rate", "1GB/s", code=64)
    calculate("checkpoint", "--size", "1TB", "--rate", "1GB", code=64)
    fits = ("memory", "--params", "1B", "--memory", "40GiB")
    assert json.loads(calculate(*fits, "-o", "json"))["total"] == round(16e9 + 2 * GIB)
    assert "does not fit" in calculate("memory", "--params", "7B", "--memory", "40GiB", code=1)
    calculate("memory", "--params", "7B", "--layers", "32", code=64)
    calculate("memory", "--params", "7B", "--gpus", "3", "--tensor", "2", code=64)
