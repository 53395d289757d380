"""SSH connections: known host keys only, one login, and a deadline and a most of output around every command."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from vsphere_ai.connect.gate import LoginGate, credential_id
from vsphere_ai.connect.secure_shell.hostkeys import HostKeys
from vsphere_ai.connect.secure_shell.ssh_command import BROKE, LATE, Seen, collect
from vsphere_ai.connect.secure_shell.ssh_endpoint import (
    STOPPED,
    ConnectionBroken,
    Ended,
    SshEndpoint,
    SshLimits,
    SshRefused,
    TooManySessions,
    Unended,
    say,
)
from vsphere_ai.connect.secure_shell.ssh_login import log_in
from vsphere_ai.errors import Unreachable

if TYPE_CHECKING:
    import paramiko

# Without a handler of its own paramiko's thread prints every broken connection on stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

LOG = logging.getLogger("vsphere_ai.connect.secure_shell")
"""Gets, at level DEBUG, each command without its input and output."""
LONGEST_LOGGED = 300
"""Characters of a command in the log: programs are sent to guests as such, some with thousands of lines."""
LARGEST_OUTPUT = 4 << 20
LARGEST_GREETING = 1 << 20
"""Bytes a server may send until a login has succeeded: banners and the handshake."""
PROMPT = 10.0
"""Seconds within which a machine opens a session on a connection that was used before, else that is dead."""
KEEP_ALIVE = 30
"""Seconds without a packet after which one is sent: firewalls forget connections on which nothing happens."""
# paramiko still offers these for old servers: https://www.openssh.com/txt/release-6.7 dropped them in 2014.
WEAK = {
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc", "blowfish-cbc"],
    "macs": ["hmac-md5", "hmac-md5-96", "hmac-sha1", "hmac-sha1-96"],
    "kex": ["diffie-hellman-group1-sha1", "diffie-hellman-group14-sha1", "diffie-hellman-group-exchange-sha1"],
}


@contextlib.contextmanager
def _logged(host: str, command: str) -> Iterator[list[str]]:
    """Log a command with its time; yields a list that its outcome is appended to, where it has one."""
    began, outcome = time.monotonic(), [""]
    try:
        yield outcome
    except BaseException as error:
        outcome.append(type(error).__name__)
        raise
    finally:
        seconds, shown = time.monotonic() - began, command[:LONGEST_LOGGED]
        LOG.debug("%s: %s after %.0f ms: %s", host, outcome[-1], 1000 * seconds, shown)


class SshClient:
    """A connection to one machine, opened by the first command. A context manager that closes it."""

    def __init__(
        self, endpoint: SshEndpoint, limits: SshLimits | None = None, *, gate: LoginGate | None = None
    ) -> None:
        self.endpoint = endpoint
        self.limits = limits or SshLimits()
        self._gate = gate or LoginGate()
        self._transport: paramiko.Transport | None = None
        self._opening, self._counting = threading.Lock(), threading.Lock()
        self._under_way = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a running command is left to the host."""
        self._drop(self._transport)

    def _drop(self, transport: paramiko.Transport | None) -> None:
        """Close a connection, and no later one."""
        if transport is None:
            return
        if self._transport is transport:
            self._transport = None
        with contextlib.suppress(OSError):  # its thread, which is waited for, looks only ten times a second
            transport.sock.shutdown(socket.SHUT_RDWR)
        transport.close()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as this side knows."""
        transport = self._transport
        return transport is not None and transport.is_active()

    @property
    def is_busy(self) -> bool:
        """Whether a command is under way."""
        return self._under_way > 0

    def connect(self) -> None:
        """Connect and log in. Unreachable (SshRefused when nothing listens) or Denied when that fails."""
        with self._opening:
            if not self.is_open:
                self.close()
                self._open()

    def _open(self) -> None:
        keys = HostKeys(self.endpoint.known_hosts, self.endpoint.advice.trust)
        for left in reversed(range(self.limits.attempts)):
            try:
                self._transport = self._logged_in(keys)
                return
            except ConnectionBroken as broken:
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
        transport.set_keepalive(KEEP_ALIVE)
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
        """Run a command of a shell and return what it ended with; `Unended` without an end.

        Several may run side by side. One that is given up ends with the connection, unless others are under way on it.

        `most` is how many bytes of output are taken. `stdin` is what the command reads, up to its end; `seen` is given
        its output piece by piece, as it comes.
        """
        with self._counted(), _logged(self.endpoint.host, command) as outcome:
            transport, channel = self._session(deadline_s)
            deadline = time.monotonic() + deadline_s
            # paramiko waits for the answer to exec without any limit; only closing what it waits on wakes it.
            watchdog = threading.Timer(max(0.1, deadline - time.monotonic()), self._give_up, (transport, channel))
            watchdog.daemon = True
            watchdog.start()
            try:
                channel.exec_command(command)
                ended = collect(channel, deadline, most, stdin, seen)
                outcome.append(f"exit status {ended.status}")
                return ended
            except Unended:
                self._give_up(transport, channel)
                raise
            except Exception as error:  # paramiko's parser lets anything out when bytes are damaged on their way
                self._give_up(transport, channel)
                late = time.monotonic() >= deadline
                raise Unended(LATE if late else f"{BROKE} ({say(error)})", broke=not late) from error
            finally:
                watchdog.cancel()
                with contextlib.suppress(Exception):  # it sends a message to a peer that may be gone
                    channel.close()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._counting:
            self._under_way += 1
        try:
            yield
        finally:
            with self._counting:
                self._under_way -= 1

    def _give_up(self, transport: paramiko.Transport, channel: paramiko.Channel) -> None:
        """End a command: with its connection, unless others are under way on that."""
        with contextlib.suppress(Exception):
            channel.close()
        if self._under_way <= 1 or not transport.is_active():
            self._drop(transport)

    def _session(self, deadline_s: float) -> tuple[paramiko.Transport, paramiko.Channel]:
        """Open a session, on a new connection where the present one has broken: nothing was sent yet.

        `TooManySessions` where the machine has no room for one beside those that are open.
        """
        import paramiko

        for left in reversed(range(self.limits.attempts)):
            used = self.is_open
            self.connect()
            transport = self._transport
            try:
                if transport is not None:
                    channel = transport.open_session(timeout=min(deadline_s, PROMPT) if used else deadline_s)
                    if channel.closed:  # paramiko returns it where the connection breaks just then; nothing was sent
                        raise paramiko.SSHException("the connection broke while a session was opened")
                    return transport, channel
            except Exception as error:
                # of several that are refused at once paramiko gives the reason to one only
                refused = isinstance(error, paramiko.ChannelException) or "unable to open channel" in str(error).lower()
                alone = self._under_way <= 1
                if refused:
                    what = "no SSH session could be opened" if alone else "it opens no further SSH session"
                    text = f"{self.endpoint.host}: {what}: {say(error)}"
                    raise TooManySessions(text, "raise MaxSessions in its sshd_config") from error
                late = "timeout" in str(error).lower()
                if alone or not late:  # else it may be broken, but not yet know it
                    self._drop(transport)
                if not left or (late and not (used and alone)):
                    text = f"{self.endpoint.host}: no SSH session could be opened: {say(error)}"
                    raise Unreachable(text, self.endpoint.advice.starting) from error
        raise Unreachable(f"{self.endpoint.host}: the SSH connection is closed", "start the command again")

    def _handshake(self, keys: HostKeys) -> tuple[paramiko.Transport, _Greeting]:
        import paramiko

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
            said, remedy = (f"{at.host}: no SSH handshake: {say(error)}", at.advice.starting)
            if self.limits.banner <= time.monotonic() - begun < self.limits.banner + STOPPED:
                raise Unreachable(said, remedy) from error
            if greeting.flooded:
                raise Unreachable(said, "Look whether this is an SSH server.") from error
            raise ConnectionBroken(said, remedy, before_login=True) from error
        return transport, greeting


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
    import paramiko

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
