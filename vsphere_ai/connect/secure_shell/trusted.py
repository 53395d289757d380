"""Trust store of an operator: host keys in a known_hosts file, the certificate of a vCenter in a PEM file."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.errors import Denied
from vsphere_ai.model.names.written_names import known_hosts_name
from vsphere_ai.security.files import MIB, Unfit, locked_folder, make_private_folder, read_text, write_private

if TYPE_CHECKING:
    import paramiko

SSH_PORT = 22
"""The port that a known_hosts file does not name: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT."""
MOST_KEYS = 4 * MIB
"""Bytes of a known_hosts file that are read."""


def name_of(address: str, port: int) -> str:
    """Return how a known_hosts file names a host's SSH service."""
    return address if port == SSH_PORT else f"[{address}]:{port}"


def keep_host_key(path: Path, name: str, key: paramiko.PKey) -> None:
    """Add a host's key to a known_hosts file; it takes the place of its older key of the same type, if any.

    Every other line stays as it is. The file is replaced at once and is its owner's only. `Refused`: a name that would
    mean other hosts.
    """
    known_hosts_name("name of the host", name)
    with locked_folder(path.parent):
        text = _text(path)
        lines = [line for old in text.splitlines() if (line := _without(old, name, key.get_name())) is not None]
        lines.append(f"{name} {key.get_name()} {key.get_base64()}")
        _write(path, ("\n".join(lines) + "\n").encode())


def keep_certificate(path: Path, der: bytes) -> None:
    """Write a certificate as PEM, in place of the one that was there; file and folder are their owner's only."""
    make_private_folder(path.parent)
    with locked_folder(path.parent):
        _write(path, ssl.DER_cert_to_PEM_cert(der).encode())


def _write(path: Path, content: bytes) -> None:
    try:
        write_private(path, content)
    except Unfit as error:
        remedy = "name the file itself; nothing was written"
        raise Denied(f"{path} is not written: {error.strerror}", remedy) from error


def _text(path: Path) -> str:
    try:
        return read_text(path, MOST_KEYS)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Denied(f"{path} cannot be read: {error}", "look at the file; nothing was written") from error


def _without(line: str, name: str, kind: str) -> str | None:
    """Return a line without the host's key of that type: another host's name in it stays."""
    fields = line.split()
    if len(fields) < 3 or fields[0].startswith(("#", "@")) or fields[1] != kind:
        return line
    names = fields[0].split(",")
    kept = [one for one in names if not _is(one, name)]
    if len(kept) == len(names):
        return line
    return " ".join([",".join(kept), *fields[1:]]) if kept else None


def _is(written: str, name: str) -> bool:
    if not written.startswith("|1|"):
        return written == name
    import paramiko

    try:
        return paramiko.HostKeys.hash_host(name, written) == written
    except (ValueError, AssertionError, IndexError):
        return False
