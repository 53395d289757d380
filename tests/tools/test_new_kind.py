"""The template of a new kind: its files pass lint, types and the tests, and work in the lab, as they are written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.gates import LONG

from tools.new_kind import files, main

ROOT = Path(__file__).parents[2]
COPIED = ("vsphere_ai", "tools", "tests", "docs", "playbooks", "inventories", ".mypy_cache")
NAME = "power_saving"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of the repository with a new kind, and how to run a module of Python in it."""
    copy = tmp_path_factory.mktemp("new") / "copy"
    copy.mkdir()
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, copy)
        elif path.name in COPIED:
            shutil.copytree(
                path, copy / path.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "cassettes")
            )

    def python(*words):
        places = {"PYTHONPATH": str(copy), "VSPHERE_AI_LAB_DIR": "", "PYTEST_ADDOPTS": ""}
        return subprocess.run(
            [sys.executable, "-m", *words], cwd=copy, env={**os.environ, **places}, capture_output=True, text=True,
            timeout=5 * LONG,  # it runs hundreds of tests
        )  # fmt: skip

    made = python("tools.new_kind", NAME)
    assert made.returncode == 0, made.stderr
    return copy, python


@pytest.mark.skipif(
    find_spec("ruff") is None or find_spec("mypy") is None, reason="`make architecture` installs ruff and mypy"
)
def test_it_passes_lint_and_types(repository):
    copy, python = repository
    written = [path for path in files(NAME) if path.endswith(".py")]
    assert len(written) == 3
    for words in (("ruff", "check", *written), ("ruff", "format", "--check", *written), ("mypy", *written[:2])):
        done = python(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert f"(kinds/{NAME}.md)" in (copy / "docs" / "index.md").read_text("utf-8")
    assert f"`{NAME}`" in (copy / "docs" / "security.md").read_text("utf-8")


@pytest.mark.timeout(1800)
def test_it_passes_the_tests_and_works_in_the_lab(repository):
    _, python = repository
    own = (f"tests/resources/test_{NAME}.py", "tests/test_architecture.py", "tests/docs/test_pages.py")
    for words in (own, ("tests/e2e/test_all_kinds.py", "-k", NAME)):
        done = python("pytest", "-q", "-x", "-p", "no:cacheprovider", *words)
        assert done.returncode == 0, done.stdout[-3000:]


def test_a_kind_that_is_there_is_not_overwritten(capsys):
    before = (ROOT / "vsphere_ai" / "resources" / "kernel.py").read_text("utf-8")
    assert main(["kernel"]) == 64
    assert "vsphere_ai/resources/kernel.py" in capsys.readouterr().err
    assert (ROOT / "vsphere_ai" / "resources" / "kernel.py").read_text("utf-8") == before


@pytest.mark.parametrize("words", [[], ["a", "b"], ["Ntp"], ["../x"], ["n tp"], [""]])
def test_a_name_that_is_none_is_refused(words, capsys):
    assert main(words) == 64
    assert capsys.readouterr().err
