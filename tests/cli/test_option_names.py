"""One name for one thing in all commands: playbooks, sets, files, short names."""

from __future__ import annotations

import ast
from collections import defaultdict

import click
import pytest
from support.command_tree import leaves, options
from support.places import ROOT

SOURCES = ROOT / "vsphere_ai" / "cli"


def every_option():
    """Yield each option once, with the words of its command."""
    for words in leaves():
        for option in {id(o): o for o in options(words).values()}.values():
            yield " ".join(words), option


def long_name(option):
    return max(option.opts, key=len)


def test_a_playbook_is_an_argument():
    wrong = [f"{words}: {long_name(o)}" for words, o in every_option() if "PLAYBOOK" in (o.metavar or "")]
    assert not wrong
    assert not [words for words, o in every_option() if long_name(o) == "--playbook"]


def test_a_set_of_a_playbook_is_named_by_one_option():
    wrong = [f"{words}: {long_name(o)}" for words, o in every_option() if "Set of the playbook" in (o.help or "")]
    assert [each for each in wrong if not each.endswith(": --set")] == []
    assert len(wrong) > 4


def declarations():
    """Yield each `click.option(...)` of the sources: its long name, its text of help, and its place."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "click.option":
                name = next(a.value for a in node.args if str(getattr(a, "value", "")).startswith("--"))
                text = next((ast.unparse(k.value) for k in node.keywords if k.arg == "help"), "")
                yield (name, text), f"{path.relative_to(SOURCES)}:{node.lineno}"


def test_an_option_is_declared_once():
    """The same name with the same help is the same option: it stands in one place, which its commands share."""
    places = defaultdict(list)
    for option, place in declarations():
        places[option].append(place)
    assert len(places) > 150
    assert {option: found for option, found in places.items() if len(found) > 1 and option[1]} == {}


def test_a_short_name_stands_for_one_long_name():
    names = defaultdict(set)
    for _, option in every_option():
        for short in (name for name in option.opts if not name.startswith("--")):
            names[short].add(long_name(option))
    assert {short: long for short, long in names.items() if len(long) > 1} == {}
    assert names["-o"] == {"--output"}
    assert names["-i"] == {"--inventory"}


def test_a_number_and_a_text_have_no_name_in_common():
    """`--size 4096` and `--size 2TiB` would be two meanings of one name."""
    numbers, texts = defaultdict(list), defaultdict(list)
    for words, option in every_option():
        if option.is_flag:
            continue
        if isinstance(option.type, (click.types.IntParamType, click.types.FloatParamType)):
            numbers[long_name(option)].append(words)
        elif not isinstance(option.type, click.Choice):
            texts[long_name(option)].append(words)
    assert {name: (numbers[name], texts[name]) for name in numbers.keys() & texts.keys()} == {}
    flags = {long_name(o) for _, o in every_option() if o.is_flag}
    assert {name: numbers[name] for name in numbers.keys() & flags} == {}


def test_where_a_document_is_written_is_one_option():
    """A folder or a file: what a command writes there is its document."""
    old = {"--dir", "--copy", "--out", "--write-to", "--output-file"}
    assert [f"{words}: {long_name(o)}" for words, o in every_option() if old & set(o.opts)] == []


@pytest.mark.parametrize("name", ["--learn", "--check", "--to", "--profile", "--baseline"])
def test_what_names_a_file_or_folder_is_no_switch_anywhere(name):
    found = {" ".join(words): options(words)[name] for words in leaves() if name in options(words)}
    assert found
    assert [words for words, option in found.items() if option.is_flag or not isinstance(option.type, click.Path)] == []
