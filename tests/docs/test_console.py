"""What README and docs show is what the tool prints: every console block is carried out against a lab.

A block says in its first line what is special: ``exit=2`` (of its last command), or ``norun: REASON``. A line ``...``
stands for any lines. YAML blocks say what they are (playbook, inventory, scenario); ``name=FILE`` writes them where
the commands run. After a change of the tool's output, ``UPDATE_DOCS=1 pytest tests/docs`` writes it into the pages.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import prefork
from support.gates import LONG
from support.labs import started
from support.steady import steady

from tools.page_blocks import Block, blocks
from vsphere_ai.app.training.launch.job import load_job
from vsphere_ai.cli.console.defaults import known_options
from vsphere_ai.cli.main import command as tool
from vsphere_ai.lab import scenario_file
from vsphere_ai.lab.faults import rule_file
from vsphere_ai.lab.front import process
from vsphere_ai.language.configuration import load_configuration
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.yaml_files.document import FaultCollector, load, parse_stream, text_of
from vsphere_ai.resources import kinds

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ANY = "..."
STATE = "~/.local/state/vsphere-ai"
COMMANDS = ("vsphere-ai", "cat", "cp", "grep", "sed")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def alike(expected: list[str], actual: list[str]) -> bool:
    """Compare lines; ``...`` in what is expected stands for any number of lines."""
    if not expected:
        return not actual
    if expected[0] == ANY:
        return any(alike(expected[1:], actual[at:]) for at in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and alike(expected[1:], actual[1:])


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (["a", ANY, "z"], ["a", "b", "z"], True),
        (["a", ANY], ["a"], True),
        (["a", ANY, "z"], ["a", "b"], False),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
    ],
)
def test_lines_are_compared(expected, actual, same):
    assert alike(expected, actual) is same


class Shell:
    """Carries out the commands of one page in a folder with the playbooks and inventories of this repository."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder / "project", folder / "state"
        for part in ("playbooks", "inventories"):
            shutil.copytree(ROOT / part, self.folder / part)
        (self.folder / ".git").mkdir()
        self.environment = {**os.environ, "COLUMNS": "100", "VSPHERE_AI_STATE_DIR": str(self.state), "NO_COLOR": "1"}

    def run(self, line: str) -> tuple[int, str]:
        words = shlex.split(line)
        assert words[0] in COMMANDS, f"only {', '.join(COMMANDS)} can be carried out here, not {words[0]}"
        if words[0] != COMMANDS[0]:
            words = [word.replace(STATE, str(self.state)) for word in words]
            took = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
            return took.returncode, took.stdout + took.stderr
        done = prefork.run(
            [sys.executable, "-m", "vsphere_ai", *words[1:]],
            cwd=self.folder,
            env=self.environment,
            stdout=prefork.PIPE,
            stderr=prefork.STDOUT,
            text=True,
            timeout=LONG,
        )
        return done.returncode, done.stdout


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.delenv("VSPHERE_AI_LAB_DIR", raising=False)
    shell = Shell(tmp_path)
    yield shell
    process.stop(shell.state / "lab")


@pytest.mark.lab
@pytest.mark.parametrize("page", [p for p in PAGES if any(block.runs for block in blocks(p))], ids=name_of)
def test_the_commands_of_a_page_print_what_it_shows(page, shell, quick_scenario):
    found = blocks(page)
    if not any("lab up" in block.body for block in found if block.runs):
        started(shell.state / "lab", quick_scenario)
    printed: list[tuple[Block, str]] = []
    for block in found:
        if block.file_name:
            (shell.folder / block.file_name).write_text(block.body, "utf-8")
        if block.runs:
            printed.append((block, carried_out(block, shell, page)))
    if os.environ.get("UPDATE_DOCS"):
        text = page.read_text("utf-8")
        for block, new in reversed(printed):
            text = text[: block.span[0]] + new + text[block.span[1] :]
        page.write_text(text, "utf-8")


def carried_out(block: Block, shell: Shell, page: Path) -> str:
    """Carry out a block; return it with what was printed."""
    now: list[str] = []
    for number, command in enumerate(block.commands, 1):
        code, output = shell.run(command.line)
        wanted = block.exit_code if number == len(block.commands) else 0
        assert code == wanted, f"{name_of(page)}: {command.line} ended with {code}\n{output}"
        printed, expected = steady(output, ((shell.state, STATE),)), steady("\n".join(command.expected))
        same = alike(expected, printed)
        update = bool(os.environ.get("UPDATE_DOCS"))
        assert same or (update and ANY not in expected), f"{name_of(page)}: {command.line} printed\n{output}"
        now += [f"$ {command.line}", *(command.expected if same else printed)]
    return "".join(f"{line}\n" for line in now)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_not_carried_out_says_why(page):
    for block in blocks(page):
        if block.language in ("console", "sh", "bash", "shell"):
            assert block.language == "console", f"write ```console, so that it is carried out: {block.body}"
            assert block.runs or len(block.info.removeprefix("norun:").strip()) > 10


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_yaml_block_is_read(page, tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path))
    connection = "vcenters: {lab: {address: 127.0.0.1, username: u, password: 'file:password'}}\n"
    (tmp_path / "connection.yml").write_text(connection)
    readers = {
        "playbook": lambda path: load_playbook(path, kinds()),
        "inventory": load_inventory,
        "job": load_job,
        "scenario": scenario_file.load,
        "configuration": lambda path: load_configuration(path, known_options(tool, path.parent)),
        "faults": rule_file.load,
        "broken": lambda path: load(path, FaultCollector()),
        "values": lambda path: load(path, FaultCollector()),
        "including": lambda path: load(path, FaultCollector()),  # a playbook: what it includes is not beside the block
        "manifest": lambda path: parse_stream(text_of(path), path.name, FaultCollector()),
        "ansible": lambda path: parse_stream(text_of(path), path.name, FaultCollector()),
        "ci": lambda path: parse_stream(text_of(path), path.name, FaultCollector()),
    }
    for block in blocks(page):
        if block.language == "yaml":
            kind = block.info.split()[0] if block.info else ""
            assert kind in readers, f"say what it is (```yaml playbook): {block.body}"
            (tmp_path / "block.yml").write_text(block.body, "utf-8")
            readers[kind](tmp_path / "block.yml")
