"""Redaction of secrets in everything that is written: whatever way they are spelt, they come out as ``***``.

A password may be a word or a number that stands in this tool's own output as well (``vmware``, ``131072``). Masked
there, it would remove rule ids and verdicts from a report, and show by the gaps what it is. Such a secret is masked
only in what servers and hosts answer (`untrusted`), and a simple word only as a whole token.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TextIO, cast
from urllib.parse import quote, quote_plus

from vsphere_ai.security.files import SMALL, read_text
from vsphere_ai.security.secret_parts import Parts

MASK = "***"
SHORTEST = 6
"""Shorter secrets are not masked: they would take letters out of every other word."""
_SHORTEST_CORE = 5
_SIMPLE = re.compile(r"[A-Za-z0-9_. -]+")
_LONGEST_WORD = 15
"""What may be a word or a name in a text that has nothing to do with the secret; anything else is not met by chance."""
_NUMBER = re.compile(r"[0-9][0-9.eE+-]*")
# where a token begins: not within a word or a name, but behind an escape of JSON, Python, C or a URL
_BEGIN = r"(?:(?<![\w.-])|(?<=\\[abfnrtv0])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_END = r"(?![\w-]|\.\w)"

_LONGEST_LINE = 64 * 1024
"""Characters of what is searched for parts of secrets before it is written: lines and errors, no documents of MiB."""
_LONGEST_ANSWER = 256 * 1024
"""Characters of an answer in which parts are also looked for as hexadecimal and base64."""
_QUOTED = re.compile(
    r"(?i)(guestinfo\.[\w.-]{1,200}[\"']?\s{0,8}(?:=|:(?=\s{0,8}[\"']))\s{0,8})(?:\"[^\"]*\"?|'[^']*'?|[^\s;,]+)"
)
"""The value of a ``guestinfo.*`` setting, in words like ``guestinfo.userdata = "..."``."""
_PACKED = re.compile(r"(?P<gzip>H4sI[A-Za-z0-9+/_=-]{8,})|[A-Za-z0-9+/_=-]{100,}")
_OF_BASE64 = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]")))
"""Base64 of gzip (RFC 1952: 1f 8b 08), or any of 100 characters: a packed value of another run, or of someone else."""

_lock = threading.Lock()
_KEY = os.urandom(16)
_judged: dict[bytes, bool] = {}
"""Whether a secret is a word of our own, by its keyed digest: a server and a worker of a fleet fetch the same ones for
each command, and to look through some 6 MiB of sources takes 5 to 10 ms. No secret stays in memory for that."""


@dataclass(frozen=True)
class _Known:
    """The secrets of a command: `forms` are masked wherever they stand, `words` as tokens, `own` in answers only."""

    secrets: frozenset[str] = frozenset()
    forms: tuple[str, ...] = ()
    words: re.Pattern[str] | None = None
    own: re.Pattern[str] | None = None
    own_secrets: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    parts: Parts = field(default_factory=Parts)


_known = _Known()
_NOTES = {
    "short": f"a password has fewer than {SHORTEST} characters, so it is not masked in output; choose a longer one",
    "own": "a password is a word or a number that output has anyway, so it is masked only in what servers answer; "
    "choose another one",
}


def register(secret: str) -> None:
    """Have a secret masked from now on, in all its forms; `notes` says where that cannot be done."""
    global _known
    with _lock:
        if secret and secret not in _known.secrets:
            _known = _with(_known, secret)


def register_packed(*values: str) -> None:
    """Have every part of some values masked that a secret was packed into: base64 of gzip, or a hash."""
    global _known
    with _lock:
        _known = replace(_known, parts=_known.parts.with_packed(value for value in values if value))


def _with(known: _Known, secret: str) -> _Known:
    secrets = known.secrets | {secret}
    masked = frozenset(s for s in secrets if len(s) >= SHORTEST)
    # only the new one is looked for in all that this tool can say: that takes milliseconds
    own = known.own_secrets | ({secret} if secret in masked and _is_own(secret) else frozenset())
    words = frozenset(s for s in masked - own if len(s) <= _LONGEST_WORD and _SIMPLE.fullmatch(s))
    # the longest first: a form may be a part of another
    found = {f for s in masked for f in forms(s) if f not in words | own}
    notes = [_NOTES["short"]] if masked != secrets else []
    notes += [_NOTES["own"]] if own else []
    ordered = tuple(sorted(found, key=lambda f: (-len(f), f)))
    parts = known.parts.with_secret(secret) if secret in masked - own - words else known.parts
    return _Known(secrets, ordered, _tokens(words), _tokens(own), own, tuple(notes), parts)


def _tokens(words: frozenset[str]) -> re.Pattern[str] | None:
    if not words:
        return None
    either = "|".join(re.escape(word) for word in sorted(words, key=lambda w: (-len(w), w)))
    return re.compile(f"{_BEGIN}(?:{either}){_END}")


def _is_own(secret: str) -> bool:
    """Return whether a secret is a word of this tool's own output, or a number, which any output may hold."""
    if not _SIMPLE.fullmatch(secret):
        return False
    digest = blake2b(secret.encode(), key=_KEY).digest()
    if digest not in _judged:
        _judged[digest] = bool(_NUMBER.fullmatch(secret)) or _is_token(secret.casefold(), _own_words())
    return _judged[digest]


def _is_token(word: str, text: str) -> bool:
    at = text.find(word)
    while at >= 0:
        before, behind = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not (before.isalnum() or behind.isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


@cache
def _own_words() -> str:
    """Return everything this tool can say: its own sources. Without them (a build that has none) no word is its own."""
    texts = []
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        with suppress(OSError, UnicodeDecodeError):
            texts.append(read_text(path, SMALL).casefold())
    return "\n".join(texts)


def notes() -> tuple[str, ...]:
    """Return sentences about the secrets that are not masked everywhere, without the secrets."""
    return _known.notes


@contextmanager
def fresh() -> Iterator[None]:
    """Begin without secrets, and forget those of the block at its end: the next command has its own."""
    global _known
    with _lock:
        before, _known = _known, _Known()
    try:
        yield
    finally:
        with _lock:
            _known = before


def clean(text: str) -> str:
    """Return a text with every registered secret masked, but for those that are words of our own output."""
    known = _known
    text = _without_whole(text, known)
    return known.parts.masked(text, MASK, decoded=False) if len(text) <= _LONGEST_LINE else text


def _without_whole(text: str, known: _Known) -> str:
    for form in known.forms:
        if form in text:
            text = text.replace(form, MASK)
    return known.words.sub(MASK, text) if known.words else text


def untrusted(text: str) -> str:
    """Return what a server, a host or a library said, with every registered secret masked in it, and every part of one.

    What a server quotes of settings that may carry secrets (`_QUOTED`) is masked also where others have set them.
    """
    known = _known
    text = _without_whole(known.own.sub(MASK, text) if known.own else text, known)
    text = known.parts.masked(text, MASK, decoded=len(text) <= _LONGEST_ANSWER)
    return _PACKED.sub(_masked_base64, _QUOTED.sub(rf"\1{MASK}", text))


def _masked_base64(run: re.Match[str]) -> str:
    """Return a mask, but for a long run of other characters: a line, a number."""
    return MASK if run["gzip"] or all(kind.search(run[0]) for kind in _OF_BASE64) else run[0]


def forms(secret: str) -> frozenset[str]:
    """Return the ways a secret is spelt in URLs, XML, JSON, Python, shells, base64 and hexadecimal."""
    raw = secret.encode("utf-8", "surrogatepass")
    found = {secret, "'\"'\"'".join(secret.split("'")), *_quoted(secret), *_escaped(secret)}  # a shell's, URLs', ...
    found |= {raw.hex(), raw.hex().upper(), raw.hex(":"), raw.hex(":").upper(), raw.hex(" ")}
    found |= set(_base64(raw))
    return frozenset(f for f in found if len(f) >= SHORTEST)


def _quoted(secret: str) -> Iterator[str]:
    """URLs, with upper and lower case hexadecimal digits."""
    for kept in ("", "/", "!*'()"):
        for encode in (quote, quote_plus):
            text = encode(secret, safe=kept, errors="surrogatepass")
            yield text
            yield _lower_percent(text)


def _lower_percent(text: str) -> str:
    first, *rest = text.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _escaped(secret: str) -> Iterator[str]:
    """XML and HTML as various libraries write them; string literals of JSON and Python."""
    inner = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for double in ('"', "&quot;", "&#34;", "&#x22;"):
        for apostrophe in ("'", "&apos;", "&#39;", "&#x27;"):
            text = inner.replace('"', double).replace("'", apostrophe)
            yield text
            yield text.encode("ascii", "xmlcharrefreplace").decode()
    for ascii_only in (True, False):
        literal = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield literal
        yield literal.replace("/", "\\/")
        for upper in (False, True):
            yield _unicode_escaped(literal, upper=upper)
    both = "'" + secret + '"'  # a text with both quotes, so that repr escapes the apostrophe
    for literal in (repr(both)[3:-2], ascii(both)[3:-2], repr(both.encode("utf-8", "surrogatepass"))[4:-2]):
        yield literal
        yield literal.replace("\\'", "'")


def _unicode_escaped(literal: str, *, upper: bool) -> str:
    """JSON made safe for HTML, as Go and Jinja write it."""
    digits = {c: f"\\u00{ord(c):02{'X' if upper else 'x'}}" for c in "<>&'"}
    return "".join(digits.get(c, c) for c in literal)


def _base64(raw: bytes) -> Iterator[str]:
    """What is left of a secret in a longer text in base64, wherever it begins there; inside of it, or at its end."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode()
        # characters that also depend on the neighbours are left out
        first = (before * 8 + 5) // 6
        last = (before + len(raw)) * 8 // 6
        for core in (text[first:last], text[first:].rstrip("=")):
            if len(core) >= _SHORTEST_CORE:
                yield core
                yield core.replace("+", "-").replace("/", "_")


class _Masked:
    """A text stream that masks what is written to it. It has no `buffer`: nothing gets past it."""

    def __init__(self, stream: TextIO, also: Callable[[str], str] | None) -> None:
        self._stream, self._also = stream, also

    def write(self, text: str) -> int:
        """Write a text, masked; return the length of what was given."""
        if not isinstance(text, str):
            raise TypeError(f"write() needs a text, not {type(text).__name__}")
        written = clean(text)
        self._stream.write(self._also(written) if self._also else written)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, masked."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        if name in ("buffer", "detach", "_stream"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)


def masked(stream: TextIO, also: Callable[[str], str] | None = None) -> TextIO:
    """Return a stream that masks every registered secret, and does `also`, before a text reaches the given one."""
    return cast(TextIO, _Masked(stream, also))
