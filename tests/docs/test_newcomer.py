"""`.ci/newcomer` carries out README's commands with little else than Python, make and git, and fails when they fail."""

from __future__ import annotations

import os
import re
import shutil
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
    assert made[1].startswith("make test PYTEST_ARGS=--note-passed=")
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
    (tmp_path / "test_whole.py").write_text("def test_one(): pass\n")
    (tmp_path / "test_absent.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")

    def run(*more):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "conftest", "-c", "pytest.ini", *options, *more, tmp_path],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout

    run(f"--note-passed={tmp_path / 'passed'}")
    names = (tmp_path / "passed").read_text().split()
    assert sorted(names) == ["test_it.py::test_good", "test_whole.py", "test_whole.py::test_one"]
    # what is left out is not even read; what was skipped as a whole is
    (tmp_path / "test_whole.py").write_text("def test_one(): raise ValueError\n")
    (tmp_path / "test_absent.py").write_text("def test_now(): pass\n")
    text = run(f"--but-passed={tmp_path / 'passed'}", f"--note-passed={tmp_path / 'passed here'}")
    assert "1 failed, 2 passed, 1 skipped" in text, text
    assert (tmp_path / "passed here").read_text().split() == ["test_absent.py::test_now", "test_absent.py"]


STAND_IN = """#!/bin/sh
echo "make $*"
case "$*" in
{cases}
esac
case "$*" in
*--last-failed*) echo "PASSED a::again"; echo "1 passed in 0.10s"; echo a::again >> "{notes}" ;;
*--note-passed*) echo "3 passed, 2 skipped in 1.00s"; for n in 1 2; do echo "a::here$n"; done >> "{notes}" ;;
esac
exit 0
"""


@pytest.fixture
def whole(tmp_path):
    """Run `.ci/run` with stand-ins for make, for the newcomer and for packages that are all installed."""

    def run(cases="", newcomer=0):
        folder, programs = tmp_path / ".ci", tmp_path / "bin"
        folder.mkdir()
        programs.mkdir()
        shutil.copy(ROOT / ".ci" / "run", folder)
        notes = "$(echo \"$*\" | sed 's/.*--note-passed=\\([^ ]*\\).*/\\1/')"
        scripts = {
            programs / "make": STAND_IN.format(cases=cases, notes=notes),
            programs / "dpkg-query": "#!/bin/sh\necho install ok installed\n",
            folder / "newcomer": '#!/bin/sh\n[ -z "$CI" ] || echo CI is set\nprintf \'a::1\\na::2\\na::3\\n\' > "$1"\n'
            f"echo '3 passed, 5 skipped in 9.00s'\nexit {newcomer}\n",
        }
        for path, text in scripts.items():
            path.write_text(text)
            path.chmod(0o755)
        # make hands the options of the run that this is in to every program below it
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTEST_ARGS", "MAKEFLAGS")}
        environment["PATH"] = f"{programs}:{os.environ['PATH']}"
        done = subprocess.run([folder / "run"], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    return run


def test_everything_is_said_in_one_last_line_that_counts_each_test_once(whole):
    status, text = whole()
    assert status == 0, text
    lines = text.splitlines()
    assert lines[-3:-1] == ["3 passed, 5 skipped in 9.00s", "3 passed, 2 skipped in 1.00s"]
    assert re.fullmatch(r"5 passed, 2 skipped in \d+\.00s", lines[-1])
    assert "CI is set" not in text, "what is missing would fail there"
    assert "second try" not in text
    assert any(line.startswith("make test JOBS=6 PYTEST_ARGS=--but-passed=") for line in lines)


@pytest.mark.parametrize(
    ("cases", "newcomer"),
    [
        ("", 2),
        ("test\\ *) exit 2 ;;", 0),
        ("test-oldest-pyvmomi) exit 2 ;;", 0),
        ("lint*) exit 2 ;;", 0),
        ("architecture*) exit 2 ;;", 0),
        (".venv*) exit 2 ;;", 0),
    ],
)
def test_whatever_fails_fails_the_whole(whole, cases, newcomer):
    status, text = whole(cases, newcomer)
    assert status != 0
    assert "Everything passed" not in text


def test_what_fails_on_this_machine_is_tried_once_more_too(whole):
    status, text = whole("*--last-failed*) ;;\ntest\\ *) echo '1 failed, 2 passed, 2 skipped in 1.00s'; exit 2 ;;")
    assert status == 0, text
    assert "make test JOBS=0 PYTEST_ARGS=--but-passed" in text
    assert text.count("passed alone") == 1
    *_, named = re.findall(r"second try only, so something in them depends on time:\n(.+)\n", text)
    assert named == "a::again"
    assert text.splitlines()[-1].startswith("4 passed, 2 skipped in ")
