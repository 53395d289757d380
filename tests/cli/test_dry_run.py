"""`--dry-run`: every command has it that does not declare to change nothing."""

from __future__ import annotations

import pytest
from support.command_tree import leaves, options, tree

from vsphere_ai.cli.main import main


def declared(each, name):
    """What a command declares of itself, by `changes_nothing` or `previewed_by`."""
    return each.callback.__dict__.get(name)


def test_every_command_changes_nothing_or_can_be_tried_out():
    wrong = []
    for words, each in leaves().items():
        ways = (
            "--dry-run" in options(words),
            bool(declared(each, "changes_nothing")),
            bool(declared(each, "previewed_by")),
        )
        if sum(ways) != 1:
            wrong.append(" ".join(words))
    assert not wrong, "@dry_run_option, or @changes_nothing, and not both"


def test_what_is_previewed_elsewhere_names_a_command_with_the_option():
    for each in leaves().values():
        if text := declared(each, "previewed_by"):
            *words, option = text.split()
            assert option in options(tuple(words)), text


def test_what_takes_a_lock_or_confirms_a_disruption_changes_something():
    confirming = {"--lock", "--destroy", "--reboot"}
    wrong = [w for w, each in leaves().items() if declared(each, "changes_nothing") and options(w).keys() & confirming]
    assert not wrong


def test_the_option_has_one_help_and_no_command_gets_it_as_an_argument():
    found = [options(words)["--dry-run"] for words in tree() if "--dry-run" in options(words)]
    assert len({option.help for option in found}) == 1
    assert not [option for option in found if option.expose_value]


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("VSPHERE_AI_LAB_DIR", raising=False)
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_not_installed(home, capsys, shell):
    assert main(["completion", "install", shell, "--dry-run"]) == 0
    path = capsys.readouterr().out.split()[0]
    assert path.startswith(str(home))
    assert not list(home.iterdir())
    assert main(["completion", "install", shell]) == 0
    assert main(["completion", "install", shell, "--dry-run"]) == 0
    assert f"{path} would be replaced." in capsys.readouterr().out


def test_certificates_are_not_made(home, capsys):
    folder = home / "certs"
    assert main(["fleet", "certificates", str(folder), "site-a", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("would be made") == 2
    assert not folder.exists()
    assert main(["fleet", "certificates", str(folder), "site-a"]) == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert main(["fleet", "certificates", str(folder), "site-b", "--dry-run"]) == 0
    authority, made = capsys.readouterr().out.splitlines()
    assert " kept, " in authority
    assert "site-b.pem  would be made" in made
    assert main(["fleet", "certificates", str(folder), "site-a", "--dry-run"]) == 3, "it is there already"
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_lab_is_not_started(home, capsys):
    assert main(["lab", "up", "--scenario", "training", "--dry-run"]) == 0
    assert "would start" in capsys.readouterr().out
    assert main(["lab", "down", "--dry-run"]) == 0
    assert "No lab is running." in capsys.readouterr().out
    assert main(["lab", "up", "--scenario", "none-such", "--dry-run"]) == 64
    assert not list(home.iterdir())
