"""Traces of secrets: every part of them, as they are and as others write them, and where a text has one."""

from __future__ import annotations

import base64
import json
import re
import traceback
import urllib.parse
from html import escape
from pathlib import Path

PART, HEX_PART = 8, 16
_BETWEEN = re.compile(r"\s+|\\[nrt]|\\(?=[\"'/\\])|[|>]\s")
_CLASSES = (r"[a-z]", r"[A-Z]", r"[0-9]", r"[^\w\s./:-]")


def windows(text, length=PART):
    return {text[at : at + length] for at in range(len(text) - length + 1)}


def _encoded(text):
    raw = text.encode()
    for before in range(3):
        packed = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        # what also depends on neighbours is no part of the secret
        yield packed[-(-before * 4 // 3) + 1 : -1]
    yield urllib.parse.quote(text, safe="")
    yield json.dumps(text)[1:-1]
    yield escape(text)


class Traces:
    """What is looked for. Of a password only parts that no name and no word is; of what is packed every part."""

    def __init__(self):
        self.parts, self.digits, self.forms = set(), set(), set()

    def password(self, text):
        telling = {w for w in windows(text) if sum(bool(re.search(c, w)) for c in _CLASSES) > 2}
        self.parts |= telling
        self.forms |= {form for form in (text, *_encoded(text), text.encode().hex()) if len(form) > PART}
        return self

    def packed(self, text):
        self.parts |= windows(text)
        for form in _encoded(text):
            self.parts |= windows(form, PART + 3)
        self.digits |= windows(text.encode().hex(), HEX_PART)
        return self

    def octets(self, raw):
        self.digits |= windows(raw.hex(), HEX_PART)
        return self

    def without(self, text):
        """Look for no part that a text has which holds no secret: what is packed with a secret begins as without."""
        plain = Traces().packed(text).octets(base64.b64decode(text))
        self.parts -= plain.parts
        self.digits -= plain.digits
        return self

    def found(self, text):
        """Parts of the secrets in a text, also where white space or escapes stand between their characters."""
        plain = _BETWEEN.sub("", text)
        hits = {form for form in self.forms if form in text or form in plain}
        for length in {len(part) for part in self.parts}:
            of = {part for part in self.parts if len(part) == length}
            hits |= of & (windows(text, length) | windows(plain, length))
        low = plain.lower().replace(":", "")
        for length in {len(part) for part in self.digits}:
            hits |= {part for part in self.digits if len(part) == length} & windows(low, length)
        return sorted(hits)[:3]


def files(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes().decode("latin-1") for p in Path(folder).rglob("*") if p.is_file()
    }


def all_of(error):
    """All that a service that collects errors sees: texts, fields, chains, and the product's frames with variables."""
    found, seen, todo = [], set(), [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        found += [str(one), repr(one), repr(one.args), repr(vars(one)), *map(repr, vars(one).values())]
        todo += [one.__cause__, one.__context__]
        own = traceback.TracebackException(type(one), one, one.__traceback__, capture_locals=True)
        found += [repr(frame.locals) for frame in own.stack if "/vsphere_ai/" in frame.filename]
        found += traceback.format_exception(one)
    return "\n".join(found)
