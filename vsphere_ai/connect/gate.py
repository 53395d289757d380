"""Gate for logins: a credential that was refused once is not tried again in a run, so that no account gets locked."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from vsphere_ai.errors import Denied


class CredentialRefused(Denied, rule="login.refused"):
    """A host was given a credential and did not accept it; this is what counts towards a locked account."""


class LoginGate:
    """Shared by every SSH connection of a run.

    A credential is given to one host at a time: also one that was accepted may be refused from now on, because it has
    expired or was changed, and then the others wait for that outcome. ESXi 7 locks an account for
    15 minutes after five failures (Security.AccountLockFailures, Security.AccountUnlockTime).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alone: dict[str, threading.Lock] = {}
        self._good: set[str] = set()
        self._refused: dict[str, str] = {}

    def login(self, credential: str, attempt: Callable[[], None]) -> None:
        """Run one login attempt; raise Denied without an attempt when the credential was refused before."""
        with self._lock:
            alone = self._alone.setdefault(credential, threading.Lock())
        with alone:
            self._try(credential, attempt)

    def knows(self, credential: str) -> bool:
        """Return whether a credential was accepted before in this run."""
        with self._lock:
            return credential in self._good

    def check(self, credential: str) -> None:
        """Raise Denied when the credential was refused before in this run."""
        with self._lock:
            refused = self._refused.get(credential)
        if refused is not None:
            raise Denied(
                f"not tried: the same SSH credential was refused before ({refused})",
                "Correct ssh: in the inventory. ESXi locks an account after a few failures.",
                rule="ssh.refused-before",
            )

    def _try(self, credential: str, attempt: Callable[[], None]) -> None:
        self.check(credential)
        try:
            attempt()
        except CredentialRefused as error:
            with self._lock:
                self._refused[credential] = error.message
            raise
        with self._lock:
            self._good.add(credential)


def credential_id(*parts: str | None) -> str:
    """Return an id for a credential that does not show it."""
    return hashlib.sha256("\0".join(p or "" for p in parts).encode()).hexdigest()
