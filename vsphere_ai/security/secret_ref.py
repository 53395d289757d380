"""Secrets, and the references to them in files: a secret is kept out of every output."""

from __future__ import annotations

import hmac
import os
import re
import stat
from pathlib import Path
from typing import NoReturn

from vsphere_ai.errors import Denied
from vsphere_ai.security import redaction
from vsphere_ai.security.redaction import MASK

LIMIT = 64 * 1024
REFERENCE = re.compile(
    r"env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)"
    r"|file:(?P<file>[^\0\r\n]*[^\0\r\n/])"
    r"|cmd:(?P<cmd>[^\0\r\n]*[^\0\r\n\s])"
    r"|keyring:(?P<service>[^\0\r\n/]+)/(?P<user>[^\0\r\n]+)"
    r"|(?P<prompt>prompt:)"
)
_LIKE_A_VARIABLE = re.compile(r"[A-Z][A-Z0-9]{0,4}|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
"""Names that are repeated in a message: no password is that short, or capital words with underscores between them."""
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


def parse(reference: str) -> dict[str, str]:
    """Return the parts of a reference by name (`REFERENCE`'s groups that are given); `NoPassword` when it is none."""
    found = REFERENCE.fullmatch(reference)
    if found is None:
        # The text may be a password in the wrong place: it is not repeated here.
        raise NoPassword("this is not a reference to a password", f"write {FORMS}")
    return {name: text for name, text in found.groupdict().items() if text is not None}


def resolve(reference: str, base: Path | None = None, *, purpose: str = "password") -> Secret:
    """Fetch the secret behind ``env:NAME`` or ``file:PATH`` (relative to `base`); `NoPassword` when it is not there.

    The other references need more than the environment and files: see `credentials.fetch`. `purpose` says which
    password is meant, where the name behind ``env:`` may be the password itself, typed in the wrong place.
    """
    match parse(reference):
        case {"env": name}:
            return _from_environment(name, purpose)
        case {"file": path}:
            return _from_file((base or Path()) / os.path.expanduser(path), purpose)
        case _:
            raise NoPassword(f"a {reference.partition(':')[0]}: reference cannot be used here", f"write {FORMS}")


def _from_environment(name: str, purpose: str) -> Secret:
    value = os.environ.get(name)
    if value is None and not _LIKE_A_VARIABLE.fullmatch(name):
        raise NoPassword(
            f"the environment variable of the {purpose} is not set",
            "look at env: in the inventory: behind it is the name of a variable; it is not shown because it may be a "
            "password",
        )
    if value is None:
        raise NoPassword(f"the environment variable {name} is not set", f"set it, e.g.: read -rs {name}; export {name}")
    if not value:
        raise NoPassword(f"the environment variable {name} is empty")
    return Secret(value)


def _open_now(path: str, flags: int) -> int:
    # A named pipe must not hang the tool before it is seen not to be a file.
    return os.open(path, flags | os.O_NONBLOCK)


def _from_file(path: Path, purpose: str) -> Secret:
    try:
        with open(path, "rb", opener=_open_now) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise NoPassword(f"the password file {path} is not a regular file")
            if mode & 0o077:
                remedy = f"let only its owner read it: chmod 600 {path}"
                raise NoPassword(f"the password file {path} can be read by others (mode {mode & 0o777:03o})", remedy)
            content = file.read(LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        folder = next(above for above in path.absolute().parents if above.is_dir())
        raise NoPassword(
            f"the file of the {purpose} is not there: {folder} has nothing of the name given",
            "look at file: in the inventory: behind it is a path; it is not shown because it may be a password",
        ) from None
    except OSError as fault:
        raise NoPassword(f"the password file {path} cannot be read: {fault.strerror}") from None
    if len(content) > LIMIT:
        raise NoPassword(f"the password file {path} is larger than {LIMIT // 1024} KiB: this is not a password")
    try:
        value = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise NoPassword(f"the password file {path} is not UTF-8 text") from None
    if not value:
        raise NoPassword(f"the password file {path} is empty")
    return Secret(value)
