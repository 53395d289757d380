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

from vsphere_ai.cli import main
from vsphere_ai.model.text import tame
from vsphere_ai.security import redaction
from vsphere_ai.security.secret_ref import Secret

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
    with redaction.fresh():
        yield


def secrets():
    chance = random.Random(20260501)
    alphabet = "abcXYZ019<&\"'%/\\`+ü~ ;$=é中😀"
    return ["".join(chance.choices(alphabet, k=chance.randrange(8, 30))) for _ in range(40)]


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_spelling_is_masked(name):
    for secret in secrets():
        encoded = ENCODINGS[name](secret)
        with redaction.fresh():
            assert redaction.clean(f"before {encoded} after") == f"before {encoded} after"
            redaction.register(secret)
            cleaned = redaction.clean(f"before {encoded} after")
        assert redaction.MASK in cleaned
        assert cleaned.startswith("before ")
        assert cleaned.endswith(" after")
        assert longest_common(cleaned, encoded) <= 10, cleaned


def longest_common(one, two):
    """The longest piece of the encoded secret that is still there; a neighbour's letters may be."""
    from difflib import SequenceMatcher

    rest = one.removeprefix("before ").removesuffix(" after").replace(redaction.MASK, "\0")
    return SequenceMatcher(None, rest, two, autojunk=False).find_longest_match().size


def test_a_secret_that_is_made_is_known():
    Secret("hunter2 & friends")
    assert redaction.clean("login hunter2 & friends failed") == "login *** failed"
    assert redaction.clean("login hunter2 &amp; friends failed") == "login *** failed"


def test_the_longer_secret_goes_first():
    redaction.register("zebra-")
    redaction.register("zebra-secret")
    assert redaction.clean("zebra-secret zebra-") == "*** ***"


def test_what_is_too_short_to_be_told_from_words_is_left_and_said():
    redaction.register("abc&1")
    assert redaction.clean("the abc&1 of it") == redaction.untrusted("the abc&1 of it") == "the abc&1 of it"
    (note,) = redaction.notes()
    assert "fewer than 6 characters" in note
    assert "abc" not in note


@pytest.mark.parametrize("word", ["vmware", "passed", "vsphere-ai", "the host", "Connected", "esxi.version", "131072"])
def test_a_word_of_our_own_output_is_masked_in_foreign_texts_only(word):
    """Blanked everywhere it would take rule ids and verdicts out of a report, and be told by what is missing."""
    redaction.register(word)
    for text in (f"{word}  ok", f'{{"rule": "{word}", "n": {word}}}', f"{word}: host.{word}.x {word}s"):
        assert redaction.clean(text) == text
    assert redaction.untrusted(f"login {word} of root\\n{word}s {word}") == f"login *** of root\\n{word}s ***"
    assert base64.b64encode(word.encode()).decode() not in redaction.clean(base64.b64encode(word.encode()).decode())
    (note,) = redaction.notes()
    assert word not in note


@pytest.mark.parametrize("word", ["elephant", "Tr0ub4dor", "Sommer-2024"])
def test_a_simple_word_is_masked_as_a_whole_token(word):
    redaction.register(word)
    assert redaction.notes() == ()
    for text in (
        "{}",
        "login {}.",
        "u:{}@host",
        "x={}&y",
        '"{}"',
        "'{}', ",
        '"a\\n{}\\tb"',
        "a%3A{}%40b",
        "\\x1b{}",
        "\\u003a{}",
    ):
        assert redaction.clean(text.format(word)) == text.format("***"), text
    for text in ("{}s", "x{}", "{}-01", "host.{}.example.com", "{}_x"):
        assert redaction.clean(text.format(word)) == text.format(word), text


@pytest.mark.parametrize("secret", ["VMware1!", "pässwort", "correcthorsebattery", "a" * 16])
def test_what_is_not_met_by_chance_is_masked_within_words_too(secret):
    redaction.register(secret)
    assert redaction.clean(f"x{secret}y") == "x***y"


def test_no_word_of_a_rule_or_verdict_is_ever_blanked():
    """Whatever word of a report the password is."""
    from vsphere_ai.compat import gate
    from vsphere_ai.resources import kinds

    rules = [r.id for r in gate.rules()]
    for text in (*rules, *kinds(), "verdict", "unknown", "passed", "problems", "reboots"):
        for word in {text, *text.replace("_", ".").split(".")}:
            with redaction.fresh():
                redaction.register(word)
                assert redaction.clean(" ".join(rules)) == " ".join(rules)
                assert redaction.clean(f"{text} {word}") == f"{text} {word}"


def test_words_near_a_secret_stay():
    redaction.register("correcthorse")
    text = "orrecthors correcthors orrecthorse Correcthorse"
    assert redaction.clean(text) == text


def test_secrets_of_one_command_are_forgotten():
    with redaction.fresh():
        redaction.register("only-inside")
        assert redaction.clean("only-inside") == redaction.MASK
    assert redaction.clean("only-inside") == "only-inside"


class TestStream:
    def test_text_is_masked_whoever_writes_it(self, monkeypatch):
        redaction.register("s3cr3t/ü")
        below = io.StringIO()
        monkeypatch.setattr(sys, "stdout", redaction.masked(below))
        print("print s3cr3t/ü")
        click.echo("echo s3cr3t/ü")
        sys.stdout.writelines(["lines ", "s3cr3t/ü\n"])
        from rich.console import Console

        Console().print("rich s3cr3t/ü")
        assert below.getvalue().splitlines() == ["print ***", "echo ***", "lines ***", "rich ***"]

    def test_there_is_no_way_around_it_through_the_bytes(self):
        stream = redaction.masked(io.TextIOWrapper(io.BytesIO(), "ascii"))
        assert not hasattr(stream, "buffer")
        with pytest.raises(TypeError):
            stream.write(b"bytes")

    def test_echo_to_an_ascii_stream_is_masked(self, monkeypatch):
        """click opens the bytes below a stream that says it is ASCII."""
        redaction.register("s3cr3t/x")
        below = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", redaction.masked(io.TextIOWrapper(below, "ascii", write_through=True)))
        click.echo("echo s3cr3t/x")
        assert below.getvalue() == b"echo ***\n"


@pytest.mark.parametrize("key", ["password", "passwrod", "pasword", "apssword", "Password", "pwd", "passwd", "pass"])
def test_a_password_typed_into_an_inventory_is_not_shown_again(tool, tmp_path, key):
    path = tmp_path / "inventory.yml"
    path.write_text(f"vcenters:\n  p: {{address: a.example.com, username: u, {key}: hunter2-literal}}\n")
    assert tool("show", "-i", path) == 65
    assert key in tool.err
    assert "hunter2" not in tool.out + tool.err


@pytest.mark.parametrize(
    "line",
    [
        'password: "env:hunter2 x"',
        "password: env:hunter2-literal",
        "password: ENV:hunter2",
        "password: env:HUNTER2!",
        'password: "keyring:hunter2"',
        "password: env:hunter2, tls: {ca: x}",
        "password: env:HUNTER2, tls: {ca: x}",
        "password: file:hunter2, tls: {ca: x}",
        "address: root:hunter2@vc.example.com, password: env:P",
        "address: 'https://root:hunter2@vc.example.com/sdk', password: env:P",
        "address: hunter2@vc.example.com, password: env:P",
        'address: "root:hun,ter2 hunter2@[::1]", password: env:P',
        "address: [root:hunter2@vc], password: env:P",
        "address: a, password: env:P, port: 'root:hunter2@vc'",
        "address: a, password: env:P}, q: 'https://root:hunter2@vc'",
    ],
)
def test_a_password_in_the_wrong_place_of_an_inventory_is_not_shown_again(tool, tmp_path, line):
    path = tmp_path / "inventory.yml"
    path.write_text(f"vcenters:\n  p: {{username: u, {line}}}\n")
    assert tool("show", "-i", path) == 65
    assert f"{path}:2:" in tool.err
    assert "hunter2" not in (tool.out + tool.err).casefold()


def test_one_in_the_address_of_a_host_is_not_shown_again(tool, tmp_path):
    path = tmp_path / "inventory.yml"
    head = "vcenters:\n  p: {address: vc.example.com, username: u, password: env:P}\n"
    path.write_text(
        head + "ssh:\n  known_hosts: k\n  password: env:P\n  addresses:\n    esx01: root:hunter2@10.0.0.1:22\n"
    )
    assert tool("show", "-i", path) == 65
    assert f"{path}:7:" in tool.err
    assert "hunter2" not in tool.out + tool.err


@pytest.mark.parametrize(
    "place", ["env:hunter2", "env:Hunter2_x", "env:HUNTER2", "file:hunter2", "file:a/hunter2/b", "cmd:hunter2"]
)
def test_a_password_typed_behind_a_kind_of_reference_is_not_shown_again(tool, tmp_path, place):
    path = tmp_path / "inventory.yml"
    tls = "ab" * 32
    path.write_text(
        f'vcenters:\n  p: {{address: 127.0.0.1, username: u, password: "{place}", tls: {{fingerprint: {tls}}}}}\n'
    )
    assert tool("show", "-i", path) == 4
    assert "password of u at 127.0.0.1" in tool.err
    assert f"look at {place.partition(':')[0]}: behind it" in tool.err
    assert "hunter2" not in (tool.out + tool.err).casefold()


class TestTame:
    """The last net below every output: what only a foreign name can hold."""

    @pytest.mark.parametrize(
        "text",
        ["\x9b2J", "\x9d8;;x\x9c", "\x1b]8;;https://evil\x07", "\x1bP", "\x1b", "\u202e", "\u2066", "\ufeff", "\u2028"],
    )
    def test_what_commands_a_terminal_or_reorders_is_taken(self, text):
        assert not set(tame(f"a{text}b")) & set("\x1b\x9b\x9d\x9c\u202e\u2066\ufeff\u2028")

    @pytest.mark.parametrize(
        "text", ["plain ünï中😀👩‍🔬\n\ttab\r", "\x1b[31mred\x1b[0m", "\r\x1b[2K", "\x1b[?25l\x1b[1A\x1b[2K"]
    )
    def test_our_own_colours_and_moves_stay(self, text):
        assert tame(text) == text

    def test_the_command_line_has_the_net(self, tool, monkeypatch):
        """A command that forgets to make a name harmless."""

        @click.command("careless")
        def careless():
            click.echo("name \x9b2J\u202e \x1b]0;title\x07")
            click.echo("name \x9b2J", err=True)

        monkeypatch.setattr(main, "command_entry", lambda _: "careless")
        monkeypatch.setattr(main.Commands, "get_command", lambda *_: careless)
        assert tool("careless") == 0
        assert "name" in tool.out
        assert not set(tool.out + tool.err) & set("\x9b\u202e\x1b")
