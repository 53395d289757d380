"""Hash of a password as ``/etc/shadow`` holds it: SHA-512-crypt, which every Linux knows.

Source: Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512", version 0.6. Python has had no ``crypt`` since 3.13, and
passlib no release since 2020; bcrypt and yescrypt are not known to every C library.
"""

from __future__ import annotations

import secrets
from hashlib import sha512

ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ROUNDS = 100_000
"""Rounds of a new hash: 20 times the default, because more than its guest can read it for a while."""
DEFAULT_ROUNDS = 5000
MOST_SALT = 16


def hashed(password: str) -> str:
    """Return the hash of a password with a new salt; `ValueError` for a password that no login can take."""
    if not password or "\0" in password or "\n" in password:
        raise ValueError("a password of an account is one line of text")
    return sha512_crypt(password, "".join(secrets.choice(ALPHABET) for _ in range(MOST_SALT)), ROUNDS)


def sha512_crypt(password: str, salt: str, rounds: int = DEFAULT_ROUNDS) -> str:
    """Return ``$6$`` with salt and hash; of a salt the first 16 characters count."""
    key, grain = password.encode(), salt[:MOST_SALT].encode()
    second = sha512(key + grain + key).digest()
    first = sha512(key + grain + _long(second, len(key)))
    bits = len(key)
    while bits:
        first.update(second if bits & 1 else key)
        bits >>= 1
    found = first.digest()
    own = _long(sha512(key * len(key)).digest(), len(key))
    grains = _long(sha512(grain * (16 + found[0])).digest(), len(grain))
    for number in range(rounds):
        parts = (own if number & 1 else found, grains if number % 3 else b"", own if number % 7 else b"")
        found = sha512(b"".join((*parts, found if number & 1 else own))).digest()
    stated = "" if rounds == DEFAULT_ROUNDS else f"rounds={rounds}$"
    return f"$6${stated}{grain.decode()}${_text(found)}"


def _long(digest: bytes, length: int) -> bytes:
    return (digest * (length // len(digest) + 1))[:length]


def _text(digest: bytes) -> str:
    at, text = (0, 21, 42), ""
    for _ in range(21):
        text += _letters(digest[at[0]] << 16 | digest[at[1]] << 8 | digest[at[2]], 4)
        at = (at[1] + 1, at[2] + 1, at[0] + 1)
    return text + _letters(digest[63], 2)


def _letters(number: int, count: int) -> str:
    return "".join(ALPHABET[number >> 6 * place & 63] for place in range(count))
