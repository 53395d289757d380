"""The golden screens: what a summary counts is what stands above it, whatever is folded."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from support.large_plans import names_in
from support.screens import GOLDEN

PLANNED = re.compile(r"^(\d+) to add, (\d+) to change, \d+ to remove", re.MULTILINE)
FOUND = re.compile(r"^(?:\d+ (?:fail|unknown|warn|pass)(?:, |$))+$", re.MULTILINE)
ENDED = re.compile(r"^(\d+) of (\d+) steps done in .*\n  steps    (.*)\n  targets  (.*)$", re.MULTILINE)


def screens(pattern):
    """Each screen of the golden files that has such a summary, and the summary."""
    return [
        pytest.param(part[: found.start()], found, id=f"{path.stem}-{number}")
        for path in sorted(GOLDEN.iterdir())
        for number, part in enumerate(re.split(r"^\$ ", path.read_text("utf-8"), flags=re.MULTILINE))
        if (found := pattern.search(part))
    ]


def marks(text):
    """The signs of the changes, each as often as there are targets in the head above it."""
    found, heads = Counter(), 0
    for line in re.sub(r"\n {4}(?! )", " ", text).splitlines():
        if head := re.match(r"  [+~-] (\S.*)", line):
            heads = len(names_in(head[1].partition("  ")[0]))
        elif mark := re.match(r"      ([+~]) \S", line):
            found[mark[1]] += heads
        elif re.match(r"[A-Z][A-Z ']+$", line) and line not in ("DATACENTERS", "HOSTS", "VMS"):
            heads = 0
    return found


@pytest.mark.parametrize(("text", "summary"), screens(PLANNED))
def test_a_plan_counts_its_marks(text, summary):
    assert [marks(text)[sign] for sign in "+~"] == [int(n) for n in summary.groups()]


@pytest.mark.parametrize(("text", "summary"), screens(FOUND))
def test_a_check_counts_its_findings(text, summary):
    found, heads = Counter(), 1
    for line in text.splitlines()[1:]:
        if re.match(r"\S", line):
            heads = len(names_in(line.partition(": ")[0]))
        elif verdict := re.match(r"  (fail|unknown|warn) +[a-z]", line):
            found[verdict[1]] += heads
    counted = {word: int(n) for n, word in re.findall(r"(\d+) (fail|unknown|warn)", summary[0])}
    assert found == counted


@pytest.mark.parametrize(("text", "summary"), screens(ENDED))
def test_a_run_counts_each_step_and_each_target_once(text, summary):
    done, total, steps, targets = summary.groups()
    counted = {word: int(n) for n, word in re.findall(r"(\d+) ([a-z ]+)", steps)}
    assert (sum(counted.values()), counted["done"]) == (int(total), int(done))
    failed = names_in(" ".join(re.findall(r"^(?:FAILED|UNKNOWN)  (.*?):", summary.string, re.MULTILINE)))
    assert len(set(failed)) == sum(int(n) for n in re.findall(r"(\d+) (?:failed|unknown)", targets))


def test_there_are_screens_of_each():
    assert [bool(screens(each)) for each in (PLANNED, FOUND, ENDED)] == [True, True, True]
