"""URLs of webhooks, and command lines without a shell: what of them can be used, and why another one cannot."""

from __future__ import annotations

import shlex
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit


def webhook_url(url: str, name: str) -> SplitResult:
    """Return the parts of a URL to which notifications are sent: https, or http on this machine (RFC 3986, 6761).

    `ValueError`, its message and its remedy on a line each, for another one. It says `name`, never the URL, which may
    hold a token.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"{name} is not a URL\nwrite https://HOST/PATH, or env:NAME where the URL is secret")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{name} holds a user or a password\nsign the body with a secret instead")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError(
            f"{name}: the webhook at {host} would be sent without encryption\n"
            "write an https URL; http is for this machine only"
        )
    return parts


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def program_words(command: str, name: str) -> list[str]:
    """Return a program and its arguments, split as a POSIX shell splits words, which alone it has of a shell.

    `ValueError`, its message and its remedy on a line each, where there is none.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{name} cannot be split: {error}\nclose the quotes") from None
    if not words:
        raise ValueError(f"{name} contains no program\nwrite a program and its arguments")
    return words
