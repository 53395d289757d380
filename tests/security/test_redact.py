"""A secret is masked however it is spelt, and nothing else is."""

from __future__ import annotations

import base64
import html
import io
import json
import random
import shlex
import sys
import urllib.parse
from xml.sax import saxutils

import click
import pytest

from vsphere_ai import redact
from vsphere_ai.cli import main
from vsphere_ai.report import values
from vsphere_ai.secret import Secret

ENCODINGS = {
    "raw": lambda s: s,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 in a header": lambda s: base64.b64encode(f"root:{s}".encode()).decode(),
    "base64, padded otherwise": lambda s: base64.b64encode(f"u:{s}@host".encode()).decode(),
    "base64url": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "url": lambda s: urllib.parse.quote(s, safe=""),
    "url path": lambda s: urllib.parse.quote(s),
    "form": lambda s: urllib.parse.urlencode({"password": s}),
    "xml": saxutils.escape,
    "xml attribute": saxutils.quoteattr,
    "html": html.escape,
    "json": json.dumps,
    "json, unicode": lambda s: json.dumps({"a": [s]}, ensure_ascii=False),
    "repr": repr,
    "repr in a text with both quotes": lambda s: repr(f'it\'s "{s}"'),
    "ascii": lambda s: ascii([s]),
    "bytes": lambda s: repr(s.encode()),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "shell": lambda s: shlex.join(["echo", s]),
}


@pytest.fixture(autouse=True)
def no_other_secrets():
    with redact.fresh():
        yield


def secrets():
    chance = random.Random(20260501)
    alphabet = "abcXYZ019<&\"'%/\\`+ü~ ;$=é中😀"
    return ["".join(chance.choices(alphabet, k=chance.randrange(8, 30))) for _ in range(40)]


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_spelling_is_masked(name):
    for secret in secrets():
        encoded = ENCODINGS[name](secret)
        with redact.fresh():
            assert redact.clean(f"before {encoded} after") == f"before {encoded} after"
            redact.register(secret)
            cleaned = redact.clean(f"before {encoded} after")
        assert redact.MASK in cleaned
        assert cleaned.startswith("before ")
        assert cleaned.endswith(" after")
        assert longest_common(cleaned, encoded) <= 10, cleaned


def longest_common(one, two):
    """The longest piece of the encoded secret that is still there; a neighbour's letters may be."""
    from difflib import SequenceMatcher

    rest = one.removeprefix("before ").removesuffix(" after").replace(redact.MASK, "\0")
    return SequenceMatcher(None, rest, two, autojunk=False).find_longest_match().size


def test_a_secret_that_is_made_is_known():
    Secret("hunter2 & friends")
    assert redact.clean("login hunter2 & friends failed") == "login *** failed"
    assert redact.clean("login hunter2 &amp; friends failed") == "login *** failed"


def test_the_longer_secret_goes_first():
    redact.register("train")
    redact.register("train-secret")
    assert redact.clean("train-secret train") == "*** ***"


def test_what_is_too_short_to_be_told_from_words_is_left():
    redact.register("abc")
    assert redact.clean("the abc of it") == "the abc of it"


def test_words_near_a_secret_stay():
    redact.register("correcthorse")
    text = "orrecthors correcthors orrecthorse Correcthorse"
    assert redact.clean(text) == text


def test_secrets_of_one_command_are_forgotten():
    with redact.fresh():
        redact.register("only-inside")
        assert redact.clean("only-inside") == redact.MASK
    assert redact.clean("only-inside") == "only-inside"


def test_json_values_are_masked_with_their_keys():
    redact.register("s3cr3t/ü")
    assert redact.cleaned({"a s3cr3t/ü": ["x", ("s3cr3t/ü", 1, None)]}) == {"a ***": ["x", ("***", 1, None)]}


class TestStream:
    def test_text_is_masked_whoever_writes_it(self, monkeypatch):
        redact.register("s3cr3t/ü")
        below = io.StringIO()
        monkeypatch.setattr(sys, "stdout", redact.masked(below))
        print("print s3cr3t/ü")
        click.echo("echo s3cr3t/ü")
        sys.stdout.writelines(["lines ", "s3cr3t/ü\n"])
        from rich.console import Console

        Console().print("rich s3cr3t/ü")
        assert below.getvalue().splitlines() == ["print ***", "echo ***", "lines ***", "rich ***"]

    def test_there_is_no_way_around_it_through_the_bytes(self):
        stream = redact.masked(io.TextIOWrapper(io.BytesIO(), "ascii"))
        assert not hasattr(stream, "buffer")
        with pytest.raises(TypeError):
            stream.write(b"bytes")

    def test_echo_to_an_ascii_stream_is_masked(self, monkeypatch):
        """click opens the bytes below a stream that says it is ASCII."""
        redact.register("s3cr3t/x")
        below = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", redact.masked(io.TextIOWrapper(below, "ascii", write_through=True)))
        click.echo("echo s3cr3t/x")
        assert below.getvalue() == b"echo ***\n"


@pytest.mark.parametrize("key", ["password", "passwrod", "pasword", "apssword", "Password", "pwd", "passwd", "pass"])
def test_a_password_typed_into_an_inventory_is_not_shown_again(tool, tmp_path, key):
    path = tmp_path / "inventory.yml"
    path.write_text(f"vcenters:\n  p: {{address: a.example.com, username: u, {key}: hunter2-literal}}\n")
    assert tool("show", "-i", path) == 65
    assert key in tool.err
    assert "hunter2" not in tool.out + tool.err


class TestTame:
    """The last net below every output: what only a foreign name can hold."""

    @pytest.mark.parametrize(
        "text",
        ["\x9b2J", "\x9d8;;x\x9c", "\x1b]8;;https://evil\x07", "\x1bP", "\x1b", "\u202e", "\u2066", "\ufeff", "\u2028"],
    )
    def test_what_commands_a_terminal_or_reorders_is_taken(self, text):
        assert not set(values.tame(f"a{text}b")) & set("\x1b\x9b\x9d\x9c\u202e\u2066\ufeff\u2028")

    @pytest.mark.parametrize(
        "text", ["plain ünï中😀👩‍🔬\n\ttab\r", "\x1b[31mred\x1b[0m", "\r\x1b[2K", "\x1b[?25l\x1b[1A\x1b[2K"]
    )
    def test_our_own_colours_and_moves_stay(self, text):
        assert values.tame(text) == text

    def test_the_command_line_has_the_net(self, tool, monkeypatch):
        """A command that forgets to make a name harmless."""

        @click.command("careless")
        def careless():
            click.echo("name \x9b2J\u202e \x1b]0;title\x07")
            click.echo("name \x9b2J", err=True)

        monkeypatch.setattr(main, "COMMANDS", {"careless": ("", "")})
        monkeypatch.setattr(main.Commands, "get_command", lambda *_: careless)
        assert tool("careless") == 0
        assert "name" in tool.out
        assert not set(tool.out + tool.err) & set("\x9b\u202e\x1b")
