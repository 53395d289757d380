"""Findings: one scale, and the exit code that follows of the worst verdict."""

import itertools

import pytest
from support.estates import ESX1

from vsphere_ai.model.finding import VERDICTS, Finding, by_target, exit_code, seriousness, worst


def findings(*verdicts):
    return [Finding(None, "x", verdict, "") for verdict in verdicts]


@pytest.mark.parametrize(
    ("verdicts", "fail_on", "code"),
    [
        ((), "unknown", 0),
        (("pass", "info", "warn"), "unknown", 0),
        (("warn",), "warn", 2),
        (("info",), "warn", 0),
        (("warn", "unknown"), "unknown", 1),
        (("warn", "unknown"), "warn", 1),
        (("unknown",), "fail", 0),
        (("unknown", "fail"), "unknown", 2),
        (("fail",), "fail", 2),
        (("fail",), "never", 0),
    ],
)
def test_the_exit_code_is_that_of_the_worst_verdict(verdicts, fail_on, code):
    assert exit_code(findings(*verdicts), fail_on) == code


def test_what_is_not_known_ranks_between_a_warning_and_a_failure():
    for pair in itertools.combinations(VERDICTS, 2):
        assert worst(findings(*pair)) == worst(findings(*reversed(pair))) == pair[1]
    assert [seriousness(f) for f in findings(*VERDICTS)] == [0, 1, 2, 3, 4]


def test_a_problem_is_a_failure_that_refuses():
    problem = Finding.problem(ESX1, "mig.layout", "no such layout", "choose another")
    assert (problem.verdict, problem.refuses, problem.remedy) == ("fail", True, "choose another")
    assert by_target(problem)[0] == ESX1
