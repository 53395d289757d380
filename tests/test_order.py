"""The order of the run: nothing is lost, and every worker begins with its part of what takes longest."""

from __future__ import annotations

from collections import Counter

import pytest
from support.order import SECONDS, TOGETHER, arranged, seconds
from support.places import ROOT

ALL = [f"tests/core/test_short.py::test[{n}]" for n in range(900)]
for number, path in enumerate(sorted(SECONDS)):
    ALL[40 * number : 40 * number] = [f"{path}::test[{n}]" for n in range(12)]
ALL += [f"tests/e2e/test_module{number}.py::test[{n}]" for number in range(9) for n in range(12)]


def module(item):
    return item.partition("::")[0]


@pytest.mark.parametrize("workers", [2, 3, 4, 16])
def test_every_worker_begins_with_its_part_of_the_long_tests(workers):
    found = arranged(ALL, workers, name=str)
    assert Counter(found) == Counter(ALL)
    size = len(ALL) // workers // 4  # what pytest-xdist sends first
    loads = [sum(seconds(module(i)) for i in found[at : at + size]) for at in range(0, workers * size, size)]
    assert min(loads) > 0
    short = [i for i in found if not seconds(module(i))]
    assert short == [i for i in ALL if not seconds(module(i))]
    if workers > 4:
        return  # what takes long is more than what is sent first
    assert max(loads) - min(loads) <= 12 * max(SECONDS.values())
    for path in {*TOGETHER, "tests/e2e/test_module3.py"}:
        places = [n for n, i in enumerate(found) if module(i) == path]
        assert places == list(range(places[0], places[0] + 12))


def test_one_worker_keeps_the_order():
    assert arranged(ALL, 1, name=str) == ALL


def test_few_tests_stay_all_there():
    assert sorted(arranged(ALL[:3], 4, name=str)) == sorted(ALL[:3])


@pytest.mark.parametrize("path", SECONDS)
def test_the_modules_exist(path):
    assert (ROOT / path).exists()
