"""Answers of NCCL's RAS: tables of old versions, JSON of new ones, and text that is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from vsphere_ai.training.ras import RankProcess, read_answer

SAMPLES = Path(__file__).parent / "samples"


def answer(name):
    found = read_answer((SAMPLES / name).read_text())
    assert found is not None
    return found


def test_a_table_names_the_ranks_that_are_behind():
    (found,) = answer("ras-2.24-mismatch.txt").communicators
    assert (found.id, found.most, found.unlisted) == ("27a079b828ff1a75", {"": 6650}, 0)
    assert [(r.rank, r.process, n) for r, n in found.behind()] == [
        (n, RankProcess("172.16.64.210", 483072 + n, n), 1) for n in (0, 2, 3, 4, 5, 7)
    ]


def test_a_table_of_a_later_version_counts_each_kind_of_collective():
    (found,) = answer("ras-2.26-one-behind.txt").communicators
    assert found.most == {"AllReduce": 64}
    assert [(r.rank, r.process, n) for r, n in found.behind()] == [(7, RankProcess("10.0.0.12", 1650386, 3), 4)]


@pytest.mark.parametrize(("name", "dead"), [("ras-2.24-dead.txt", True), ("ras-2.24-incomplete.txt", False)])
def test_a_process_that_does_not_answer(name, dead):
    found, process = answer(name), RankProcess("172.16.64.213", 3487984, 5)
    assert found.unresponsive == (process,)
    assert found.dead == ((process,) if dead else ())
    assert [r.rank for c in found.communicators for r in c.missing] == [21]


def test_a_table_without_a_difference_names_nothing():
    found = answer("ras-2.24-level.txt")
    assert (found.communicators, list(found.processes()), found.whole) == ((), [], False)


def test_json_lists_every_rank():
    found = answer("ras-2.29-missing.json.txt")
    (communicator,) = found.communicators
    assert (found.version, found.whole, communicator.size) == ("2.29.1", True, 2)
    assert communicator.ranks[0].process == RankProcess("172.16.64.245", 1524344, 0)
    assert communicator.ranks[0].counts["AllReduce"] == 0
    assert [r.rank for r in communicator.missing] == [1]
    assert found.unresponsive == (RankProcess("172.16.64.245", 1524345, 1),)
    assert found.dead == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "OK\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        'OK\n{"communicators": [',
        '{"communicators": 5}',
        '{"communicators": [{"hash": 1, "ranks": "x"}]}',
        "\x1b[2J" * 100,
        "{" * 100_000 + '"communicators"',
    ],
)
def test_what_is_no_answer(text):
    assert read_answer(text) is None


def test_no_cut_of_an_answer_is_an_error():
    for path in SAMPLES.glob("ras-*"):
        text = path.read_text()
        for end in range(0, len(text), 7):
            read_answer(text[:end])
