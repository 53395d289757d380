"""A lab that does not start: tried once more, said once in each process of the tests, and no test counts as passed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from support.places import ROOT

TESTS = """
import pytest
from support import labs
from vsphere_ai.lab.front.process import LabFailed
from vsphere_ai.lab.front.starting import StartTimeout

real, calls = labs._start, []

def start(*arguments):
    calls.append(arguments)
    {does}

labs._start = start

@pytest.mark.parametrize("number", range(6))
def test_on_the_farm(lab, number):
    assert lab.get("/lab/farm")["hosts"]

@pytest.mark.parametrize("number", range(6))
def test_on_one_of_its_own(make_lab, number):
    assert make_lab("name: x\\nhosts: [{{name: esx1}}]\\n").get("/lab/farm")["hosts"]

def test_without_a_lab():
    pass
"""


@pytest.fixture
def outcome(tmp_path):
    """Run a small suite of tests whose labs start as a line of Python says; return status, text, failed tests."""

    def run(does, *options):
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q\n")
        (tmp_path / "test_it.py").write_text(TESTS.format(does=does))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "conftest", "-c", tmp_path / "pytest.ini", *options, tmp_path],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
            capture_output=True,
            text=True,
            check=False,
        )
        cache = tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed"
        return done.returncode, done.stdout + done.stderr, json.loads(cache.read_text()) if cache.exists() else {}

    return run


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_a_process_whose_lab_does_not_start_says_so_once(outcome, options):
    status, text, failed = outcome('raise StartTimeout("the lab did not start: no progress for 60 s")', *options)
    assert status == 1
    assert re.search(r"1 passed, .*1 error", text), text
    assert "11 without a lab" in text
    assert len(re.findall(r"E .*NoLab: a lab did not start, twice: ", text)) == 1
    assert len(re.findall("(?m)^ERROR .*test_it.py", text)) == 1
    assert len(failed) == 12, "what was not tried counts as failed, also for --last-failed"


def test_a_start_that_failed_is_tried_once_more(outcome):
    status, text, failed = outcome('if len(calls) % 2: raise LabFailed("ended at once")\n    return real(*arguments)')
    assert (status, failed) == (0, {}), text
    assert "13 passed" in text


def test_a_lab_that_ends_at_once_fails_its_own_tests_only(outcome):
    does = 'if "quick" not in str(arguments[1]): raise LabFailed("ended at once")\n    return real(*arguments)'
    status, text, failed = outcome(does)
    assert status == 1
    assert "6 failed, 7 passed" in text, text
    assert {name.partition("[")[0] for name in failed} == {"test_it.py::test_on_one_of_its_own"}
