"""Section `notify:` of inventories: who is notified where no option says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.model.records.notify_request import NotifyRequest

VCENTER = "vcenters: {a: {address: a, username: u, password: 'env:P'}}\n"


def loaded(tmp_path, text):
    (tmp_path / "i.yml").write_text(VCENTER + text)
    return load_inventory(tmp_path / "i.yml")


def test_it_is_the_request_of_a_command_without_options(tmp_path):
    inventory = loaded(tmp_path, "notify: {command: 'apprise -t x', webhook: 'file:hooks/url', secret: 'file:key'}\n")
    path = tmp_path / "i.yml"
    expected = NotifyRequest("apprise -t x", f"file:{tmp_path}/hooks/url", f"file:{tmp_path}/key", path, path)
    assert inventory.notify_request == expected
    assert loaded(tmp_path, "").notify_request == NotifyRequest()


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("{command: ' '}", 19, "contains no program"),
        ('{command: "a \'b"}', 19, "cannot be split"),
        ("{command: [a, b]}", 19, "expected text, but this is a list"),
        ("{webhook: 'http://hooks.example.com/T0KEN'}", 19, "without encryption"),
        ("{webhook: 'https://user:T0KEN@hooks.example.com/'}", 19, "a user or a password"),
        ("{webhook: 'T0KEN'}", 19, "is not a URL"),
        ("{webhook: 'env:NOT-A-NAME'}", 19, "is not a URL"),
        ("{webhook: 'https://hooks.example.com/', secret: T0KEN}", 57, "a secret must not be in the file"),
        ("{command: a, secret: 'env:KEY'}", 9, "signs what a webhook gets"),
        ("{}", 9, "no one to notify"),
        ("{comand: a}", 10, "command"),
        ("[a]", 9, "expected a mapping"),
    ],
)
def test_faults_have_a_place_and_repeat_no_secret(tmp_path, text, column, message):
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, f"notify: {text}\n")
    [fault] = caught.value.diagnostics
    assert (Path(fault.mark.file).name, fault.mark.line, fault.mark.column) == ("i.yml", 2, column)
    assert message in f"{fault.message} {fault.help}"
    assert fault.help
    assert "T0KEN" not in f"{fault.message} {fault.help} {fault.excerpt}"


OF_INVENTORY = NotifyRequest("program", "https://a.example.com/", "env:KEY", Path("i.yml"), Path("i.yml"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (NotifyRequest(), OF_INVENTORY),
        (
            NotifyRequest("mine"),
            NotifyRequest("mine", "https://a.example.com/", "env:KEY", Path("i.yml"), Path("i.yml")),
        ),
        (NotifyRequest("", "https://b.example.com/"), NotifyRequest("program", "https://b.example.com/")),
        (
            NotifyRequest("", "", "env:MY_KEY"),
            NotifyRequest("program", "https://a.example.com/", "env:MY_KEY", Path("i.yml"), None),
        ),
    ],
    ids=["nothing", "a command", "a webhook, without the other's secret", "a secret for the inventory's webhook"],
)
def test_options_win(options, expected):
    assert options.over(OF_INVENTORY) == expected
    assert options.over(NotifyRequest()) == options


def test_of_the_lab_it_is_the_inventorys_own(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "lab"))
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "connection.yml").write_text(VCENTER)
    (tmp_path / "i.yml").write_text("lab: true\nnotify: {command: program}\n")
    assert load_inventory(tmp_path / "i.yml").notify_request.notify_command == "program"
