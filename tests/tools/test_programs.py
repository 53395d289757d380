"""Programs that tests call: each is known with its package, and one that is missing is named and fails no newcomer."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest
from support.places import ROOT
from support.programs import PACKAGES

ALWAYS = {"bash", "cat", "dirname", "env", "hostname", "mount", "nsenter", "sed", "sh", "sleep", "true", "unshare"}
"""Of Debian's essential packages, or of those that each system with them has."""
README = {"git", "make", "python3", "vsphere-ai"}
"""What the README asks for, or what the project comes with."""
OPTIONAL = {"ansible-playbook", "govc", "torchrun", "tmux", "mkdocs"}
"""What a benchmark compares with or a tool of the developers calls; it is left out where it is missing."""
CALLS = {f"{module}.{name}" for module in ("subprocess", "prefork") for name in ("run", "Popen", "check_output")}
FINDS = {"shutil.which", "path_of", "os.execvp"}


def called(tree):
    """Yield the programs that code calls by their names, with the line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name, first = ast.unparse(node.func), node.args[0]
        if name in CALLS and isinstance(first, (ast.List, ast.Tuple)) and first.elts:
            first = first.elts[0]
        elif name not in FINDS:
            continue
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value.rpartition("/")[2], node.lineno


@pytest.mark.parametrize("folder", ["tests", "vsphere_ai", "bench", "tools", "integrations"])
def test_every_program_that_is_called_by_its_name_is_known(folder):
    unknown = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path.is_symlink() or "examples" in path.parts:
            continue
        for program, line in called(ast.parse(path.read_text("utf-8"))):
            if program not in ALWAYS | README | OPTIONAL | set(PACKAGES):
                unknown[program] = f"{path.relative_to(ROOT)}:{line}"
    assert not unknown, "name its package in tests/support/programs.py, and mark the test with needs_program"


@pytest.mark.parametrize(
    ("code", "programs"),
    [
        ("subprocess.run(['ps', '-e'])", {"ps"}),
        ("prefork.Popen([*TOOL, 'x'])\nshutil.which('jq')", {"jq"}),
        ("subprocess.run(['/usr/bin/lsof'], check=True)", {"lsof"}),
        ("subprocess.run([sys.executable, '-c', 'ps'])\nshell.run(['nvidia-smi'])", set()),
    ],
)
def test_programs_are_found_in_code(code, programs):
    assert {program for program, _line in called(ast.parse(code))} == programs


@pytest.mark.timeout(1200)
def test_with_no_program_but_python_the_collection_names_every_other_one(tmp_path):
    """All tests are collected, as `make test` does; each program of the list is called by one of them at least."""
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        argv, cwd=ROOT, env={**environment, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    line = next(text for text in done.stdout.splitlines() if text.startswith("Skipped because"))
    assert dict(re.findall(r"([\w-]+) \(apt-get install ([^)]+)\)", line)) == PACKAGES


TESTS = """
import pytest
from support.programs import needs_program, uses_program
from support.required import required_module

@pytest.fixture
@uses_program("ssh-agent", "ssh-add")
def agent():
    raise AssertionError("not to be called without its programs")

@needs_program("zsh")
def test_shell():
    raise AssertionError("not to be called without its program")

def test_agent(agent):
    pass

def test_module():
    required_module("no_such_module", "browser")

def test_plain():
    pass
"""


@pytest.fixture
def outcome(tmp_path):
    """Run a few tests whose programs are missing; return their status and text."""

    def run(*options, **more):
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q\nmarkers = program: needs programs\n")
        (tmp_path / "test_it.py").write_text(TESTS)
        (tmp_path / "empty").mkdir()
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        environment |= {"PATH": str(tmp_path / "empty"), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", **more}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "conftest", "-c", tmp_path / "pytest.ini", *options, tmp_path],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_what_is_missing_is_skipped_and_named_in_one_line_with_its_package(outcome, options):
    status, text = outcome(*options)
    assert status == 0, text
    assert "1 passed, 3 skipped" in text
    (line,) = [line for line in text.splitlines() if line.startswith("Skipped because")]
    assert line.endswith(
        "are missing: no_such_module (pip install -e '.[browser]'), ssh-add (apt-get install openssh-client), "
        "ssh-agent (apt-get install openssh-client), zsh (apt-get install zsh)"
    )


def test_where_everything_is_installed_on_purpose_what_is_missing_is_a_failure(outcome):
    status, text = outcome(CI="true")
    assert status == 1
    assert "1 failed, 1 passed, 2 errors" in text, text
    assert "needs zsh: apt-get install zsh" in text
