"""`.ci/newcomer` carries out README's commands with little else than Python, make and git, and fails when they fail."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.places import ROOT

MAKE = """#!/bin/sh
echo "make $*"
echo "$PATH" >> {folder}/path
for program in ssh ip ps sshd; do command -v $program >/dev/null 2>&1 && echo "found $program"; done
[ -e README.md ] && [ -e .git ] || echo "no clone"
case "$*" in
{cases}
esac
case "$*" in *--note-passed*) echo tests/test_a.py::test_b >> "$(pwd)/passed" ;; esac
exit 0
"""


@pytest.fixture
def newcomer(tmp_path):
    """Run the script with a stand-in for make; `cases` are lines of a shell's case on its arguments."""

    def run(cases="", **more):
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "make").write_text(MAKE.format(folder=tmp_path, cases=cases))
        (programs / "make").chmod(0o755)
        places = {"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(tmp_path), "NEWCOMER_ROOT": "no"}
        done = subprocess.run(
            [ROOT / ".ci" / "newcomer", tmp_path / "passed"], env={**os.environ, **places, **more}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    return run


def test_both_commands_run_in_a_clone_with_few_programs(newcomer, tmp_path):
    status, text = newcomer(PYTEST_ARGS="-k some")
    assert status == 0, text
    made = [line for line in text.splitlines() if line.startswith("make ") and "demo and" not in line]
    assert made[0] == "make demo"
    assert made[1].startswith("make test PYTEST_ARGS=--note-passed ")
    assert made[1].endswith("-k some")
    assert len(made) == 2
    assert "found" not in text, "a program that not every machine has"
    assert "no clone" not in text
    assert "(NEWCOMER_ROOT=no)" in text
    assert (tmp_path / "passed").read_text() == "tests/test_a.py::test_b\n"
    (path,) = set((tmp_path / "path").read_text().split())
    assert path.startswith(f"{tmp_path}/newcomer.")
    assert not os.path.exists(path), "nothing is left of it"


def test_a_demo_that_fails_is_a_failure(newcomer):
    status, text = newcomer("demo) exit 2 ;;")
    assert status != 0
    assert "make test" not in text.partition(":")[2]


def test_tests_that_fail_are_run_once_more_alone_and_may_pass_then(newcomer):
    status, text = newcomer("*--last-failed*) ;;\ntest*) exit 2 ;;")
    assert status == 0, text
    again = [line for line in text.splitlines() if line.startswith("make test JOBS=0")]
    assert len(again) == 1
    assert "-rA" in again[0], "they are named"
    assert "The tests that failed at first passed alone." in text


def test_tests_that_fail_twice_are_a_failure(newcomer):
    status, text = newcomer("test*) exit 2 ;;")
    assert status != 0
    assert "passed alone" not in text


TESTS = """
import pytest

@pytest.fixture
def broken():
    yield
    raise ValueError

def test_good(): pass
def test_bad(): raise ValueError
def test_skipped(): pytest.skip("it")
def test_breaks_later(broken): pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in workers"])
def test_what_passed_in_one_place_is_left_out_in_another(tmp_path, options):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q\n")
    (tmp_path / "test_it.py").write_text(TESTS)

    def run(*more):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "conftest", "-c", "pytest.ini", *options, *more, tmp_path],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout

    run("--note-passed", tmp_path / "passed")
    assert (tmp_path / "passed").read_text() == "test_it.py::test_good\n"
    text = run("--but-passed", tmp_path / "passed", "--note-passed", tmp_path / "passed here")
    assert "1 failed, 1 passed, 1 skipped" in text, text
    assert (tmp_path / "passed here").read_text() == ""
