"""Each command with --debug, with defaults of the configuration file, and with VSPHERE_AI_INVENTORY: all of them."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
import yaml
from support.command_tree import leaves, tree

from vsphere_ai.cli.console.debug import VARIABLE
from vsphere_ai.cli.console.defaults import EachTime, InventoryOption, default_map
from vsphere_ai.cli.main import command as tool
from vsphere_ai.cli.main import main

WORDS = sorted(leaves())
PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
PLAYBOOK, SETS, JOB = PLAYBOOKS / "rdma-hosts.yml", PLAYBOOKS / "hand-over.yml", PLAYBOOKS / "hand-over-job.yaml"
GIVEN: dict[str, tuple[str, ...]] = {
    "adopt": (str(SETS), "train-01"),
    "replace": (str(SETS), "train-01"),
    "fleet worker": ("tls://127.0.0.1:1",),
    "ipam release": ("--set", "train"),
    "ipam reserve": ("10.20.0.11", "--for", "a router"),
    "launch": ("-f", str(JOB)),
    "mig parted": ("--from-host", "esx01"),
    "mig plan": ("3g.20gb", "--host", "esx01"),
    "output": ("outputs.yml",),
    "render": ("-f", str(JOB)),
    **dict.fromkeys(
        (
            "render netplan",
            "render nccl-topo",
            "render network-operator",
            "render nhc",
            "render prometheus",
            "render spiderpool",
        ),
        ("vm",),
    ),
}
"""What commands need to get as far as their inventory, where that is more than a playbook or the name of a VM."""


def example_of(option: click.Option) -> object:
    """A value for an option as YAML has it, other than its default where there are two."""
    if option.is_flag:
        return True
    kind = option.type
    if isinstance(kind, click.Choice):
        return next((c for c in kind.choices if c != option.default), kind.choices[0])
    if isinstance(kind, click.IntRange | click.FloatRange):
        low = kind.min if kind.min is not None else 1
        return low + 1 if kind.max is None or low + 1 <= kind.max else (low + kind.max) / 2
    if isinstance(kind, click.Path):
        return "there.yml" if kind.exists else "some-file.yml"
    return 7 if kind in (click.INT, click.FLOAT) else "some-text"


def long_name(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def taken(words: tuple[str, ...], given: dict[str, object]) -> dict[str, object]:
    """What click has as the default of each option of a command, with defaults for it in the file that is in force."""
    top, *below = words
    defaults = default_map(top, tree()[top,], tool)
    for word in below:
        defaults = defaults.get(word) or {}
    return {name: defaults.get(name) for name in given}


@pytest.fixture
def config(tmp_path, monkeypatch):
    def write(document):
        path = tmp_path / "config.yml"
        path.write_text(yaml.safe_dump(document), "utf-8")
        monkeypatch.setenv("VSPHERE_AI_CONFIG", str(path))

    monkeypatch.delenv("VSPHERE_AI_INVENTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.yml").touch()
    (tmp_path / "outputs.yml").write_text(f"{PLAYBOOK.read_text('utf-8')}\n- outputs: {{where: here}}\n", "utf-8")
    return write


def test_every_command_logs_with_debug():
    for words in WORDS:
        debug = [p for p in leaves()[words].params if "--debug" in p.opts]
        assert [each.envvar for each in debug] == [VARIABLE], words


def test_every_option_of_every_command_takes_a_default_from_the_file(config, tmp_path):
    """Also those that are checked when they are given: the file is read, and click gets the value for the command."""
    commands, expected = {}, {}
    for words in WORDS:
        options = [p for p in leaves()[words].params if isinstance(p, click.Option) and not isinstance(p, EachTime)]
        commands[" ".join(words)] = {long_name(each): example_of(each) for each in options}
        expected[words] = {each.name: each for each in options}
    config({"commands": commands})
    wrong = []
    for words, options in expected.items():
        for name, value in taken(words, options).items():
            option = options[name]
            value = value[0] if option.multiple and isinstance(value, (list, tuple)) else value
            wanted = example_of(option)
            if option.is_flag:
                wanted = option.flag_value
            elif isinstance(option.type, click.Path):
                wanted = str(tmp_path / str(wanted))
            if value is None or str(value) != str(wanted):
                wrong.append(f"{' '.join(words)}: {name} is {value}, not {wanted}")
    assert not wrong


def test_what_is_given_each_time_is_refused_in_the_file_for_every_command(config, capsys):
    for words in WORDS:
        for option in (p for p in leaves()[words].params if isinstance(p, EachTime)):
            config({"commands": {" ".join(words): {long_name(option): example_of(option)}}})
            assert main(["vgpu", "list"]) == 65, words
            assert f"--{long_name(option)} is given each time" in capsys.readouterr().err, words


def arguments(words: tuple[str, ...], each: click.Command) -> list[str]:
    """What a command needs to get as far as its inventory."""
    given = GIVEN.get(" ".join(words)) or GIVEN.get(words[0] if len(words) > 1 else "")
    if given is not None:
        return [*given]
    needed: list[str] = []
    for parameter in each.params:
        if isinstance(parameter, click.Argument) and parameter.required:
            needed.append(str(PLAYBOOK) if isinstance(parameter.type, click.Path) else "some-vm")
        elif isinstance(parameter, click.Option) and parameter.required:
            needed += [parameter.opts[0], str(example_of(parameter))]
    return needed


def test_every_command_with_an_inventory_takes_the_one_of_the_environment(config, monkeypatch, capsys, tmp_path):
    missing = tmp_path / "elsewhere.yml"
    monkeypatch.setenv("VSPHERE_AI_INVENTORY", str(missing))
    wrong = {}
    for words in WORDS:
        inventory = [p for p in leaves()[words].params if "--inventory" in p.opts]
        if not inventory or isinstance(inventory[0], EachTime):
            continue  # a run is continued where it was
        assert isinstance(inventory[0], InventoryOption), words
        main([*words, *arguments(words, leaves()[words])])
        error = capsys.readouterr().err
        if f"there is no inventory {missing}, which VSPHERE_AI_INVENTORY names" not in " ".join(error.split()):
            wrong[" ".join(words)] = error.strip()[-300:]
    assert not wrong, json.dumps(wrong, indent=1)
