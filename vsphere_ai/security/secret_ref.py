"""Secrets, and the references to them in files: a secret is kept out of every output."""

from __future__ import annotations

import hmac
import re
from typing import NoReturn

from vsphere_ai.errors import Denied
from vsphere_ai.security import child_environment, redaction
from vsphere_ai.security.redaction import MASK

# one line of text: behind a line break of any kind may be a secret that was pasted there
_BREAKS = r"\0\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
REFERENCE = re.compile(
    r"env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)"
    rf"|file:(?P<file>[^{_BREAKS}]*[^{_BREAKS}/])"
    rf"|cmd:(?P<cmd>[^{_BREAKS}]*[^{_BREAKS}\s])"
    rf"|keyring:(?P<service>[^{_BREAKS}/]+)/(?P<user>[^{_BREAKS}]+)"
    r"|(?P<prompt>prompt:)"
)
FORMS = '"env:NAME", "file:PATH", "cmd:PROGRAM ARGUMENTS", "keyring:SERVICE/USER" or "prompt:"'


class NoPassword(Denied, rule="password.none"):
    """No password that can be used is behind a reference."""


class Secret:
    """A value that shows itself as ``***`` wherever it is printed; only `reveal` gives it away.

    It is also registered with `redaction`, which masks it in every other text.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        redaction.register(value)

    def reveal(self) -> str:
        """Return the value itself, to be handed straight to the peer that asks for it."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied into a file")


def is_reference(text: str) -> bool:
    """Return whether a text names the place of a secret (and is not the secret itself)."""
    return REFERENCE.fullmatch(text) is not None


def require_reference(text: object, what: str = "password") -> str:
    """Return a reference of a file, for fields of models; `ValueError`, which does not repeat it, for anything else.

    A variable that it names is withheld from programs from now on (`child_environment`).
    """
    if not (isinstance(text, str) and is_reference(text)):
        raise ValueError(f"a {what} must not be in the file\nname the place it is in: {FORMS}")
    parse(text)
    return text


def parse(reference: str) -> dict[str, str]:
    """Return the parts of a reference by name (`REFERENCE`'s groups that are given); `NoPassword` when it is none.

    A variable that it names is withheld from programs from now on.
    """
    found = REFERENCE.fullmatch(reference)
    if found is None:
        # The text may be a password in the wrong place: it is not repeated here.
        raise NoPassword("this is not a reference to a password", f"write {FORMS}")
    if found["env"]:
        child_environment.withhold(found["env"])
    return {name: text for name, text in found.groupdict().items() if text is not None}
