"""What `.ci/run` and the Makefile run is there: every target, every file, and the tests on the oldest pyVmomi."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from support.places import ROOT

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"(?m)^([a-z][a-z0-9-]*)(?: [a-z-]+)*:(?!=)", MAKEFILE))
NEEDED = {"test", "test-oldest-pyvmomi", "lint", "types", "architecture", "demo"}
"""What has to pass before a change goes in."""


def made(script):
    """The targets that a shell script makes, in commands that are not commented out."""
    lines = (line.strip() for line in script.splitlines() if not line.strip().startswith("#"))
    calls = (re.search(r"(?:^|[;&|!] ?|\bif ! |\bif )make ([^|;&<>]*)", line) for line in lines)
    return {word for call in calls if call for word in call[1].split() if re.fullmatch("[a-z][a-z-]*", word)}


def test_ci_runs_what_has_to_pass_and_nothing_that_is_not_there():
    """The newcomer's commands are a script of their own, which the other one calls."""
    texts = [(ROOT / ".ci" / name).read_text("utf-8") for name in ("run", "newcomer")]
    assert ".ci/newcomer " in texts[0]
    found = set().union(*map(made, texts))
    assert found >= NEEDED, f"not run: {sorted(NEEDED - found)}"
    assert found <= TARGETS


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("make test", {"test"}),
        ("# make test\nmake lint types", {"lint", "types"}),
        ('if ! make test 2>&1 | tee "$x"; then', {"test"}),
        ("make test JOBS=0 PYTEST_ARGS='--last-failed'", {"test"}),
        ("echo cmake test", set()),
    ],
)
def test_targets_are_found_in_a_script(script, found):
    assert made(script) == found


@pytest.mark.parametrize("name", ["run", "newcomer"])
def test_ci_fails_where_a_command_fails(name):
    assert "set -euo pipefail" in (ROOT / ".ci" / name).read_text("utf-8")


@pytest.mark.parametrize("target", ["test", "test-fast", "test-oldest-pyvmomi", "test-reliability"])
def test_the_files_that_a_target_tests_are_there(target):
    make = shutil.which("make")
    assert make is not None
    shown = subprocess.run([make, "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = set(re.findall(r"(?<!\S)tests/[\w/.]+", shown))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert "pytest" in shown
    if target == "test-oldest-pyvmomi":
        assert "PYTHONPATH=" in shown
        assert {"tests/recorded", "tests/thirdparty/test_old_pyvmomi.py", "tests/connect/test_plain.py"} <= paths


QUIET = shlex.split(re.search(r"(?m)^QUIET := (.*)$", MAKEFILE)[1])


@pytest.mark.parametrize(("options", "warns"), [(QUIET, False), (QUIET[:1], True)], ids=["as in make", "with less"])
def test_pip_shows_errors_and_does_not_warn_of_places_that_are_not_there(tmp_path, options, warns):
    argv = [sys.executable, "-m", "pip", *options, "install", "--no-index", "--find-links", (tmp_path / "no").as_uri()]
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run([*argv, "not-there"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No matching distribution found for not-there" in done.stderr
    assert ("WARNING" in done.stderr) == warns, done.stderr


def test_every_installation_of_make_is_quiet():
    lines = [line for line in MAKEFILE.splitlines() if re.search(r"-m pip\b", line)]
    assert len(lines) >= 6
    assert [line for line in lines if "$(QUIET) install" not in line] == []
