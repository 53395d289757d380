"""Public SSH keys of users, as lines of ``authorized_keys``: type, key in base64, comment.

Source: sshd(8), AUTHORIZED_KEYS FILE FORMAT; RFC 4253, section 6.6; RFC 8709.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
"""Types that OpenSSH accepts by default; it has dropped ``ssh-dss``."""
LEAST_RSA = 2048

_FORM = "write a line of a .pub file: TYPE KEY COMMENT"


@dataclass(frozen=True)
class PublicKey:
    """A public key: its type, the key as bytes, and a comment, which may be empty."""

    type: str
    key: bytes
    comment: str


def public_key(text: str) -> PublicKey:
    """Return the key of a line; `ValueError` with what is wrong and, in a second line, what to do.

    What is not a public key may be a secret: the message never repeats it.
    """
    if "PRIVATE KEY" in text:
        raise ValueError("is a private key\nwrite the public key, from the file that ends in .pub; replace the pair")
    if not text.strip("\n").isprintable():
        raise ValueError(f"is more than one line, or holds control characters\n{_FORM}")
    kind, _, rest = text.strip().partition(" ")
    encoded, _, comment = rest.strip().partition(" ")
    if kind not in TYPES:
        raise ValueError(f"is not a public SSH key of a known type\n{_FORM}; types: {', '.join(TYPES)}")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"is not base64 after its type\n{_FORM}") from None
    fields = _fields(key)
    if not fields or fields[0] != kind.encode():
        raise ValueError(f"is cut off, or of another type than {kind}\ncopy the whole line of the .pub file")
    if kind == "ssh-ed25519" and len(fields[-1]) != 32:
        raise ValueError("is cut off\ncopy the whole line of the .pub file")
    if kind == "ssh-rsa" and int.from_bytes(fields[-1], "big").bit_length() < LEAST_RSA:
        raise ValueError(f"is an RSA key of fewer than {LEAST_RSA} bits\nmake one with ssh-keygen -t ed25519")
    return PublicKey(kind, key, comment.strip())


def _fields(key: bytes) -> list[bytes]:
    """Return the strings that a key is made of; nothing where a length does not fit."""
    found, at = [], 0
    while at < len(key):
        end = at + 4 + int.from_bytes(key[at : at + 4], "big")
        if at + 4 > len(key) or end > len(key):
            return []
        found.append(key[at + 4 : end])
        at = end
    return found if len(found) > 1 else []
