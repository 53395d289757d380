"""The user's configuration file and VSPHERE_AI_INVENTORY: defaults for options, with the place of every fault."""

from __future__ import annotations

import json

import click
import pytest
from support.command_tree import tree

from vsphere_ai.cli.console.defaults import EachTime
from vsphere_ai.cli.main import command, main

POOLS = """vcenters: {vc: {address: a.example, username: u, password: env:P}}
pools: {%s: {subnet: 10.0.0.0/24}}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Write the file that VSPHERE_AI_CONFIG names; return its path."""
    monkeypatch.delenv("VSPHERE_AI_INVENTORY", raising=False)
    monkeypatch.chdir(tmp_path)

    def write(text):
        path = tmp_path / "config.yml"
        path.write_text(text, "utf-8")
        monkeypatch.setenv("VSPHERE_AI_CONFIG", str(path))
        return path

    return write


@pytest.fixture
def run(capsys):
    def run(*words):
        code = main(list(map(str, words)))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def pools(tmp_path, monkeypatch):
    """Three inventories by the name of the pool that each has."""
    monkeypatch.delenv("VSPHERE_AI_INVENTORY", raising=False)
    for name in ("first", "second", "third"):
        (tmp_path / f"{name}.yml").write_text(POOLS % name, "utf-8")
    return tmp_path


def test_an_option_of_all_commands_is_taken_where_a_command_takes_the_value(config, run):
    config("options: {output: name}\n")
    assert run("vgpu", "list", "a16-16gb")[1] == "a16-16gb\n"
    assert run("mig", "layouts", "a16-16gb") == (0, "NVIDIA A16 (four GPUs), A2 16GB has no MIG.\n", ""), "no names"


def test_what_is_given_goes_before_the_command_its_group_and_all(config, run):
    config(
        "options: {output: name}\ncommands:\n  mig: {output: json, gpu: a100-40gb}\n  mig explain: {gpu: a30-24gb}\n"
    )
    assert json.loads(run("mig", "explain", "1g.6gb")[1])["board"] == "a30-24gb"
    assert json.loads(run("mig", "explain", "1g.5gb", "--gpu", "a100-40gb")[1])["board"] == "a100-40gb"
    assert not run("mig", "explain", "1g.6gb", "-o", "text")[1].startswith("{")
    assert json.loads(run("mig", "plan", "1g.5gb")[1])["board"] == "a100-40gb"


def test_every_fault_of_the_file_is_shown_with_its_place_and_what_would_work(config, run):
    path = config(
        "options:\n  inventroy: a.yml\n  parallel: many\n  yes: true\n  full: 1\n  limit: [a, b]\n  -o: json\n"
        "commands:\n  aply: {lock: local}\n  check: {budget: 2}\n  apply: {lock: 3}\nother: 1\n"
    )
    code, out, err = run("vgpu", "list")
    assert (code, out) == (65, "")
    for place, message in {
        "2:3": "unknown option 'inventroy'",
        "3:13": "parallel: 'many' is not a valid integer range",
        "4:3": "--yes is given each time",
        "5:9": "full: true or false is needed",
        "6:10": "limit: one value is needed, not a list",
        "7:3": "unknown option '-o'",
        "9:3": "there is no command 'aply'",
        "10:11": "unknown option 'budget'",
        "11:17": "lock: '3' is not one of 'none', 'local', 'vcenter'",
        "12:1": "unknown key 'other'",
    }.items():
        assert f"{path}:{place}  error  {message}" in err
    for help in ("did you mean 'inventory'", "did you mean 'apply'", "remove it, and give it on the command line"):
        assert help in err
    assert "10 errors" in err


@pytest.mark.parametrize("text", ["", "options:\n", "commands:\n  apply:\n"])
def test_an_empty_file_or_section_sets_nothing(config, run, text):
    config(text)
    assert run("vgpu", "list", "a16-16gb")[0] == 0


@pytest.mark.parametrize("text", ["- a\n", "options: 3\n", "commands: [apply]\n", "options: {full: }\n"])
def test_what_is_no_mapping_is_refused(config, run, text):
    path = config(text)
    code, _, err = run("vgpu", "list")
    assert code == 65
    assert f"{path}:1:" in err


def test_help_is_shown_whatever_is_in_the_file(config, run):
    config("options: {nothing: 1}\n")
    assert run("plan", "--help")[0] == 0


def test_a_file_that_is_named_has_to_be_there_and_an_empty_name_means_none(run, monkeypatch, tmp_path):
    monkeypatch.setenv("VSPHERE_AI_CONFIG", str(tmp_path / "none.yml"))
    code, _, err = run("vgpu", "list")
    assert code == 64
    assert f"there is no configuration file {tmp_path / 'none.yml'}" in err
    monkeypatch.setenv("VSPHERE_AI_CONFIG", "")
    assert run("vgpu", "list")[0] == 0


def test_the_file_of_the_user_is_found_unless_others_may_write_it(run, monkeypatch, tmp_path):
    monkeypatch.delenv("VSPHERE_AI_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "vsphere-ai" / "config.yml"
    path.parent.mkdir()
    path.write_text("options: {output: name}\n", "utf-8")
    assert run("vgpu", "list", "a16-16gb")[1] == "a16-16gb\n"
    path.chmod(0o666)
    code, _, err = run("vgpu", "list")
    assert code == 64
    assert f"the configuration file {path} was not named, and {path} can be changed by others" in err
    monkeypatch.setenv("VSPHERE_AI_CONFIG", str(path))
    assert run("vgpu", "list", "a16-16gb")[1] == "a16-16gb\n"


def test_the_inventory_is_the_given_one_else_that_of_the_environment_else_that_of_the_file(
    config, pools, run, monkeypatch
):
    def pool(*words):
        code, out, err = run("ipam", "list", "-o", "name", *words)
        assert code == 0, err
        return out.strip()

    config("options: {inventory: third.yml}\n")
    monkeypatch.chdir("/")
    assert pool() == "third", "a path of the file is relative to its folder"
    monkeypatch.setenv("VSPHERE_AI_INVENTORY", str(pools / "second.yml"))
    assert pool() == "second"
    assert pool("-i", pools / "first.yml") == "first"
    monkeypatch.delenv("VSPHERE_AI_INVENTORY")
    monkeypatch.setenv("VSPHERE_AI_CONFIG", "")
    code, _, err = run("ipam", "list")
    assert code == 64, "that of the file is forgotten with it"
    assert "give one with -i or VSPHERE_AI_INVENTORY" in err


def test_an_error_names_what_named_the_inventory(config, run, monkeypatch, tmp_path):
    path = config("commands: {ipam: {inventory: none.yml}}\n")
    assert f"there is no inventory {tmp_path / 'none.yml'}, which {path} names" in run("ipam", "list")[2]
    monkeypatch.setenv("VSPHERE_AI_INVENTORY", "other.yml")
    assert "there is no inventory other.yml, which VSPHERE_AI_INVENTORY names" in run("ipam", "list")[2]


def test_what_confirms_is_no_default_of_any_command():
    """A file that is forgotten must not answer a question."""
    confirming = {"--yes", "--destroy", "--reboot", "--reboot-again", "--force"}
    wrong = [
        f"{' '.join(words)}: {name}"
        for words, each in tree().items()
        for option in each.params
        for name in option.opts
        if name in confirming and not isinstance(option, EachTime)
    ]
    assert not wrong
    assert isinstance(command, click.Group)
