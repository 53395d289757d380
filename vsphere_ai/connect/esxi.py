"""SSH to an ESXi host: known host keys only, one login attempt, and a deadline around every command."""

from __future__ import annotations

import contextlib
import logging
import select
import shlex
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Self

import paramiko

from vsphere_ai.connect.gate import CredentialRefused, LoginGate, credential_id
from vsphere_ai.connect.hostkeys import HostKeys
from vsphere_ai.errors import Denied, OutcomeUnknown, Unreachable, VsphereAiError
from vsphere_ai.model.facts import Output
from vsphere_ai.security.redaction import untrusted

# Without a handler of its own paramiko's thread prints every broken connection on stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

LARGEST_OUTPUT = 4 << 20
_LATE, _BROKE = "it did not end in time", "the connection broke"
# paramiko still offers these for old servers: https://www.openssh.com/txt/release-6.7 dropped them in 2014.
WEAK = {
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc", "blowfish-cbc"],
    "macs": ["hmac-md5", "hmac-md5-96", "hmac-sha1", "hmac-sha1-96"],
    "kex": ["diffie-hellman-group1-sha1", "diffie-hellman-group14-sha1", "diffie-hellman-group-exchange-sha1"],
}


class SshRefused(Unreachable):
    """The host answers, but nothing listens: the SSH service is stopped."""


class Broken(Unreachable):
    """The connection ended in the middle of the handshake, the login or a command that only reads."""

    def __init__(self, message: str, remedy: str = "", *, before_login: bool = False) -> None:
        super().__init__(message, remedy)
        self.before_login = before_login


@dataclass(frozen=True)
class SshEndpoint:
    """An ESXi host's SSH service. `host` is the name in vCenter, `address` and `port` are what is connected to."""

    host: str
    address: str
    port: int
    username: str
    known_hosts: Path
    password: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    passphrase: str | None = field(default=None, repr=False)


STOPPED = 5.0
"""Seconds beyond a limit that only pass while this process is stopped or its machine sleeps, not the host."""


@dataclass(frozen=True)
class SshLimits:
    """Seconds to connect, until the server's banner, and for the login; and how often a broken one is begun."""

    connect: float = 10.0
    banner: float = 15.0
    login: float = 15.0
    attempts: int = 3
    pause: float = 1.0


class Ssh:
    """A connection to one host, opened by the first command. A context manager that closes it."""

    def __init__(
        self, endpoint: SshEndpoint, limits: SshLimits | None = None, *, gate: LoginGate | None = None
    ) -> None:
        self.endpoint = endpoint
        self.limits = limits or SshLimits()
        self._gate = gate or LoginGate()
        self._transport: paramiko.Transport | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a running command is left to the host."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def open(self) -> None:
        """Connect and log in. Unreachable (SshRefused when nothing listens) or Denied when that fails."""
        if self._transport is not None and self._transport.is_active():
            return
        self.close()
        keys = HostKeys(self.endpoint.known_hosts)
        for left in reversed(range(self.limits.attempts)):
            try:
                self._transport = self._logged_in(keys)
                return
            except Broken as broken:
                # A login that breaks off may have counted as a failed one, unless the credential is known to be right.
                if not left or not (broken.before_login or self._gate.knows(self._credential())):
                    raise
                time.sleep(self.limits.pause)

    def check_credential(self) -> None:
        """Raise Denied when another host refused the same credential before: it is not going to be tried."""
        self._gate.check(self._credential())

    def _logged_in(self, keys: HostKeys) -> paramiko.Transport:
        transport = self._handshake(keys)
        try:
            keys.check(self.endpoint.host, self.endpoint.address, self.endpoint.port, transport.get_remote_server_key())
            self._gate.login(self._credential(), lambda: self._login(transport))
        except BaseException:
            transport.close()
            raise
        return transport

    def run(self, argv: Sequence[str], deadline_s: float, *, changes: bool = False) -> Output:
        """Run one command and return its status and output.

        Without an end within `deadline_s` seconds, or when the connection breaks, the connection is closed, and the
        error is OutcomeUnknown if the command `changes` something, else Unreachable.
        """
        transport, channel = self._session(deadline_s)
        deadline = time.monotonic() + deadline_s
        command = shlex.join(argv)
        # paramiko waits for the answer to exec without any limit; only closing the connection wakes it.
        watchdog = threading.Timer(max(0.1, deadline - time.monotonic()), transport.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            channel.exec_command(command)
            return self._collect(channel, deadline)
        except _Cut as cut:
            self._abandon(command, str(cut), changes=changes)
        except Exception as error:  # paramiko's parser lets anything out when bytes are damaged on their way
            deferred = time.monotonic() >= deadline
            why = _LATE if deferred else f"{_BROKE} ({_say(error)})"
            self._abandon(command, why, changes=changes)
        finally:
            watchdog.cancel()
            with contextlib.suppress(Exception):  # it sends a message to a peer that may be gone
                channel.close()

    def _session(self, deadline_s: float) -> tuple[paramiko.Transport, paramiko.Channel]:
        """Open a session, on a new connection where the present one has broken: nothing was sent yet."""
        for left in reversed(range(self.limits.attempts)):
            self.open()
            transport = self._transport
            try:
                if transport is not None:
                    return transport, transport.open_session(timeout=deadline_s)
            except Exception as error:
                said_no = isinstance(error, paramiko.ChannelException) or "timeout" in str(error).lower()
                self.close()
                if said_no or not left:
                    raise Unreachable(f"{self.endpoint.host}: no SSH session could be opened: {_say(error)}") from error
        raise Unreachable(f"{self.endpoint.host}: the SSH connection is closed")

    def _abandon(self, command: str, why: str, *, changes: bool) -> NoReturn:
        self.close()
        if changes:
            raise OutcomeUnknown(
                f"{self.endpoint.host}: `{command}`: {why}", "Plan again to see whether it took effect."
            )
        kind = Broken if why.startswith(_BROKE) else Unreachable
        raise kind(f"{self.endpoint.host}: `{command}`: {why}", "Look whether the host is well, then try again.")

    def _collect(self, channel: paramiko.Channel, deadline: float) -> Output:
        """Read both streams and the exit status. paramiko's own wait for the status knows no deadline."""
        out, err = bytearray(), bytearray()
        while True:
            while channel.recv_ready():
                out += channel.recv(1 << 16)
            while channel.recv_stderr_ready():
                err += channel.recv_stderr(1 << 16)
            if len(out) + len(err) > LARGEST_OUTPUT:
                raise _Cut(f"it wrote more than {LARGEST_OUTPUT >> 20} MiB")
            left = deadline - time.monotonic()
            if left <= 0:
                raise _Cut(_LATE)
            if channel.eof_received or channel.closed:
                if channel.recv_ready() or channel.recv_stderr_ready():
                    continue
                if not channel.status_event.wait(left):
                    raise _Cut(_LATE)
                break
            select.select([channel], [], [], min(left, 1.0))
        if channel.exit_status < 0:
            deferred = time.monotonic() >= deadline
            raise _Cut(_LATE if deferred else f"{_BROKE} before its exit status came")
        return Output(channel.exit_status, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def _handshake(self, keys: HostKeys) -> paramiko.Transport:
        at = self.endpoint
        try:
            raw = socket.create_connection((at.address, at.port), self.limits.connect)
        except ConnectionRefusedError as error:
            raise SshRefused(
                f"{at.host}: nothing listens on {at.address}:{at.port}", "Start the host's SSH service (TSM-SSH)."
            ) from error
        except OSError as error:
            raise Unreachable(
                f"{at.host}: {at.address}:{at.port} cannot be reached: {_say(error)}", "Check address and firewalls."
            ) from error
        with contextlib.suppress(OSError):  # reset already: the handshake will fail
            # Two small packets a command: with Nagle's algorithm on, each costs 40 ms.
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.monotonic()
        transport = paramiko.Transport(raw, disabled_algorithms=WEAK)
        transport.banner_timeout = self.limits.banner
        transport.auth_timeout = self.limits.login
        keys.prefer_known_types(transport, at.host, at.address, at.port)
        try:
            transport.start_client(timeout=self.limits.banner)
            # After its time start_client just returns; only here it shows whether there was a handshake.
            transport.get_remote_server_key()
        except Exception as error:
            transport.close()
            said, remedy = (
                f"{at.host}: no SSH handshake: {_say(error)}",
                "The host may be starting up or shutting down.",
            )
            if self.limits.banner <= time.monotonic() - begun < self.limits.banner + STOPPED:
                raise Unreachable(said, remedy) from error
            raise Broken(said, remedy, before_login=True) from error
        return transport

    def _credential(self) -> str:
        at = self.endpoint
        return credential_id(at.username, at.password, str(at.key_file or ""), at.passphrase)

    def _login(self, transport: paramiko.Transport) -> None:
        at, begun = self.endpoint, time.monotonic()
        try:
            if at.key_file is not None:
                transport.auth_publickey(at.username, self._key(at.key_file))
            else:
                self._with_password(transport, at.password or "")
        except paramiko.AuthenticationException as error:
            # A timeout of the login comes as an AuthenticationException as well, and says nothing about credentials.
            if "timeout" in str(error).lower():
                kind = Unreachable if time.monotonic() - begun < self.limits.login + STOPPED else Broken
                raise kind(f"{at.host}: the SSH login got no answer: {_say(error)}") from error
            if "EOF" in str(error):  # "transport shut down or saw EOF": the login was not refused
                raise Broken(f"{at.host}: the SSH login broke off: {_say(error)}") from error
            raise CredentialRefused(
                f"{at.host} does not accept the SSH login of {at.username}",
                "Correct ssh: in the inventory. It is not tried again: ESXi locks an account after a few failures.",
            ) from error
        except VsphereAiError:
            raise
        except Exception as error:
            raise Broken(f"{at.host}: the SSH login broke off: {_say(error)}") from error
        if not transport.is_authenticated():
            raise Denied(f"{at.host} wants more than one factor for the SSH login of {at.username}")

    def _with_password(self, transport: paramiko.Transport, password: str) -> None:
        """Ask what the server takes, then try once: ESXi takes passwords by keyboard-interactive only."""
        username = self.endpoint.username
        allowed: list[str] = []
        try:
            transport.auth_none(username)
        except paramiko.BadAuthenticationType as answer:
            allowed = list(answer.allowed_types)
        if transport.is_authenticated():
            return
        if "password" in allowed:
            transport.auth_password(username, password, fallback=False)
        elif "keyboard-interactive" in allowed:
            transport.auth_interactive(username, lambda _title, _text, prompts: [password] * len(prompts))
        else:
            raise Denied(
                f"{self.endpoint.host} takes no passwords over SSH, only {', '.join(allowed) or 'nothing'}",
                "Give a key file under ssh: in the inventory.",
            )

    def _key(self, path: Path) -> paramiko.PKey:
        try:
            secret = self.endpoint.passphrase
            return paramiko.PKey.from_path(path, secret.encode() if secret else None)  # type: ignore[arg-type]
        except (paramiko.SSHException, OSError, ValueError, TypeError) as error:
            raise Denied(f"the SSH key {path} cannot be used: {_say(error)}", "Check file and passphrase.") from error


def fetch_host_key(address: str, port: int, *, known: HostKeys | None = None, host: str = "") -> paramiko.PKey:
    """Return the key a host shows now, for an operator to compare and trust, without a login.

    With `known` the host is asked for a type of key that is known of it, so that the two can be compared.
    """
    limits = SshLimits()
    try:
        raw = socket.create_connection((address, port), limits.connect)
        transport = paramiko.Transport(raw, disabled_algorithms=WEAK)
        with contextlib.closing(transport):
            transport.banner_timeout = limits.banner
            if known is not None:
                known.prefer_known_types(transport, host or address, address, port)
            transport.start_client(timeout=limits.banner)
            return transport.get_remote_server_key()
    except ConnectionRefusedError as error:
        raise SshRefused(f"nothing listens on {address}:{port}", "Start the host's SSH service.") from error
    except Exception as error:
        raise Unreachable(f"{address}:{port} shows no host key: {_say(error)}") from error


class _Cut(Exception):
    """The command's end was not seen."""


def _say(error: BaseException) -> str:
    said = untrusted(str((error.strerror if isinstance(error, OSError) else None) or error))
    return said or ("the connection was closed" if isinstance(error, EOFError) else type(error).__name__)
