"""Help of every command: its exit codes, its examples, and the same as an explanation."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from support.command_tree import leaves, tree

from vsphere_ai.cli.console.help_examples import TRAINING, example_lines, examples_of
from vsphere_ai.cli.main import main

CODES = re.compile(r"[Ee]xits?\s+(?:with\s|\d)|[Ee]nds\s+with\s+(?:exit\s+code|\d)|exit\s+code\s+\d")


def test_every_help_names_its_exit_codes():
    assert [" ".join(words) for words, each in leaves().items() if not CODES.search(each.help or "")] == []


def test_every_command_and_group_is_explained(capsys):
    wrong = []
    for words, each in tree().items():
        code = main(["explain", *words, "-o", "json"])
        found = json.loads(capsys.readouterr().out)["found"]
        first = found[0]
        title = " ".join((each.help or "").split("\n\n")[0].split())
        if code or (first["name"], first["group"], first["title"]) != (" ".join(words), "command", title):
            wrong.append(" ".join(words))
    assert not wrong


def test_an_explanation_has_usage_options_and_what_else_has_the_name(capsys):
    assert main(["explain", "run", "show"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("run show (command)\n==================\n")
    assert "vsphere-ai run show [OPTIONS] RUN" in text
    assert "--full" in text
    assert max(map(len, text.splitlines())) <= 80
    assert main(["explain", "mig"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("mig (command)")
    assert "\nmig (kind)\n" in text


@pytest.mark.parametrize("words", [["explain", "commands"], ["explain"]])
def test_commands_are_listed(capsys, words):
    assert main([*words, "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["topics"]["command"]
    assert {"apply", "run", "explain"} <= set(listed)
    assert ("run show" in listed) == (words[1:] == ["commands"])


def test_a_misspelt_command_is_suggested(capsys):
    assert main(["explain", "run", "shwo"]) == 64
    assert "'run show'" in capsys.readouterr().err


def test_every_command_has_an_example_of_itself():
    wrong = []
    for words, command in leaves().items():
        own = ("launch", "torchrun") if words[0] == "launch" and command.callback.__name__ == "launch_mode" else words
        lines = [shlex.split(each.line) for each in examples_of(command)]
        if not lines or any(tuple(line[: len(own)]) != own for line in lines):
            wrong.append(" ".join(words))
    assert wrong == []


def test_what_more_an_example_needs_stands_above_it_in_the_help(capsys):
    for words, command in leaves().items():
        assert main([*words, "--help"]) == 0
        text = capsys.readouterr().out
        shown = text.partition("Examples:")[2].replace("\n  ", "\n").strip().splitlines()
        assert shown == example_lines(command), " ".join(words)


def test_examples_are_explained(capsys):
    assert main(["explain", "trust", "guest"]) == 0
    assert f"# needs {TRAINING}\n" in capsys.readouterr().out.replace("\n    ", "\n").replace("\n  ", "\n")
