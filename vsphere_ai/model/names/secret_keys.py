"""Keys of secrets, known by the words that a key is made of, not by letters within one."""

from __future__ import annotations

import re
from functools import lru_cache

WORDS = frozenset(
    (
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "passkey",
        "secret",
        "token",
        "pass",
        "pwd",
        "pw",
        "cred",
        "webhook",
    )
)
"""Words of which a key of a secret has one: ``root_password``, ``apiToken``; the URL of a webhook is mostly one."""
_LONG = ("password", "passwd", "passphrase", "secret", "credential")
"""Words that also stand in the plural, begin or end a longer one: ``rootpassword``."""
_PAIRS = re.compile(r"(?:^| )(?:api|private|access) key(?: |$)")
_MISSPELT = {"password": 2, "passphrase": 2, "passwd": 1}
"""Words that operators misspell -> letters by which a misspelling differs at most."""
_RIGHT = frozenset(("passed", "passport"))
"""Words that are near to one of those, and are spelt right."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+|[^\W_]+")


@lru_cache(maxsize=4096)
def has_secret_word(key: str) -> bool:
    """Return whether a key is that of a secret by its words, all of them spelt right."""
    parts = _parts(key)
    return _PAIRS.search(" ".join(parts)) is not None or any(map(_is_secret_word, parts))


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Return whether a key is that of a secret, also where it is misspelt."""
    return has_secret_word(key) or any(map(_is_misspelt, _parts(key)))


def _parts(key: str) -> list[str]:
    return [part.lower().rstrip("0123456789") for part in _PARTS.findall(key)]


def _is_secret_word(word: str) -> bool:
    is_long = word.startswith(_LONG[:3]) or word.removesuffix("s").endswith(_LONG)
    return word in WORDS or is_long or word.endswith("token")


def _is_misspelt(word: str) -> bool:
    return word not in _RIGHT and any(
        abs(len(word) - len(right)) <= most and _distance(word, right) <= most for right, most in _MISSPELT.items()
    )


def _distance(one: str, other: str) -> int:
    """Return how many letters are to be changed, left out, added, or swapped with their neighbours."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        here = [row]
        for column, against in enumerate(other, 1):
            found = min(above[column] + 1, here[-1] + 1, above[column - 1] + (letter != against))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == against:
                found = min(found, before[column - 2] + 1)
            here.append(found)
        before, above = above, here
    return above[-1]
