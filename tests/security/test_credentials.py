"""Where passwords come from: programs, key rings and the terminal, beside the environment and files."""

from __future__ import annotations

import os
import pty
import sys
import time
import types

import pytest
from support.gates import busy, until
from support.processes import runs
from support.raising import refused

from vsphere_ai.security import credentials
from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.secret_ref import NoPassword

HERE = f"{sys.executable} -c "


def program(tmp_path, text):
    path = tmp_path / "tell"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("printf 'pässwort'", "pässwort"),
        ("printf 'first\\nsecond\\n'", "first"),
        ("printf 'dos\\r\\n'", "dos"),
        ("printf ' spaces stay '", " spaces stay "),
        ("echo noise >&2; echo quiet", "quiet"),
    ],
)
def test_the_first_line_a_program_prints(tmp_path, text, value, capfd):
    assert fetch(f"cmd:{program(tmp_path, text)}").reveal() == value
    assert capfd.readouterr() == ("", "")


def test_arguments_are_split_as_a_shell_would_and_no_shell_sees_them(tmp_path):
    tell = program(tmp_path, 'printf "%s|" "$@"')
    assert fetch(f"cmd:{tell} 'one word' $HOME ;true `id` $(id)").reveal() == "one word|$HOME|;true|`id`|$(id)|"


def test_it_runs_where_the_inventory_is(tmp_path):
    program(tmp_path, "echo found")
    assert fetch("cmd:./tell", tmp_path).reveal() == "found"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo s3cr3t-half; echo s3cr3t-half >&2; exit 3", " 3"),
        ("true", "first line"),
        ("printf '\\n second'", "first line"),
        ("printf '\\377'", "UTF-8"),
        ("head -c 70000 /dev/zero | tr '\\0' x", "64 KiB"),
        ("cat", "first line"),
    ],
)
def test_a_program_that_prints_no_password(tmp_path, text, said):
    with refused(NoPassword, "password.none", tmp_path / "tell", said) as caught:
        fetch(f"cmd:{program(tmp_path, text)}")
    assert "s3cr3t" not in f"{caught.value.message} {caught.value.remedy}"


def test_what_cannot_be_run_says_so(tmp_path):
    with refused(NoPassword, "password.none", "No such file"):
        fetch("cmd:/does/not/exist")
    with refused(NoPassword, "password.none", "No closing quotation"):
        fetch("cmd:tell 'me")
    with refused(NoPassword, "password.none", "name"):
        fetch("cmd:''")


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path, monkeypatch):
    note = tmp_path / "pid"
    tell = program(tmp_path, f"sleep 600 & echo $! > {note}; wait")
    for seconds in (2.0, 20.0, 60.0):  # a busy machine may end the program before it has a child
        monkeypatch.setattr(credentials, "PATIENCE", seconds)
        begun = time.monotonic()
        with refused(NoPassword, "password.none", tell, f"{seconds:g} s"):
            fetch(f"cmd:{tell}")
        assert time.monotonic() - begun < seconds + 30 * busy()
        if note.exists() and note.read_text().endswith("\n"):
            break
    child = int(note.read_text())
    until(lambda: not runs(child), why="the child was left running")


@pytest.fixture
def keyring(monkeypatch):
    """A key ring library with one password."""
    library, errors = types.ModuleType("keyring"), types.ModuleType("keyring.errors")

    class KeyringError(Exception):
        pass

    def get_password(service, user):
        if service == "locked":
            raise KeyringError("the password is hunter2")
        return {("vcenter", "svc@vsphere.local"): "from the ring"}.get((service, user))

    library.get_password, errors.KeyringError, library.errors = get_password, KeyringError, errors
    monkeypatch.setitem(sys.modules, "keyring", library)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)


def test_a_key_ring(keyring):
    assert fetch("keyring:vcenter/svc@vsphere.local").reveal() == "from the ring"
    with refused(NoPassword, "password.none", "password of root on the hosts") as caught:
        fetch("keyring:vcenter/hunter2", purpose="password of root on the hosts")
    assert "keyring set" in caught.value.remedy
    assert "hunter2" not in caught.value.message + caught.value.remedy, "it may be a password in the wrong place"


def test_a_key_ring_that_cannot_be_used(keyring):
    with refused(NoPassword, "password.none", "KeyringError") as caught:
        fetch("keyring:locked/root")
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("error", [RuntimeError, ImportError, AttributeError, OSError, TypeError, RecursionError])
def test_a_key_ring_whose_backend_does_not_load(keyring, monkeypatch, error):
    def fails(*_):
        raise error("cannot load the backend; the password is hunter2")

    monkeypatch.setattr(sys.modules["keyring"], "get_password", fails)
    with refused(NoPassword, "password.none", error.__name__) as caught:
        fetch("keyring:vcenter/root")
    assert "hunter2" not in caught.value.message + caught.value.remedy
    assert caught.value.__cause__ is None


def test_a_key_ring_library_that_is_broken(monkeypatch):
    def broken(_name):
        raise SyntaxError("hunter2")

    monkeypatch.setattr(credentials, "import_module", broken)
    with refused(NoPassword, "password.none", "SyntaxError") as caught:
        fetch("keyring:vcenter/root")
    assert "hunter2" not in caught.value.message


def test_without_the_library_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with refused(NoPassword, "password.none") as caught:
        fetch("keyring:vcenter/root")
    assert "pipx inject vsphere-ai keyring" in caught.value.remedy


def test_without_a_terminal_nobody_is_asked(monkeypatch):
    with open(os.devnull) as nothing, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", nothing)
        with refused(NoPassword, "password.none", "terminal", "SSH password of root"):
            fetch("prompt:", purpose="SSH password of root")


ASK = """
import sys
from vsphere_ai.security.credentials import fetch
value = fetch("prompt:", purpose="password of root").reveal()
sys.stdout.write(f"got {len(value)} {sum(map(ord, value))}\\n")
"""


def test_on_a_terminal_it_is_asked_without_an_echo():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASK])
    seen = b""
    while b"Password of root: " not in seen:
        seen += os.read(terminal, 1024)
    os.write(terminal, "gehéim\n".encode())
    while b"got" not in seen:
        seen += os.read(terminal, 1024)
    os.close(terminal)
    os.waitpid(pid, 0)
    assert f"got 6 {sum(map(ord, 'gehéim'))}".encode() in seen
    assert "gehéim".encode() not in seen


def test_a_key_files_passphrase_is_a_reference_too(tmp_path):
    from vsphere_ai.errors import InputError
    from vsphere_ai.language.inventories.inventory import load_inventory

    path = tmp_path / "inventory.yml"
    head = 'vcenters: {p: {address: vc.example.com, username: u, password: "prompt:"}}\n'
    ssh = "ssh: {known_hosts: k, %s}\n"
    path.write_text(head + ssh % 'key_file: id, key_passphrase: "file:phrase"')
    settings = load_inventory(path).ssh
    assert settings.key_passphrase == f"file:{tmp_path / 'phrase'}"
    for wrong, said in (
        ('key_file: id, key_passphrase: "hunter2-literal"', "must not be in the file"),
        ('password: "env:P", key_passphrase: "env:Q"', "'key_passphrase' is for a 'key_file'"),
    ):
        path.write_text(head + ssh % wrong)
        with pytest.raises(InputError) as caught:
            load_inventory(path)
        text = "\n".join(f"{d.message} {d.excerpt} {d.help}" for d in caught.value.diagnostics)
        assert said in text
        assert "hunter2" not in text


def test_a_passphrase_opens_the_key_of_the_shells(tmp_path, monkeypatch):
    """What the inventory says reaches the connection: nobody logs in here."""
    from vsphere_ai.app.estate.scope import EstateRequest
    from vsphere_ai.app.estate.session import session_of
    from vsphere_ai.language.inventories.inventory import load_inventory
    from vsphere_ai.model.state import Target

    monkeypatch.setenv("PHRASE", "öffne dich")
    path = tmp_path / "inventory.yml"
    path.write_text(
        'vcenters: {p: {address: vc.example.com, username: u, password: "env:NOT_NEEDED"}}\n'
        'ssh: {known_hosts: k, key_file: id, key_passphrase: "env:PHRASE"}\n'
    )
    shell = session_of(load_inventory(path), None, EstateRequest()).connection.shell(
        Target("host", "esx01", "HostSystem:h1")
    )
    assert shell.endpoint.passphrase == "öffne dich"
    assert "öffne" not in repr(shell.endpoint)
