"""Keeps secrets out of everything that is written: whatever way they are spelt, they come out as ``***``."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO, cast
from urllib.parse import quote, quote_plus

MASK = "***"
SHORTEST = 4
"""Shorter secrets are not masked: they would take letters out of every other word."""
_SHORTEST_CORE = 5

_lock = threading.Lock()
_secrets: set[str] = set()
_forms: tuple[str, ...] = ()


def register(secret: str) -> None:
    """Have a secret masked from now on, in all its forms."""
    global _forms
    if len(secret) < SHORTEST:
        return
    with _lock:
        if secret not in _secrets:
            _secrets.add(secret)
            # the longest first: a form may be a part of another
            _forms = tuple(sorted({*_forms, *forms(secret)}, key=lambda f: (-len(f), f)))


@contextmanager
def fresh() -> Iterator[None]:
    """Begin without a secret, and forget at the end those of meanwhile: one command's are not the next one's."""
    global _forms
    with _lock:
        before, kept = set(_secrets), _forms
        _secrets.clear()
        _forms = ()
    try:
        yield
    finally:
        with _lock:
            _secrets.clear()
            _secrets.update(before)
            _forms = kept


def clean(text: str) -> str:
    """Return a text with every registered secret masked."""
    for form in _forms:
        if form in text:
            text = text.replace(form, MASK)
    return text


def cleaned(value: Any) -> Any:
    """Return a JSON-like value with every text in it (also the keys of mappings) masked."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(cleaned(one) for one in value) if type(value) in (list, tuple) else value
    return value


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

    def writelines(self, lines: Any) -> None:
        """Write several texts, masked."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach", "_stream"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)


def masked(stream: TextIO, also: Callable[[str], str] | None = None) -> TextIO:
    """Return a stream that masks every registered secret, and does `also`, before a text reaches the given one."""
    return cast(TextIO, _Masked(stream, also))
