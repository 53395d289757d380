"""SSH host keys of the project's own known_hosts file; a key that is not in it is never accepted."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections import defaultdict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, ClassVar

from vsphere_ai.connect.secure_shell.trusted import MOST_KEYS, name_of
from vsphere_ai.errors import Denied
from vsphere_ai.security.files import read_text, version_of

if TYPE_CHECKING:
    import paramiko

HASHED = "|1|"
"""Begins a name of which only a salt and its HMAC with SHA-1 are in the file: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT."""


def fingerprint(key: paramiko.PKey) -> str:
    """Return ``SHA256:…`` as ssh-keygen shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode("ascii").rstrip("=")


class _KnownLines:
    """The lines of one known_hosts file, by the names that they are for; a key is decoded when a name is looked up."""

    def __init__(self, lines: list[str]) -> None:
        self.revoked: set[str] = set()
        self._lines = lines
        self._plain: defaultdict[str, list[int]] = defaultdict(list)
        self._hashed: list[tuple[bytes, bytes, int]] = []
        self._keys: dict[str, dict[str, paramiko.PKey]] = {}
        for number, line in enumerate(lines):
            # host certificates are not checked, so a line that trusts an authority trusts nothing here
            if line.startswith("@revoked"):
                self.revoked.update(line.split()[3:4])
            elif line and not line.startswith(("#", "@")):
                self._add(re.split("[ \t]", line)[0], number)

    def _add(self, names: str, number: int) -> None:
        for name in names.split(","):
            if not name.startswith(HASHED):
                self._plain[name].append(number)
                continue
            try:
                salt, digest = (base64.b64decode(part, validate=True) for part in name.split("|")[2:])
            except (binascii.Error, ValueError):
                continue  # ssh does not take such a name either
            self._hashed.append((salt, digest, number))

    def keys(self, name: str) -> dict[str, paramiko.PKey]:
        """Return the keys of a name by type; of two lines for one type the first one counts."""
        if name not in self._keys:
            self._keys[name] = self._read(name)
        return self._keys[name]

    def _read(self, name: str) -> dict[str, paramiko.PKey]:
        text = name.encode()
        hashed = (n for salt, digest, n in self._hashed if hmac.digest(salt, text, "sha1") == digest)
        found: dict[str, paramiko.PKey] = {}
        for number in sorted({*self._plain.get(name, ()), *hashed}):
            key = _key_in(self._lines[number], number + 1)
            if key is not None:
                found.setdefault(key.get_name(), key)
        return found


def _key_in(line: str, number: int) -> paramiko.PKey | None:
    """Return the key in a line; None where it is no key that can be used."""
    import paramiko

    try:
        entry = paramiko.hostkeys.HostKeyEntry.from_line(line, number)
    except (paramiko.SSHException, paramiko.hostkeys.InvalidHostKey, ValueError):
        return None
    return entry.key if entry is not None else None


class HostKeys:
    """The keys in one known_hosts file, hashed and ``[address]:port`` entries included.

    A file that is not there is an error, unless `may_be_absent`. `trust` is the command that adds keys. The file is
    read again once it has changed.
    """

    _read: ClassVar[dict[Path, tuple[tuple[int, ...], _KnownLines]]] = {}
    """Files that were read, each as it was then: every login looks for a key, and hashed names are slow to search."""
    _reading: ClassVar[Lock] = Lock()

    def __init__(self, path: Path, trust: str = "vsphere-ai trust host", *, may_be_absent: bool = False) -> None:
        self.path, self._trust = path, trust
        try:
            self._lines = self._known_lines(path)
        except (OSError, UnicodeDecodeError) as error:
            if not may_be_absent or not isinstance(error, FileNotFoundError):
                raise Denied(f"{path} cannot be read: {error}", f"Run `{trust}` for the hosts.") from error
            self._lines = _KnownLines([])

    @classmethod
    def _known_lines(cls, path: Path) -> _KnownLines:
        with cls._reading:
            version = version_of(path)  # before it is read: a change in between is seen the next time
            known = cls._read.get(path)
            if known is None or known[0] != version:
                lines = [line.strip() for line in read_text(path, MOST_KEYS).splitlines()]
                known = cls._read[path] = (version, _KnownLines(lines))
            return known[1]

    def prefer_known_types(self, transport: paramiko.Transport, host: str, address: str, port: int) -> None:
        """Ask the server for the type of key that is known, so that another type does not look like a changed key."""
        types = set(self.known(host, address, port))
        if "ssh-rsa" in types:
            types |= {"rsa-sha2-512", "rsa-sha2-256"}
        options = transport.get_security_options()
        options.key_types = sorted(options.key_types, key=lambda t: t not in types)

    def known(self, host: str, address: str, port: int) -> dict[str, paramiko.PKey]:
        """Return the keys of the address as it is connected to, else those of the host's name."""
        return dict(self._lines.keys(name_of(address, port)) or self._lines.keys(name_of(host, port)))

    def is_revoked(self, key: paramiko.PKey) -> bool:
        """Return whether the file says that a key must not be used any more."""
        return key.get_base64() in self._lines.revoked

    def check(self, host: str, address: str, port: int, key: paramiko.PKey) -> None:
        """Raise Denied unless the key is known for that host."""
        known = self.known(host, address, port)
        shown = f"{key.get_name()} {fingerprint(key)}"
        if self.is_revoked(key):
            said, remedy = f"the host key {shown}, which is revoked in {self.path}", "Do not connect."
        elif any(one == key for one in known.values()):
            return
        elif known:
            expected = ", ".join(f"{kind} {fingerprint(one)}" for kind, one in sorted(known.items()))
            said = f"another host key than the known one: {shown}, expected {expected}"
            remedy = (
                f"If the host was reinstalled, compare with its console and run `{self._trust} {host}`; "
                "otherwise the connection may be intercepted."
            )
        else:
            said = f"an unknown host key: {shown}"
            remedy = f"Compare it with the host's console, then run `{self._trust} {host}`."
        raise Denied(f"{host} shows {said}", remedy, rule="ssh.host-key")
