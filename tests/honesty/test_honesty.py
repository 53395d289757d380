"""A slice of `make honesty`: every fault once, and some cases of two or none, always the same ones."""

from __future__ import annotations

import pytest
from honesty import cases
from honesty.judge import Court
from honesty.labs import Labs
from honesty.report import outcome
from reliability.harness import Tool

pytestmark = pytest.mark.lab
SEED = 1
ALONE = tuple(range(cases.alone()))
MORE = tuple(range(cases.alone(), cases.alone() + 25))


@pytest.fixture(scope="module")
def court(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honesty")
    (folder / "said").mkdir()
    labs, tool = Labs(), Tool(folder / "said")
    yield Court(labs, tool, folder)
    tool.close()
    labs.close()


def judged(court, numbers):
    """Judge cases; fail with all that was said in those which broke a promise."""
    verdicts = {n: court.judge(cases.case(SEED, n)) for n in numbers}
    wrong = [outcome(v, SEED, n).text for n, v in verdicts.items() if v.wrong]
    assert not wrong, "\n\n".join(wrong)
    return tuple(verdicts.values())


@pytest.mark.timeout(240)
@pytest.mark.parametrize("first", range(0, len(ALONE), 8))
def test_every_fault_alone(court, first):
    """Eight at a time: each has a lab of its own, and the first command of a worker takes longest."""
    assert all(v.planned >= 0 for v in judged(court, ALONE[first : first + 8]))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("first", range(0, len(MORE), 8))
def test_none_or_two_at_once_or_while_it_runs(court, first):
    assert all(v.applied >= 0 for v in judged(court, MORE[first : first + 8]))
