"""SSH connections: known host keys only, one login, and a deadline and a most of output around every command."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Self

import paramiko

from vsphere_ai.connect.gate import LoginGate, credential_id
from vsphere_ai.connect.hostkeys import HostKeys
from vsphere_ai.connect.ssh_endpoint import STOPPED, Broken, Ended, SshEndpoint, SshLimits, SshRefused, Unended, say
from vsphere_ai.connect.ssh_login import log_in
from vsphere_ai.errors import Unreachable

# Without a handler of its own paramiko's thread prints every broken connection on stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

LARGEST_OUTPUT = 4 << 20
LARGEST_GREETING = 1 << 20
"""Bytes a server may send until a login has succeeded: banners and the handshake."""
_LATE, _BROKE = "it did not end in time", "the connection broke"
_PAUSE = 0.02
"""Seconds until more of a command's input is sent, where its machine takes no more now."""
# paramiko still offers these for old servers: https://www.openssh.com/txt/release-6.7 dropped them in 2014.
WEAK = {
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc", "blowfish-cbc"],
    "macs": ["hmac-md5", "hmac-md5-96", "hmac-sha1", "hmac-sha1-96"],
    "kex": ["diffie-hellman-group1-sha1", "diffie-hellman-group14-sha1", "diffie-hellman-group-exchange-sha1"],
}


Seen = Callable[[bytes], None] | None
"""Is given the output of a command piece by piece."""


class SshClient:
    """A connection to one machine, opened by the first command. A context manager that closes it."""

    def __init__(
        self, endpoint: SshEndpoint, limits: SshLimits | None = None, *, gate: LoginGate | None = None
    ) -> None:
        self.endpoint = endpoint
        self.limits = limits or SshLimits()
        self._gate = gate or LoginGate()
        self._transport: paramiko.Transport | None = None
        self._opening = threading.Lock()

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
        with self._opening:
            if self._transport is None or not self._transport.is_active():
                self.close()
                self._open()

    def _open(self) -> None:
        keys = HostKeys(self.endpoint.known_hosts, self.endpoint.advice.trust)
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

    def _credential(self) -> str:
        at = self.endpoint
        return credential_id(at.username, at.password, str(at.key_file or ""), at.passphrase)

    def _login(self, transport: paramiko.Transport) -> None:
        log_in(transport, self.endpoint, self.limits)

    def _logged_in(self, keys: HostKeys) -> paramiko.Transport:
        transport, greeting = self._handshake(keys)
        try:
            keys.check(self.endpoint.host, self.endpoint.address, self.endpoint.port, transport.get_remote_server_key())
            self._gate.login(self._credential(), lambda: self._login(transport))
        except BaseException:
            transport.close()
            raise
        greeting.is_over()
        return transport

    def carry_out(
        self,
        command: str,
        deadline_s: float,
        *,
        most: int = LARGEST_OUTPUT,
        stdin: bytes | None = None,
        seen: Seen = None,
    ) -> Ended:
        """Run a command of a shell and return what it ended with; `Unended`, on a closed connection, without an end.

        `most` is how many bytes of output are taken. `stdin` is what the command reads, up to its end; `seen` is given
        its output piece by piece, as it comes.
        """
        transport, channel = self._session(deadline_s)
        deadline = time.monotonic() + deadline_s
        # paramiko waits for the answer to exec without any limit; only closing the connection wakes it.
        watchdog = threading.Timer(max(0.1, deadline - time.monotonic()), transport.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            channel.exec_command(command)
            return _collect(channel, deadline, most, stdin, seen)
        except Unended:
            self.close()
            raise
        except Exception as error:  # paramiko's parser lets anything out when bytes are damaged on their way
            self.close()
            late = time.monotonic() >= deadline
            raise Unended(_LATE if late else f"{_BROKE} ({say(error)})", broke=not late) from error
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
                    text = f"{self.endpoint.host}: no SSH session could be opened: {say(error)}"
                    raise Unreachable(text, self.endpoint.advice.starting) from error
        raise Unreachable(f"{self.endpoint.host}: the SSH connection is closed", "start the command again")

    def _handshake(self, keys: HostKeys) -> tuple[paramiko.Transport, _Greeting]:
        at = self.endpoint
        try:
            raw = socket.create_connection((at.address, at.port), self.limits.connect)
        except ConnectionRefusedError as error:
            raise SshRefused(f"{at.host}: nothing listens on {at.address}:{at.port}", at.advice.stopped) from error
        except OSError as error:
            raise Unreachable(
                f"{at.host}: {at.address}:{at.port} cannot be reached: {say(error)}", "Check address and firewalls."
            ) from error
        with contextlib.suppress(OSError):  # reset already: the handshake will fail
            # Two small packets a command: with Nagle's algorithm on, each costs 40 ms.
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.monotonic()
        greeting = _Greeting(raw)
        transport = paramiko.Transport(greeting, disabled_algorithms=WEAK)  # type: ignore[arg-type] # all it calls
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
                f"{at.host}: no SSH handshake: {say(error)}",
                at.advice.starting,
            )
            if self.limits.banner <= time.monotonic() - begun < self.limits.banner + STOPPED:
                raise Unreachable(said, remedy) from error
            if greeting.flooded:
                raise Unreachable(said, "Look whether this is an SSH server.") from error
            raise Broken(said, remedy, before_login=True) from error
        return transport, greeting


def _collect(channel: paramiko.Channel, deadline: float, most: int, stdin: bytes | None, seen: Seen) -> Ended:
    """Read both streams and the exit status. paramiko's own wait for the status knows no deadline."""
    out, err = bytearray(), bytearray()
    pending = _Input(channel, stdin)
    while True:
        while channel.recv_ready() and len(out) <= most:
            piece = channel.recv(1 << 16)
            out += piece
            if seen is not None:
                seen(piece)
        while channel.recv_stderr_ready() and len(err) <= most:
            err += channel.recv_stderr(1 << 16)
        if len(out) + len(err) > most:
            return Ended(-1, bytes(out[:most]), bytes(err[: max(0, most - len(out))]), cut=True)
        left = deadline - time.monotonic()
        if left <= 0:
            raise Unended(_LATE)
        if channel.eof_received or channel.closed:
            if channel.recv_ready() or channel.recv_stderr_ready():
                continue
            if not channel.status_event.wait(left):
                raise Unended(_LATE)
            break
        pending.send()
        select.select([channel], [], [], min(left, _PAUSE if pending.left else 1.0))
    if channel.exit_status < 0:
        late = time.monotonic() >= deadline
        raise Unended(_LATE if late else f"{_BROKE} before its exit status came", broke=not late)
    return Ended(channel.exit_status, bytes(out), bytes(err))


class _Input:
    """What a command reads, sent as far as its machine takes it. None: its input stays open and empty."""

    def __init__(self, channel: paramiko.Channel, data: bytes | None) -> None:
        self.channel, self.left, self.is_open = channel, memoryview(data or b""), data is not None

    def send(self) -> None:
        """Send what can be sent without waiting, and the end after the last byte."""
        while self.left and self.channel.send_ready():
            self.left = self.left[self.channel.send(bytes(self.left[: 1 << 15])) :]
        if self.is_open and not self.left:
            self.channel.shutdown_write()
            self.is_open = False


class _Greeting:
    """A socket that brings no more than `LARGEST_GREETING` bytes until the greeting is over."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw, self._left, self._bounded = raw, LARGEST_GREETING, True

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._raw, name)
        return found

    def is_over(self) -> None:
        """Let the peer send as much as it wants from now on."""
        self._bounded = False

    @property
    def flooded(self) -> bool:
        """Whether the peer has sent too much."""
        return self._left < 0

    def recv(self, most: int) -> bytes:
        """Return what the peer sent; `OSError` once it is too much."""
        data = self._raw.recv(most)
        if self._bounded:
            self._left -= len(data)
            if self._left < 0:
                raise OSError(f"it sent more than {LARGEST_GREETING >> 20} MiB before a login")
        return data


def fetch_host_key(address: str, port: int, *, known: HostKeys | None = None, host: str = "") -> paramiko.PKey:
    """Return the key a host shows now, for an operator to compare and trust, without a login.

    With `known` the host is asked for a type of key that is known of it, so that the two can be compared.
    """
    limits = SshLimits()
    try:
        raw = socket.create_connection((address, port), limits.connect)
        transport = paramiko.Transport(_Greeting(raw), disabled_algorithms=WEAK)  # type: ignore[arg-type] # all it calls
        with contextlib.closing(transport):
            transport.banner_timeout = limits.banner
            if known is not None:
                known.prefer_known_types(transport, host or address, address, port)
            transport.start_client(timeout=limits.banner)
            return transport.get_remote_server_key()
    except ConnectionRefusedError as error:
        raise SshRefused(f"nothing listens on {address}:{port}", "Start the host's SSH service.") from error
    except Exception as error:
        raise Unreachable(
            f"{address}:{port} shows no host key: {say(error)}", "check that an SSH service listens there"
        ) from error
