"""`-o FORM`: one name in all commands; YAML has what JSON has, and names are those of the JSON document."""

from __future__ import annotations

import json

import click
import pytest
import yaml
from support.command_tree import leaves, options

from vsphere_ai.cli.console import forms
from vsphere_ai.cli.main import main
from vsphere_ai.report.other_forms import names_in, yaml_text

DOCUMENTS = {
    "a list of boards": ("vgpu", "list"),
    "one board": ("vgpu", "list", "a16-16gb"),
    "layouts": ("mig", "layouts", "a100-40gb"),
    "what does not fit": ("mig", "explain", "7,7,7", "--gpu", "a100-40gb"),
    "sizes": ("calculate", "checkpoint", "--params", "175B", "--rate", "19.2GB/s"),
    "an explanation": ("explain", "mig.layout"),
    "runs": ("run", "list"),
}


@pytest.fixture
def printed(capsys):
    def run(*words):
        code = main(list(words))
        out, err = capsys.readouterr()
        assert not err
        return code, out

    return run


@pytest.mark.parametrize("words", DOCUMENTS.values(), ids=DOCUMENTS)
def test_yaml_has_the_values_of_json_in_its_order(printed, words):
    code, as_json = printed(*words, "-o", "json")
    same, as_yaml = printed(*words, "--output", "yaml")
    assert as_yaml.startswith("---\nschema_version: 1\n")
    assert json.dumps(yaml.safe_load(as_yaml)) == json.dumps(json.loads(as_json))
    assert same == code


def test_names_are_those_of_the_document_one_per_line(printed):
    boards = json.loads(printed("vgpu", "list", "-o", "json")[1])["boards"]
    assert printed("vgpu", "list", "-o", "name")[1] == "".join(f"{board['board']}\n" for board in boards)
    groups = json.loads(printed("explain", "-o", "json")[1])["topics"]
    names = printed("explain", "-o", "name")[1].splitlines()
    assert names == [name for group in groups.values() for name in group]
    assert "mig" in names


def test_a_name_is_refused_where_nothing_is_listed(capsys):
    assert main(["mig", "layouts", "a100-40gb", "-o", "name"]) == 64
    assert "'text', 'json', 'yaml'" in capsys.readouterr().err


def test_a_refused_command_ends_its_stream_in_yaml_too(capsys, tmp_path):
    words = ["apply", str(tmp_path / "none.yml"), "-i", str(tmp_path / "none.yml")]
    assert main([*words, "-o", "json"]) == 64
    as_json = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main([*words, "-o", "yaml"]) == 64
    as_yaml = list(yaml.safe_load_all(capsys.readouterr().out))
    assert as_yaml == as_json
    assert [each["type"] for each in as_yaml] == ["run", "summary"]


def test_each_document_of_a_stream_is_written_when_it_is_whole(capsys):
    forms.rewrite("yaml", "")
    try:
        click.echo('{"type": "header", "text": "yes"}')
        assert capsys.readouterr().out == "---\ntype: header\ntext: 'yes'\n"
        click.echo('{\n  "type": [\n', nl=False)
        assert capsys.readouterr().out == ""
        click.echo('    1]}\nnot a document\n{"cut', nl=False)
        assert capsys.readouterr().out == "---\ntype:\n- 1\nnot a document\n"
    finally:
        forms.end()
    assert capsys.readouterr().out == '{"cut', "nothing is lost"


def test_what_yaml_would_take_for_another_value_is_quoted():
    document = {
        "a": "0123",
        "b": "null",
        "c": ["1e3", "é", "a: b", ""],
        "d": {"x": 1},
        "e": {"x": 1},
        "f": "two\nlines",
    }
    assert yaml.safe_load(yaml_text(document)) == document
    shared = {"x": 1}
    assert "&" not in yaml_text({"a": shared, "b": shared})


def test_a_document_without_the_list_has_no_names():
    assert list(names_in({"hosts": [{"host": "a"}, {"host": None}, {"other": "b"}]}, "hosts.host")) == ["a"]
    assert list(names_in({"hosts": None}, "hosts.host")) == list(names_in([], "hosts.host")) == []


def test_every_command_prints_a_document_or_says_what_it_prints():
    wrong = []
    for words, each in leaves().items():
        form = options(words).get("-o")
        has_document = form is not None and {"json", "html", "playbook"} & set(form.type.choices)
        if bool(has_document) == bool(each.callback.__dict__.get("prints_only")):
            wrong.append(" ".join(words))
    assert not wrong, "@output_option(), or @prints_only, and not both"


def test_forms_and_files_have_one_name_in_all_commands():
    wrong = []
    for words in leaves():
        named = options(words)
        form, file = named.get("-o"), named.get("--to")
        if form is not named.get("--output") or (form and form.name != "form"):
            wrong.append(f"{' '.join(words)}: -o is not --output FORM")
        if (
            form
            and isinstance(form.type, click.Choice)
            and ("json" in form.type.choices) > ("yaml" in form.type.choices)
        ):
            wrong.append(f"{' '.join(words)}: JSON without YAML")
        if file and not isinstance(file.type, click.Path):
            wrong.append(f"{' '.join(words)}: --to is no file")
        wrong += [f"{' '.join(words)}: {old}" for old in ("--format", "--out", "--file", "--write-to") if old in named]
    assert not wrong
