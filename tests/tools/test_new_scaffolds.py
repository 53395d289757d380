"""The scaffolds: what they write passes lint, types and tests as it is written, and works in the lab."""

from __future__ import annotations

import re

import pytest
from support.places import ROOT
from support.required import required_module
from support.scaffolded import NAMES, SCAFFOLDS, Copy
from support.seeds import FULL

from tools import new_lab_manager, scaffolding
from tools.scaffolding import Generator, Insertion, Scaffold, run

OVER_ALL_MODULES = (
    "tests/test_architecture.py",
    "tests/test_measures.py",
    "tests/test_messages.py",
    "tests/compat/test_rules.py",
    "tests/compat/test_gate.py",
    "tests/compat/test_vim_types.py",
    "tests/report/test_plan_text.py",
    "tests/tools/test_schemas.py::test_a_schema_is_as_committed",
    "tests/tools/test_schemas.py::test_the_files_of_the_documentation_are_valid",
    "tests/docs/test_pages.py",
    "tests/docs/test_complete.py",
    "tests/docs/test_admission_page.py",
    "tests/docs/test_compatibility_page.py",
    "tests/lab/test_admission.py::test_every_requirement_says_when_it_is_asked_and_where_it_comes_from",
    f"tests/e2e/test_all_kinds.py::test_a_kind_alone[{NAMES['new_kind']}]",
)
"""Tests that look at everything there is, so also at what is new."""
PYTEST = ("pytest", "-q", "-p", "no:cacheprovider")
CHECKERS = ("mypy", "ruff")


def checks(written):
    """The commands of `make lint types` for files that were written."""
    python = [path for path in written if path.endswith(".py")]
    yield "ruff", "check", *python
    yield "ruff", "format", "--check", *python
    yield "mypy", *(path for path in python if path.startswith("vsphere_ai/"))


def failed(copy, commands):
    """What the commands that fail print."""
    done = [copy.python(*words) for words in commands]
    return [each.stdout[-3000:] + each.stderr[-1000:] for each in done if each.returncode]


@pytest.mark.timeout(1800)
def test_all_of_them_pass_lint_types_and_tests(tmp_path):
    for name in CHECKERS:
        required_module(name, "dev")
    copy = Copy(tmp_path)
    written = [path for program in SCAFFOLDS for path in copy.make(program)]
    own = [path for path in written if path.startswith("tests/")]
    assert not failed(copy, (*checks(written), (*PYTEST, *own, *OVER_ALL_MODULES)))


@pytest.mark.skipif(not FULL, reason="RELIABILITY=full: it runs the fast tests on each")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", SCAFFOLDS)
def test_the_fast_tests_pass_on_each(program, tmp_path):
    for name in CHECKERS:
        required_module(name, "dev")
    copy = Copy(tmp_path)
    written = copy.make(program)
    own = [path for path in written if path.startswith("tests/")]
    assert not failed(copy, (*checks(written), (*PYTEST, "--fast", "-n", "2"), (*PYTEST, *own)))


@pytest.mark.parametrize("program", SCAFFOLDS)
def test_each_says_which_lines_to_fill_in_and_writes_no_marks(program):
    scaffold = SCAFFOLDS[program]
    for path, text in scaffold.made(NAMES[program]).items():
        lines = [line.split(":")[0].strip() for line in scaffolding.to_fill_in(text)]
        assert lines, path
        assert "<<<" not in scaffolding.plain(text)
        assert len(scaffolding.plain(text).splitlines()) >= int(lines[-1])
    assert scaffold.next_steps(NAMES[program])


THERE = {
    "new_kind": "kernel",
    "new_rule": "esxi",
    "new_requirement": "swap",
    "new_command": "plan",
    "new_lab_manager": "date_time_system",
}


def stamps() -> dict[str, int]:
    """When each file of code, and each page, was written."""
    folders = (ROOT / name for name in ("vsphere_ai", "tests", "docs"))
    files = (path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".md"})
    return {str(path): path.stat().st_mtime_ns for path in files}


@pytest.mark.parametrize("program", SCAFFOLDS)
def test_what_is_there_is_not_overwritten(program, capsys):
    before = stamps()
    assert run(SCAFFOLDS[program], [THERE[program]]) == 64
    assert "already" in capsys.readouterr().err
    assert stamps() == before


@pytest.mark.parametrize("program", SCAFFOLDS)
@pytest.mark.parametrize("words", [[], ["a", "b"], ["Ntp"], ["../x"], ["n tp"], [""], ["import"]], ids=str)
def test_a_name_that_is_none_is_refused(program, words, capsys):
    assert run(SCAFFOLDS[program], words) == 64
    assert capsys.readouterr().err


def test_a_command_has_a_name_that_fits_into_the_help(capsys):
    assert run(SCAFFOLDS["new_command"], ["thirteen_long"]) == 64
    assert "write it like reachable" in capsys.readouterr().err
    assert (
        '@click.command("two-words")' in SCAFFOLDS["new_command"].made("two_words")["vsphere_ai/cli/look/two_words.py"]
    )


def test_a_manager_is_one_that_hosts_have_and_the_lab_has_not(capsys):
    assert run(SCAFFOLDS["new_lab_manager"], ["coffee_machine"]) == 64
    assert "not in the lab are: " in capsys.readouterr().err


def test_every_manager_that_the_lab_has_not_can_be_written():
    fields = new_lab_manager.missing()
    assert len(fields) > 10
    for field in fields:
        for path, text in SCAFFOLDS["new_lab_manager"].made(re.sub("(?=[A-Z])", "_", field).lower()).items():
            compile(scaffolding.plain(text), path, "exec")


def test_a_part_goes_before_its_line_and_a_printed_page_into_its_file(tmp_path, capsys):
    (tmp_path / "page.md").write_text("# Title\n\n## End\n", "utf-8")
    (tmp_path / "printing.py").write_text("print('a page')\n", "utf-8")
    scaffold = Scaffold(
        program="new_thing",
        what="a thing",
        example="thing",
        files={"$name.txt": "$Words  <<< its name\nis $words\n"},
        insertions=(Insertion("page.md", "## End", "## $Words\n\nNew.  <<< what it is\n\n"),),
        generators=(Generator("printing", page="printed.md"),),
        then=("look at $name.txt",),
    )
    assert run(scaffold, ["big_thing"], tmp_path) == 0
    assert (tmp_path / "big_thing.txt").read_text("utf-8") == "Big thing\nis big thing\n"
    assert (tmp_path / "page.md").read_text("utf-8") == "# Title\n\n## Big thing\n\nNew.\n\n## End\n"
    assert (tmp_path / "printed.md").read_text("utf-8") == "a page\n"
    assert capsys.readouterr().out.splitlines() == [
        "big_thing.txt: written", "  1: its name", "page.md: a part is new", "  5: what it is",
        "printed.md: regenerated", "Then:", "  look at big_thing.txt",
    ]  # fmt: skip
