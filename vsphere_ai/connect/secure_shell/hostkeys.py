"""SSH host keys of the project's own known_hosts file; a key that is not in it is never accepted."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import paramiko

from vsphere_ai.connect.secure_shell.trusted import MOST_KEYS, name_of
from vsphere_ai.errors import Denied
from vsphere_ai.security.files import read_text


def fingerprint(key: paramiko.PKey) -> str:
    """Return ``SHA256:…`` as ssh-keygen shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode("ascii").rstrip("=")


class HostKeys:
    """The keys in one known_hosts file, hashed and ``[address]:port`` entries included.

    A file that is not there is an error, unless `may_be_absent`. `trust` is the command that adds keys.
    """

    def __init__(self, path: Path, trust: str = "vsphere-ai trust host", *, may_be_absent: bool = False) -> None:
        self.path, self._trust = path, trust
        self._keys = paramiko.HostKeys()
        self._revoked: set[str] = set()
        try:
            lines = read_text(path, MOST_KEYS).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            if may_be_absent and isinstance(error, FileNotFoundError):
                return
            raise Denied(f"{path} cannot be read: {error}", f"Run `{trust}` for the hosts.") from error
        for number, line in enumerate(lines, 1):
            self._add(line.strip(), number)

    def _add(self, line: str, number: int) -> None:
        if line.startswith("@revoked"):
            self._revoked.update(line.split()[3:4])
            return
        # Host certificates are not checked, so a line that trusts an authority trusts nothing here.
        if not line or line.startswith(("#", "@")):
            return
        try:
            entry = paramiko.hostkeys.HostKeyEntry.from_line(line, number)
        except (paramiko.SSHException, paramiko.hostkeys.InvalidHostKey, ValueError):
            entry = None
        if entry is not None:
            self._keys._entries.append(entry)  # type: ignore[attr-defined] # its own load() stops at a bad line

    def prefer_known_types(self, transport: paramiko.Transport, host: str, address: str, port: int) -> None:
        """Ask the server for the type of key that is known, so that another type does not look like a changed key."""
        types = set(self.known(host, address, port))
        if "ssh-rsa" in types:
            types |= {"rsa-sha2-512", "rsa-sha2-256"}
        options = transport.get_security_options()
        options.key_types = sorted(options.key_types, key=lambda t: t not in types)

    def known(self, host: str, address: str, port: int) -> dict[str, paramiko.PKey]:
        """Return the keys of the address as it is connected to, else those of the host's name."""
        for name in (address, host):
            found = self._keys.lookup(name_of(name, port))
            if found:
                return {kind: found[kind] for kind in found if found[kind] is not None}
        return {}

    def is_revoked(self, key: paramiko.PKey) -> bool:
        """Return whether the file says that a key must not be used any more."""
        return key.get_base64() in self._revoked

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
