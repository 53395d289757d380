"""Everything that can be typed is in the documentation, and the documentation names nothing that cannot be typed."""

from __future__ import annotations

import ast
import json
import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest
from support.command_tree import tree

from vsphere_ai import errors
from vsphere_ai.cli.commands import SECTIONS, commands
from vsphere_ai.cli.main import command
from vsphere_ai.cli.train.launch import MODES
from vsphere_ai.lab.faults import rule_file
from vsphere_ai.lab.guest.defects import KINDS as DEFECTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z_-]*")
NAMES = {"addresses", "locks", "set"}
"""What is called `vsphere-ai NAME` in vCenter, and is no command."""
OF_THE_TOOL = {"mig.PartedEntry"}
"""Definitions of a schema that no file has: what was read of another file, in a saved plan."""
OF_OTHERS = {
    "--query-gpu", "--format", "--transformer-impl", "--require-hashes", "--no-deps", "--standalone", "--num_nodes",
    "--devices", "--diff", "--rename", "--local_rank", "--mock-data", "--data-path",
}  # fmt: skip
"""Options of nvidia-smi, pip, launchers, Ansible and tests/recorded that pages name."""
PAGES_OF = {
    "playbook": ["playbooks.md", "variables.md", "selectors.md", "inventories.md", "kinds/*.md"],
    "inventory": ["inventories.md", "address-pools.md", "playbooks.md", "variables.md", "selectors.md"],
    "job": ["training-jobs.md", "topology.md"],
    "profile": ["health.md"],
}


@cache
def text_of(page):
    return page.read_text("utf-8")


def options(each):
    own = {o for p in each.params if isinstance(p, click.Option) for o in (*p.opts, *p.secondary_opts)}
    return own | {"--help", "-h"}


@cache
def every_option():
    return {o for each in tree().values() for o in options(each)} | {"--version"}


def spans(page):
    """The code spans of a page, and the commands of its consoles."""
    text = text_of(page)
    for fence in FENCE.finditer(text):
        if fence[1] == "console":
            yield from (line[2:] for line in fence[2].splitlines() if line.startswith("$ "))
    yield from (" ".join(span.split()) for span in CODE.findall(FENCE.sub("", text)))


def meant(words):
    """The longest command that the words begin with, and the words behind it."""
    at = max((n for n in range(1, len(words) + 1) if tuple(words[:n]) in tree()), default=0)
    if words[:2] == ["launch", "MODE"]:  # one section for all modes
        return ("launch", "torchrun"), words[2:]
    return tuple(words[:at]), words[at:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_a_command_or_an_option_that_is_not_there(page):
    wrong = []
    for span in spans(page):
        try:
            words = shlex.split(re.sub(r"'[^']*'", "QUOTED", span.replace("|", " ")))
        except ValueError:
            words = span.split()
        known = words[0] == "vsphere-ai" if words else False
        words = words[known:]
        path, rest = meant(words)
        if (
            known
            and words
            and not path
            and words[0] not in NAMES
            and re.fullmatch(r"[a-z-]+", words[0])
            and words[0] != "--version"
        ):
            wrong.append(f"{span}: no such command")
        elif known and rest and isinstance(tree().get(path), click.Group) and re.fullmatch(r"[a-z-]+", rest[0]):
            wrong.append(f"{span}: no such command below {' '.join(path)}")
        if path:
            own = options(tree()[path])
            if isinstance(tree()[path], click.Group):  # a group stands for the commands below it
                own |= {o for p, each in tree().items() if p[: len(path)] == path for o in options(each)}
            wrong += [f"{span}: no option {o}" for o in OPTION.findall(" ".join(rest)) if o not in own | OF_OTHERS]
        elif span.startswith("--"):
            wrong += [f"{span}: no option" for o in OPTION.findall(span) if o not in every_option() | OF_OTHERS]
    assert not wrong


def test_the_options_of_a_section_are_those_of_its_command():
    text = text_of(DOCS / "cli.md")
    wrong = []
    for title, section in re.findall(r"(?ms)^### `vsphere-ai ([^`]+)`\n(.*?)(?=^##|\Z)", text):
        path, _ = meant(title.split())
        assert path, f"{title} is no command"
        rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `-")]
        named = {o for row in rows for span in CODE.findall(row) for o in re.findall(r"^--?[a-z][a-z-]*", span)}
        wrong += [f"{title}: {o}" for o in sorted(named - options(tree()[path]))]
    assert not wrong


def test_the_exit_codes_are_those_of_the_tool():
    codes = {c.exit_code for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.VsphereAiError)}
    rows = re.findall(
        r"(?m)^\| (\d+) \|", text_of(DOCS / "cli.md").partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    )
    signals = {129, 130, 141, 143}
    assert sorted(map(int, rows)) == sorted({0, 2, *codes, *signals})


def test_every_variable_of_the_environment_is_documented_and_none_besides():
    read = set()
    for path in (ROOT / "vsphere_ai").rglob("*.py"):
        strings = (n.value for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant))
        read |= {s for s in strings if isinstance(s, str) and re.fullmatch(r"VSPHERE_AI_[A-Z_]+", s)}
    page = text_of(DOCS / "cli.md").partition("\n## Environment\n")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`(VSPHERE_AI_[A-Z_]+)`", page))
    # a mark of processes in guests, which is read there; and a name that is written into inventories as an example
    assert documented == read - {"VSPHERE_AI_RUN", "VSPHERE_AI_PASSWORD"}


def keys(name):
    """Keys of a schema with the definition that they are in."""
    found = set()

    def walk(part, where):
        if isinstance(part, list):
            for each in part:
                walk(each, where)
        elif isinstance(part, dict):
            for key, value in part.get("properties", {}).items():
                found.add((where, key))
                walk(value, where)
            for key, value in part.items():
                if key in ("$defs", "definitions"):
                    for title, each in value.items():
                        walk(each, title)
                elif key not in ("properties", "const", "enum", "default", "examples"):
                    walk(value, where)

    walk(json.loads(text_of(DOCS / "schemas" / f"{name}.schema.json")), "")
    return found


@pytest.mark.parametrize("name", PAGES_OF)
def test_every_key_of_a_file_is_documented(name):
    pages = [page for pattern in PAGES_OF[name] for page in DOCS.glob(pattern)]
    missing = []
    for where, key in sorted(k for k in keys(name) if k[0] not in OF_THE_TOOL):
        kind = DOCS / "kinds" / f"{where.partition('.')[0]}.md"
        here = [kind] if kind.exists() and name == "playbook" else pages
        if not any(re.search(rf"`[^`\n]*(?<![\w-]){re.escape(key)}(?![\w-])[^`\n]*`", text_of(page)) for page in here):
            missing.append(f"{where or name}: {key}")
    assert not missing, f"in {', '.join(PAGES_OF[name])}"


def test_every_command_is_listed_by_the_help_as_its_module_says():
    sources = {
        path.stem.replace("_", "-"): path.read_text("utf-8") for path in (ROOT / "vsphere_ai" / "cli").rglob("*.py")
    }
    stated = {name for name, text in sources.items() if re.search(r"^HELP_ENTRY\b", text, re.MULTILINE)}
    assert stated == set(commands()), 'a line each: HELP_ENTRY = "section", place, "text"'
    assert {words[0]: each.name for words, each in tree().items() if len(words) == 1} == {n: n for n in commands()}
    assert {entry.section for entry in commands().values()} == set(SECTIONS)


def test_a_rule_of_the_table_is_in_the_source():
    table = text_of(DOCS / "cli.md").partition("\n## Rule ids\n")[2].partition("\n## ")[0]
    ids = {i for row in re.findall(r"(?m)^\| ([^|]+) \|", table) for i in re.findall(r"`([a-z]+(?:[.-][a-z]+)*)`", row)}
    source = "\n".join(p.read_text("utf-8") for p in sorted((ROOT / "vsphere_ai").rglob("*.py")))
    assert ids
    assert [i for i in sorted(ids) if f'"{i}"' not in source and f'f"{i.partition(".")[0]}.{{' not in source] == []


VERBS = {
    "Accept", "Add", "Adopt", "Apply", "Ask", "Assess", "Benchmark", "Bring", "Calculate", "Carry", "Check", "Close",
    "Compare", "Destroy", "Explain", "Follow", "Import", "Inject", "Keep", "Launch", "Let", "List", "Look", "Make",
    "Measure", "Plant", "Print", "Put", "Read", "Recreate", "Release", "Remove", "Replace", "Report", "Revert", "Run",
    "Serve", "Show", "Start", "Stop", "Train", "Validate", "Write",
}  # fmt: skip


@pytest.mark.parametrize("words", sorted(tree()), ids=" ".join)
def test_a_help_begins_with_what_the_command_does(words):
    text = tree()[words].get_short_help_str(limit=500)
    assert text.split()[0].rstrip(",") in VERBS, "imperative, as the others"
    assert text.endswith("."), text
    assert text.split()[0] != "Check" or words in {("check",), ("mig", "parted")}, "decision 24 has the words"


def test_the_list_of_commands_fits_into_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with click.Context(command, info_name="vsphere-ai", max_content_width=80, terminal_width=80) as context:
        listed = command.get_help(context).partition("Set up:")[2].splitlines()
    rows = [line for line in listed if line.startswith("  ")]
    assert len(rows) == len(commands()), "a text of a line each"
    assert [name for name, entry in commands().items() if len(entry.text) > 64] == [], "no room for names of 12 letters"


def test_every_fault_of_the_lab_is_documented():
    page = text_of(DOCS / "faults.md")
    spans = set(re.findall(r"[a-z0-9-]+", " ".join(CODE.findall(FENCE.sub("", page)))))
    assert {*rule_file.WORDS, *rule_file.NOT_METHODS} - spans == set()


def test_every_defect_of_the_lab_is_documented():
    page = text_of(DOCS / "health.md").partition("Defects of the lab")[2]
    assert [kind for kind in DEFECTS if not re.search(rf"`[^`\n]*(?<![\w-]){kind}(?![\w-])[^`\n]*`", page)] == []


def test_every_mode_of_a_job_is_documented():
    page = text_of(DOCS / "training-jobs.md")
    assert [mode for mode in MODES if f"| `{mode}` |" not in page] == []
