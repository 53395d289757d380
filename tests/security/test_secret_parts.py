"""Parts of secrets in answers of servers: cut, wrapped, escaped, encoded; and what only looks like one."""

from __future__ import annotations

import base64
import gzip
import json
import random
import textwrap
import urllib.parse
from html import escape

import pytest

from vsphere_ai.security import redaction
from vsphere_ai.security.password_hash import sha512_crypt
from vsphere_ai.security.secret_parts import MOST_PACKED, Parts

HASH = sha512_crypt("Correct-Horse-Battery-9", "Zq3.k/abcdEFGH12", 1000)
_NOISE = random.Random(29).randbytes(1500).hex()
USERDATA = f"#cloud-config\n{json.dumps({'users': [{'name': 'ops', 'hashed_passwd': HASH}], 'other': _NOISE})}"
GZIP = gzip.compress(USERDATA.encode(), mtime=0)
PACKED = base64.b64encode(GZIP).decode()
TOKEN = "Xk3!tt%y<Kp&9\"ü'/\\`+aBc"


def wrapped(text):
    return "\n   ".join(textwrap.wrap(text, 19, break_on_hyphens=False))


ENCODERS = {
    "plain": str,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 in a longer text": lambda s: base64.b64encode(f"a={s};".encode()).decode(),
    "base64 for URLs": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "hex in capitals": lambda s: s.encode().hex(":").upper(),
    "URL": lambda s: urllib.parse.quote(s, safe=""),
    "JSON": lambda s: json.dumps(s)[1:-1],
    "repr": lambda s: repr(s)[1:-1],
    "XML": escape,
    "wrapped": wrapped,
    "wrapped in JSON": lambda s: json.dumps(wrapped(s))[1:-1],
    "wrapped base64": lambda s: wrapped(base64.b64encode(s.encode()).decode()),
    "base64 in a URL": lambda s: urllib.parse.quote(base64.b64encode(s.encode()).decode(), safe=""),
}
CUTS = {"whole": slice(None), "its begin": slice(0, 14), "its end": slice(-14, None), "its middle": slice(3, 15)}


@pytest.fixture(autouse=True)
def _known():
    with redaction.fresh():
        redaction.register(TOKEN)
        redaction.register(HASH)
        redaction.register_packed(PACKED, "$".join(HASH.split("$")[-2:]))
        yield


def left_of(encoded, shown, length):
    """Parts of what was written that are still there."""
    return [encoded[at : at + length] for at in range(len(encoded) - length + 1) if encoded[at : at + length] in shown]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize(
    "secret", [TOKEN, HASH.removeprefix("$6$rounds=1000$"), PACKED], ids=["token", "hash", "packed"]
)
def test_no_part_of_a_secret_is_left_in_an_answer(secret, encoding, cut):
    encoded = ENCODERS[encoding](secret[CUTS[cut]])
    shown = redaction.untrusted(f"A specified parameter was not correct: '{encoded}' (spec.extraConfig)")
    # a sixth of a character of base64, at most, is outside of the first and the last whole part
    assert left_of(encoded, shown, 11) == []
    assert shown.startswith("A specified parameter was not correct: ")
    assert shown.endswith("(spec.extraConfig)")


@pytest.mark.parametrize("begin", range(0, len(PACKED) - 8, 97))
def test_eight_characters_of_a_packed_value_are_a_part(begin):
    assert redaction.untrusted(f"near '{PACKED[begin : begin + 8]}'") == "near '***'"
    assert redaction.clean(f"near '{PACKED[begin : begin + 8]}'") == "near '***'"


def test_the_bytes_of_gzip_in_hexadecimal():
    for cut in (GZIP, GZIP[7:80], GZIP[100:112]):
        assert redaction.untrusted(f"near 0x{cut.hex()}.") in ("near ***.", "near 0x***.")


def test_without_a_secret_nothing_is_looked_for():
    with redaction.fresh():
        text = f"near '{PACKED[40:80]}' and {TOKEN}"
        assert redaction.untrusted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "esx01.lab.local: 4 hosts reboot. Type 4 to confirm",
        "550e8400-e29b-41d4-a716-446655440000",
        "SHA256:" + "ab" * 32,
        "/vmfs/volumes/datastore1/train-01/train-01.vmdk",
        "=" * 120,
        "guestinfo.userdata is larger than a guest reads",
        "guestinfo.userdata: remove it",
    ],
)
def test_what_is_no_part_stays(text):
    assert redaction.untrusted(text) == text


def test_a_name_in_a_password_stays_a_name():
    redaction.register("my-train-01-password-of-2024")
    text = "train-01 was changed by someone else after planning; passwords of 2024 are old"
    assert redaction.untrusted(text) == text
    assert redaction.untrusted("it is my-train-01-password-of-2024!") == "it is ***!"


def test_what_others_have_packed_is_not_shown():
    """Of another run, or of someone else: nothing was registered."""
    with redaction.fresh():
        assert PACKED[:30] not in redaction.untrusted(f"value '{PACKED}'")
        assert PACKED[200:230] not in redaction.untrusted(f"value '{PACKED[150:]}'")
        assert redaction.untrusted("guestinfo.userdata = 'pa ss'; next") == "guestinfo.userdata = ***; next"
        assert redaction.untrusted('{"guestinfo.password": "hunter2"}') == '{"guestinfo.password": ***}'
        assert redaction.untrusted("GuestInfo.x=hunter2, and") == "GuestInfo.x=***, and"


@pytest.mark.parametrize("text", ["a", "guestinfo.", "H4s", "%41", "\\u0041", "6", "A=", "&#6"])
def test_no_answer_takes_long(text):
    """Of a hostile server, as long as answers are looked into: nothing here takes the square of its length."""
    many = text * (250_000 // len(text))
    assert len(redaction.untrusted(many)) <= len(many)


def test_a_passphrase_of_words_that_is_wrapped():
    redaction.register("Sieben! Zwerge# Hinter% Bergen&")
    assert "Zwerge" not in redaction.clean("it is Sieben! Zwerge#\n   Hinter% Bergen&.")


def test_the_oldest_packed_values_are_forgotten():
    many = Parts().with_packed(f"{number:040}" for number in range(MOST_PACKED + 1))
    assert len(many.packed) == MOST_PACKED
    assert f"{0:040}" not in many.packed
