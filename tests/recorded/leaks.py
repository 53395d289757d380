"""Looks for secrets in recorded files, with patterns of its own: it shares nothing with what took them out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

PATTERNS = {
    "password": re.compile(r"<(?:\w+:)?(?:\w*[pP]assword|passphrase)\b[^>]*>(?!REDACTED<)[^<]"),
    "user name": re.compile(r"<userName\b[^>]*>(?!USER<)[^<]"),
    "user name in a text": re.compile(r"[\w.-]+@[\w-]+\.(?:local|com|net|org)\b|\\\\?administrator\b", re.IGNORECASE),
    "cookie": re.compile(r"vmware_soap_session=\\?[\"']?(?!\\?[\"']?REDACTED)"),
    "cookie header": re.compile(r"\b(?<!-)(?:Cookie|Authorization|vmware-api-session-id): ", re.IGNORECASE),
    "session key": re.compile(r"<key>(?!REDACTED<)[^<]*</key>\s*<userName>"),
    "session in a reference": re.compile(r"session\[(?!0\])"),
    "session of the Automation API": re.compile(r'\b(?:string|body): \s*"(?!REDACTED")[^"]*"\s*\Z'),
    "SOAP header": re.compile(r"<(?:\w+:)?Header\b"),
    "token": re.compile(r"<(?:\w+:)?(?:Assertion|BinarySecurityToken)\b"),
    "PEM": re.compile(r"-----BEGIN "),
    "DER in base64": re.compile(r"\bMII[A-Za-z0-9+/]{40,}"),
    "thumbprint": re.compile(r"\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){15,}"),
    "thumbprint without colons": re.compile(r"\b(?:[0-9a-f]{64}|[0-9A-F]{64}|[0-9a-f]{40}|[0-9A-F]{40})\b"),
    "licence key": re.compile(r"\b[0-9A-Z]{5}(?:-[0-9A-Z]{5}){4}\b|<licenseKey[^>]*>(?!REDACTED<)[^<]"),
    "serial number": re.compile(r"<(?:serialNumber|identifierValue)\b[^>]*>(?!REDACTED<)[^<]"),
    "instance id": re.compile(r"instanceUuid(?:>|</name>\s*<val[^>]*>)(?!0{8}-)[0-9a-fA-F]"),
    "private address": re.compile(
        r"(?<![\w.])(?:10|127)\.\d+\.\d+\.\d+(?![\w.])"
        r"|(?<![\w.])(?:192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+(?![\w.])"
    ),
    "host and port": re.compile(r"uri: (?!https://vcenter\.example/)"),
    "compressed or binary body": re.compile(r"!!binary"),
}


def find(text: str, secrets: Iterable[str] = ()) -> Iterator[str]:
    """Yield what secrets a cassette holds, each with what is around it; `secrets` are texts that must not be in it."""
    known = [secret for secret in secrets if secret]
    for part in (text, *_strings(yaml.load(text, Loader=LOADER))):
        for kind, pattern in PATTERNS.items():
            for found in pattern.finditer(part):
                yield f"{kind}: {part[max(0, found.start() - 60) : found.end() + 20]!r}"
        for number, secret in enumerate(known):
            if secret in part or escape(secret) in part:
                yield f"secret number {number} of this recording"


def _strings(value: Any) -> Iterator[str]:
    """Yield every text as it was before YAML folded and quoted it; bytes are what nobody can look through."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield "!!binary"
    elif isinstance(value, Mapping):
        for key, below in value.items():
            # as a header is written, for the patterns that look for one
            yield from (f"{key}: {text}" for text in _strings(below))
    elif isinstance(value, Iterable):
        for below in value:
            yield from _strings(below)
