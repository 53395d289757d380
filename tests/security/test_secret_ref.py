from __future__ import annotations

import copy
import os
import pickle

import pytest
from support.raising import refused

from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.secret_ref import NoPassword, Secret, is_reference


def private(path, content):
    path.write_bytes(content)
    path.chmod(0o600)
    return f"file:{path}"


def test_a_secret_shows_itself_nowhere():
    secret = Secret("hunter2")
    shown = [str(secret), repr(secret), f"{secret}", f"{secret:>20}", "%s" % secret, repr([secret]), str({"p": secret})]  # noqa: UP031
    assert all("hunter2" not in text and "***" in text for text in shown)
    assert secret.reveal() == "hunter2"


def test_a_secret_cannot_be_pickled_or_copied():
    for attempt in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="secret"):
            attempt(Secret("hunter2"))


def test_secrets_compare_by_value():
    assert Secret("ä") == Secret("ä")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_a_reference_to_the_environment(monkeypatch):
    monkeypatch.setenv("LAB_PASSWORD", " s p\n")
    assert fetch("env:LAB_PASSWORD").reveal() == " s p\n"
    monkeypatch.setenv("LAB_PASSWORD", "")
    with refused(NoPassword, "password.none", "LAB_PASSWORD", "empty"):
        fetch("env:LAB_PASSWORD")
    monkeypatch.delenv("LAB_PASSWORD")
    with refused(NoPassword, "password.none", "LAB_PASSWORD", "set") as caught:
        fetch("env:LAB_PASSWORD")
    assert "export LAB_PASSWORD" in caught.value.remedy


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"hunter2", "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n", "hunter2"),
        (b"a\n\n", "a\n"),
        (b" a ", " a "),
    ],
)
def test_a_reference_to_a_file_takes_one_line_end_off(content, value, tmp_path):
    assert fetch(private(tmp_path / "p", content)).reveal() == value


def test_a_file_is_looked_for_below_the_base(tmp_path):
    private(tmp_path / "p", b"x")
    assert fetch("file:p", tmp_path).reveal() == "x"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o777])
def test_a_file_others_can_read_is_refused(mode, tmp_path):
    reference = private(tmp_path / "p", b"hunter2")
    (tmp_path / "p").chmod(mode)
    with refused(NoPassword, "password.none", f"mode {mode:03o}") as caught:
        fetch(reference)
    assert caught.value.remedy.endswith(f"chmod 600 {tmp_path / 'p'}")


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "empty"), (b"\n", "empty"), (b"\xff", "UTF-8"), (b"x" * 70_000, "64 KiB")]
)
def test_a_file_that_is_no_password_is_refused(content, said, tmp_path):
    with refused(NoPassword, "password.none", said):
        fetch(private(tmp_path / "p", content))


def test_what_is_no_file_is_refused_and_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, said in (("none", tmp_path), ("", "directory"), ("pipe", "regular file")):
        with refused(NoPassword, "password.none", said):
            fetch(f"file:{tmp_path / name}")


@pytest.mark.parametrize(
    "text", ["hunter2", "", "env:", "env:1A", "env:A B", "file:", "file:a/", "file:a\nb", "ENV:A", "command:x"]
)
def test_what_is_no_reference_is_refused_and_not_repeated(text):
    assert not is_reference(text)
    with refused(NoPassword, "password.none") as caught:
        fetch(text)
    assert not text or text not in caught.value.message
