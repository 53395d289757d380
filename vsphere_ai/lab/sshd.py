"""The SSH server of one simulated ESXi host: its port follows the host's power, TSM-SSH service and firewall."""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from paramiko.common import MSG_CHANNEL_REQUEST

from vsphere_ai.lab.faults import sockets
from vsphere_ai.lab.faults import ssh as faulty
from vsphere_ai.lab.faults.engine import FaultEngine
from vsphere_ai.lab.faults.rules import FaultEvent
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell.result import ShellResult
from vsphere_ai.lab.shell.run import run_line
from vsphere_ai.lab.shell.terminal import converse

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())

LOCK_AFTER = 5
LOCK_SECONDS = 900.0
"""ESXi's defaults for Security.AccountLockFailures and Security.AccountUnlockTime."""


class SshServer:
    """Serves one host on a free port, which is then kept, from `start()` to `close()`.

    `reserved` is what `hand_over` of the server before this one returned: its port,
    which no other process could take in between.

    `login_attempts` counts passwords tried, `failures` the wrong ones in a row; after five the account is locked for
    `lock_seconds`. `methods` is what the server offers, `authorized_keys` the base64 text of public keys that may log
    in; `key_file` keeps the host key over restarts of the lab. `faults` are what the lab lets go wrong.
    """

    def __init__(
        self,
        host: LabHost,
        *,
        password: str,
        key_file: Path | None = None,
        bind: str = "127.0.0.1",
        reserved: socket.socket | None = None,
    ) -> None:
        self.host, self.name = host, host.name
        self.password = password
        self.username = "root"
        self.bind = bind
        self.methods = "publickey,password,keyboard-interactive"
        self.authorized_keys: set[str] = set()
        self.lock_seconds = LOCK_SECONDS
        self.faults = FaultEngine()
        self.login_attempts = 0
        self.failures = 0
        self.locked_until = 0.0
        self.key = host_key(key_file)
        self._lock = threading.Lock()
        self._transports: set[paramiko.Transport] = set()
        self._listener: socket.socket | None = None
        self._closed = False
        # Bound but never listening: it keeps the port ours while the service is stopped, and connections are refused.
        self._reservation = reserved or _bound(bind)
        self.port: int = self._reservation.getsockname()[1]

    @property
    def listening(self) -> bool:
        """Return whether the port is open now."""
        return self._listener is not None

    @property
    def sessions(self) -> int:
        """How many connections are open."""
        with self._lock:
            return len(self._transports)

    def start(self) -> SshServer:
        """Follow the host from now on; return the server itself."""
        self.host.on_change(self._host_changed)
        self._follow()
        return self

    def close(self) -> None:
        """Close the port and every connection for good."""
        self._closed = True
        self._follow()
        self._drop_sessions()
        self._reservation.close()

    def hand_over(self) -> socket.socket:
        """Return what keeps the port, for the server that takes this one's place after its `close()`."""
        return self._reservation.dup()

    def new_key(self) -> None:
        """Show another host key to clients from now on; the one on disk stays."""
        self.key = host_key(None)

    def known_hosts_line(self) -> str:
        """Return the line OpenSSH's known_hosts needs for this server."""
        return f"[{self.bind}]:{self.port} {self.key.get_name()} {self.key.get_base64()}"

    def check_password(self, username: str, password: str) -> bool:
        """Count a login attempt and return whether it succeeds."""
        with self._lock:
            self.login_attempts += 1
            if self._locked_down(username) or time.monotonic() < self.locked_until:
                return False
            if self.failures >= LOCK_AFTER:  # the lock has just run out
                self.failures = 0
            if username == self.username and password == self.password:
                self.failures = 0
                return True
            self.failures += 1
            if self.failures >= LOCK_AFTER:
                self.locked_until = time.monotonic() + self.lock_seconds
            return False

    def check_key(self, username: str, key: paramiko.PKey) -> bool:
        """Return whether a public key may log in."""
        known = username == self.username and key.get_base64() in self.authorized_keys
        return known and not self._locked_down(username)

    def run(self, line: str, _channel: paramiko.Channel) -> ShellResult:
        """Run a line of the ESXi Shell; no command of it reads its input."""
        return run_line(self.host, line)

    def terminal(self, channel: paramiko.Channel) -> int | None:
        """Talk with a terminal."""
        return converse(self.host, channel)

    def _locked_down(self, username: str) -> bool:
        return self.host.lockdown_mode != "lockdownDisabled" and username not in self.host.lockdown_exceptions

    def _host_changed(self, host: LabHost, what: str) -> None:
        if what in ("up", "down", "services", "firewall"):
            self._follow()
        if what == "down":
            self._drop_sessions()

    def _follow(self) -> None:
        with self._lock:
            wanted = not self._closed and self.host.ssh_reachable
            if wanted and self._listener is None:
                self._listener = socket.create_server((self.bind, self.port), backlog=64)
                threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
            elif not wanted and self._listener is not None:
                listener, self._listener = self._listener, None
                _shut(listener)

    def _drop_sessions(self) -> None:
        with self._lock:
            open_now = tuple(self._transports)
        for transport in open_now:
            transport.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.faults.rules and not self._let_in(client):
            return
        transport = SshTransport(client)
        transport.set_log_channel(LOG.name)
        transport.add_server_key(self.key)
        with self._lock:
            self._transports.add(transport)
        try:
            transport.start_server(server=_Session(self))
            transport.join()
        except (paramiko.SSHException, EOFError, OSError) as error:
            LOG.debug("%s: connection ended: %s", self.host.name, error)
        finally:
            transport.close()
            with self._lock:
                self._transports.discard(transport)

    def _let_in(self, client: socket.socket) -> bool:
        """Return whether a connection survives the faults it meets."""
        fired = self.faults.meet(FaultEvent("ssh-connect", "", (self.host.name,), (self.host.name,)))
        if fired is None:
            return True
        self.faults.strike(fired)
        word = fired.rule.do.word
        fired.wait()
        if word == "hang":
            sockets.hold(client, fired)
        if word == "reset":
            sockets.reset(client)
        elif word in ("drop", "hang"):
            client.close()
        return word not in ("drop", "hang", "reset") and self.host.ssh_reachable


def _bound(address: str) -> socket.socket:
    reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind((address, 0))
    return reservation


class SshTransport(paramiko.Transport):
    """Starts a command only after the reply to its exec request has gone out.

    paramiko asks the server interface before it sends CHANNEL_SUCCESS, so a fast command would close the channel
    first and the client would see "Channel closed".
    """

    jobs: dict[int, Callable[[], None]]

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.jobs = {}

    @staticmethod
    def _after_request(channel: paramiko.Channel, message: paramiko.Message) -> None:
        paramiko.Channel._handle_request(channel, message)  # type: ignore[attr-defined]
        job = channel.get_transport().jobs.pop(channel.get_id(), None)  # type: ignore[attr-defined]
        if job is not None:
            threading.Thread(target=job, daemon=True).start()

    _channel_handler_table = {  # noqa: RUF012 - paramiko's own name and shape
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_REQUEST: _after_request.__func__,  # type: ignore[attr-defined]
    }


class Served(Protocol):
    """A machine that sessions are about; `methods` are the ways to log in."""

    name: str
    methods: str
    faults: FaultEngine

    def check_password(self, username: str, password: str) -> bool:
        """Return whether a login with a password succeeds."""

    def check_key(self, username: str, key: paramiko.PKey) -> bool:
        """Return whether a public key may log in."""

    def run(self, line: str, channel: paramiko.Channel) -> ShellResult:
        """Run a line; its input is read from the channel."""

    def terminal(self, channel: paramiko.Channel) -> int | None:
        """Talk with a terminal until it ends; return the exit status."""


class _Session(paramiko.ServerInterface):
    """Answers paramiko's questions about one connection."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self.asked_for = ""
        self.terminals: set[int] = set()

    def get_allowed_auths(self, username: str) -> str:
        return self.server.methods

    def check_auth_password(self, username: str, password: str) -> int:
        return self._verdict("password" in self.server.methods.split(",") and self._accepts(username, password))

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return self._verdict("publickey" in self.server.methods.split(",") and self.server.check_key(username, key))

    def check_auth_interactive(self, username: str, submethods: str) -> int | paramiko.server.InteractiveQuery:
        self.asked_for = username
        return paramiko.server.InteractiveQuery("", "", (f"({username}@{self.server.name}) Password: ", False))

    def check_auth_interactive_response(self, responses: Sequence[str]) -> int | paramiko.server.InteractiveQuery:
        return self._verdict(self._accepts(self.asked_for, responses[0] if responses else ""))

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if kind == "session":
            return paramiko.common.OPEN_SUCCEEDED
        return paramiko.common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        line = command.decode(errors="replace")
        return self._start(channel, lambda: self._run(channel, line))

    def check_channel_pty_request(self, channel: paramiko.Channel, *_: object) -> bool:
        self.terminals.add(channel.get_id())
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        job = self._terminal if channel.get_id() in self.terminals else self._shell
        return self._start(channel, lambda: job(channel))

    def _start(self, channel: paramiko.Channel, job: Callable[[], None]) -> bool:
        channel.get_transport().jobs[channel.get_id()] = job  # type: ignore[attr-defined]
        return True

    def _accepts(self, username: str, password: str) -> bool:
        return self.server.check_password(username, password)

    @staticmethod
    def _verdict(accepted: bool) -> int:
        return paramiko.common.AUTH_SUCCESSFUL if accepted else paramiko.common.AUTH_FAILED

    def _run(self, channel: paramiko.Channel, line: str) -> None:
        status = self._carry_out(channel, line)
        self._finish(channel, status)

    def _terminal(self, channel: paramiko.Channel) -> None:
        try:
            status = self.server.terminal(channel)
        except OSError as error:
            LOG.debug("%s: terminal went away: %s", self.server.name, error)
            return
        self._finish(channel, status)

    def _shell(self, channel: paramiko.Channel) -> None:
        """Run the lines that arrive on standard input, as a shell without a terminal does."""
        status: int | None = 0
        with channel.makefile("r") as lines:
            for raw in lines:
                line = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
                if line.strip() in ("exit", "logout"):
                    break
                status = self._carry_out(channel, line.rstrip("\r\n"))
                if status is None:
                    break
        self._finish(channel, status)

    def _carry_out(self, channel: paramiko.Channel, line: str) -> int | None:
        """Run a command and send its output; None when a fault has ended the connection."""
        name, faults = self.server.name, self.server.faults
        fired = faults.meet(FaultEvent("ssh", line, (name,), (name,))) if faults.rules else None
        try:
            if fired is not None:
                return faulty.carry_out(fired, channel, lambda: self.server.run(line, channel), faults.strike)
            result = self.server.run(line, channel)
            channel.sendall(result.stdout.encode())
            channel.sendall_stderr(result.stderr.encode())
        except OSError as error:
            LOG.debug("%s: client went away: %s", self.server.name, error)
            return 255
        return result.status

    @staticmethod
    def _finish(channel: paramiko.Channel, status: int | None) -> None:
        if status is None:  # a fault has ended the connection
            return
        try:
            channel.send_exit_status(status)
            channel.shutdown_write()
            channel.close()
        except (OSError, EOFError) as error:
            LOG.debug("channel already closed: %s", error)


def _shut(listener: socket.socket) -> None:
    try:
        listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept(); close() alone would not
    except OSError as error:
        LOG.debug("listener already shut: %s", error)
    listener.close()


def session_of(server: Served) -> paramiko.ServerInterface:
    """Return what answers a client's requests on one connection."""
    return _Session(server)


def host_key(path: Path | None) -> paramiko.PKey:
    """Return the key in a file, which is made where it is not there; without a file a new one."""
    if path is not None and path.exists():
        return paramiko.Ed25519Key.from_private_key_file(str(path))
    text = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    if path is not None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text)
    return paramiko.Ed25519Key.from_private_key(io.StringIO(text.decode()))


def fingerprint_of(key: paramiko.PKey) -> str:
    """Return the fingerprint of a key as ssh-keygen shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode("ascii").rstrip("=")
