"""Checks of a SOAP answer before it is parsed: it is one, in UTF-8, and no text in it is too large to put together."""

from __future__ import annotations

import http.client
import re

_HEAD = 4096
"""Bytes within which the SOAP envelope begins."""
LONGEST_TEXT = 2 << 20
"""Bytes of one text in an answer; the largest that is read, a setting of a VM, has less than 1 MiB."""
_MOST_SECTIONS = 10_000
_SECTION = re.compile(rb"<!\[CDATA\[|<!--|<\?")
_ENDS = {b"<![CDATA[": b"]]>", b"<!--": b"-->", b"<?": b"?>"}
_ENCODING = re.compile(rb"\s*<\?xml[^>]*?encoding\s*=\s*[\"']([^\"']*)")
_UTF_8 = (b"utf-8", b"utf8", b"us-ascii")


class NotSoap(http.client.HTTPException):
    """Something answered that is no SOAP service: an error page, a login form."""


class TooLarge(Exception):
    """The answer is larger than any that makes sense."""


def look(body: bytes, *, whole: bool = False) -> None:
    """Refuse what is no SOAP: pyVmomi takes any XML for the answer of a method that returns nothing.

    Only UTF-8 is read, which vSphere sends: in another encoding nothing that is looked for here would be found.
    """
    head = body[:_HEAD]
    declared = _ENCODING.match(head)
    if b"\0" in head or head.startswith((b"\xff\xfe", b"\xfe\xff")) or (declared and declared[1].lower() not in _UTF_8):
        raise NotSoap("it is not UTF-8")
    if b"<!" in body and b"<!DOCTYPE" in body:
        raise NotSoap("it has a document type, which SOAP does not allow")
    if b"Envelope" not in head and (whole or len(body) >= _HEAD):
        raise NotSoap("it is no SOAP" if body else "it is empty")
    if whole and longest_text(body) > LONGEST_TEXT:
        raise TooLarge(f"it holds a text larger than {LONGEST_TEXT >> 20} MiB")


def longest_text(body: bytes) -> int:
    """Return the size in bytes of the longest text between two tags; exact where it is larger than `LONGEST_TEXT`.

    pyVmomi puts a text together in pieces of 8 KiB, copying what it has each time: 64 MiB take it minutes.
    """
    if b"<!" in body or body.find(b"<?", 1) > 0:
        body = _without_sections(body)
    longest = 0
    for at in range(0, len(body), LONGEST_TEXT):
        begin, end = body.rfind(b"<", 0, at + 1), body.find(b"<", at)
        longest = max(longest, (end if end >= 0 else len(body)) - begin - 1)
    return longest


def _without_sections(body: bytes) -> bytes:
    """Return as many bytes, without comments, CDATA sections and instructions, which do not end a text."""
    pieces, at = list[bytes](), 0
    while found := _SECTION.search(body, at):
        if len(pieces) > 2 * _MOST_SECTIONS:
            raise NotSoap("it is in more pieces than any answer of vSphere")
        end = body.find(_ENDS[found[0]], found.end())
        if end < 0:
            break
        pieces += [body[at : found.start()], b" " * (end - found.start())]
        at = end
    return b"".join([*pieces, body[at:]])
