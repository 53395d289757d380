"""Logins over SSH: one attempt with a password or a key file, or with the keys of the SSH agent."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vsphere_ai.connect.gate import CredentialRefused
from vsphere_ai.connect.secure_shell.ssh_endpoint import STOPPED, ConnectionBroken, SshEndpoint, SshLimits, say
from vsphere_ai.errors import Denied, Unreachable, VsphereAiError
from vsphere_ai.security.files import SMALL, read_bytes, read_text

if TYPE_CHECKING:
    import paramiko

MOST_KEYS = 5
"""Keys of an agent that are tried; OpenSSH ends a connection after six attempts (MaxAuthTries)."""


def log_in(transport: paramiko.Transport, at: SshEndpoint, limits: SshLimits) -> None:
    """Log in to a server whose key is known: `CredentialRefused`, `Denied`, `ConnectionBroken`, `Unreachable`."""
    import paramiko

    begun = time.monotonic()
    try:
        if at.key_file is not None:
            transport.auth_publickey(at.username, read_key(at))
        elif at.agent:
            _with_agent(transport, at)
        else:
            _with_password(transport, at)
    except paramiko.AuthenticationException as error:
        # A timeout of the login comes as an AuthenticationException as well, and says nothing about credentials.
        if "timeout" in str(error).lower():
            kind = Unreachable if time.monotonic() - begun < limits.login + STOPPED else ConnectionBroken
            raise kind(f"{at.host}: the SSH login got no answer: {say(error)}") from error
        if "EOF" in str(error):  # "transport shut down or saw EOF": the login was not refused
            raise ConnectionBroken(f"{at.host}: the SSH login broke off: {say(error)}", at.advice.starting) from error
        raise CredentialRefused(
            f"{at.host} does not accept the SSH login of {at.username}", at.advice.refused
        ) from error
    except VsphereAiError:
        raise
    except Exception as error:
        raise ConnectionBroken(f"{at.host}: the SSH login broke off: {say(error)}", at.advice.starting) from error
    if not transport.is_authenticated():
        text = f"{at.host} wants more than one factor for the SSH login of {at.username}"
        raise Denied(text, "use an account that logs in with a key or a password alone")


def read_key(at: SshEndpoint) -> paramiko.PKey:
    """Return the private key of an endpoint's key file; `Denied` when it cannot be used."""
    import paramiko

    try:
        if at.key_file is None:
            raise ValueError("no key file is given")
        key = _key_of(read_bytes(at.key_file, SMALL), at.passphrase)
        certificate = at.key_file.with_name(f"{at.key_file.name}-cert.pub")  # as the OpenSSH client takes it
        if certificate.exists():
            key.load_certificate(read_text(certificate, SMALL).strip())
        return key
    except OSError as error:
        text = f"the SSH key {at.key_file} cannot be used: {error.strerror or say(error)}"
        raise Denied(text, "Check file and passphrase.") from error
    except (paramiko.SSHException, ValueError, TypeError) as error:
        raise Denied(f"the SSH key {at.key_file} cannot be used: {say(error)}", "Check file and passphrase.") from error


def _key_of(data: bytes, passphrase: str | None) -> paramiko.PKey:
    """Return the private key of a file's content, as `PKey.from_path` does, which opens the file itself."""
    import paramiko
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    secret = passphrase.encode() if passphrase else None
    try:
        loaded: object = load_ssh_private_key(data, secret)
    except ValueError:
        loaded = load_pem_private_key(data, secret)
    made: type[paramiko.RSAKey | paramiko.Ed25519Key | paramiko.ECDSAKey]
    if isinstance(loaded, RSAPrivateKey):
        made = paramiko.RSAKey
    elif isinstance(loaded, Ed25519PrivateKey):
        made = paramiko.Ed25519Key
    elif isinstance(loaded, EllipticCurvePrivateKey):
        made = paramiko.ECDSAKey
    else:
        raise ValueError(f"keys of the type {type(loaded).__name__} are not used")
    return made.from_private_key(io.StringIO(data.decode()), secret)  # type: ignore[arg-type]


def _with_password(transport: paramiko.Transport, at: SshEndpoint) -> None:
    """Ask what the server takes, then try once: ESXi takes passwords by keyboard-interactive only."""
    import paramiko

    allowed: Sequence[str] = ()
    password = at.password or ""
    try:
        transport.auth_none(at.username)
    except paramiko.BadAuthenticationType as answer:
        allowed = answer.allowed_types
    if transport.is_authenticated():
        return
    if "password" in allowed:
        transport.auth_password(at.username, password, fallback=False)
    elif "keyboard-interactive" in allowed:
        transport.auth_interactive(at.username, lambda _title, _text, prompts: [password] * len(prompts))
    else:
        takes = ", ".join(allowed) or "nothing"
        raise Denied(f"{at.host} takes no passwords over SSH, only {takes}", at.advice.methods)


def _with_agent(transport: paramiko.Transport, at: SshEndpoint) -> None:
    """Try the keys of the SSH agent one after the other, as the OpenSSH client does."""
    import paramiko

    agent = paramiko.Agent()
    try:
        keys = agent.get_keys()[:MOST_KEYS]
        if not keys:
            raise Denied("the SSH agent has no keys, or none runs (SSH_AUTH_SOCK)", "Add one with ssh-add.")
        for left, key in zip(reversed(range(len(keys))), keys, strict=True):
            try:
                transport.auth_publickey(at.username, key)
                return
            except paramiko.AuthenticationException as error:
                if not left or not transport.is_active() or "timeout" in str(error).lower():
                    raise
    finally:
        agent.close()
