"""SSH connections that break before a command was sent: made again, but never at the price of a second wrong login."""
# ruff: noqa: F811 - the fixtures are imported

from __future__ import annotations

import contextlib
import socket
import threading
import time

import paramiko
import pytest
from support.ssh_host import KEY, PASSWORD, connect, host, line  # noqa: F401

from vsphere_ai.connect.gate import LoginGate
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.ssh_endpoint import ConnectionBroken, SshEndpoint, SshLimits
from vsphere_ai.errors import Denied, OutcomeUnknown, Unreachable
from vsphere_ai.model.facts import CommandOutput


class CutHost:
    """Passes bytes on to a host, and ends each of the first connections after so many bytes from it."""

    def __init__(self, port, *limits, damaged=None):
        self.port, self.limits, self.connections, self.damaged = port, list(limits), 0, damaged
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            left = self.limits.pop(0) if self.limits else None
            server = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self.forward, args=(client, server, None), daemon=True).start()
            threading.Thread(target=self.forward, args=(server, client, left, self.damaged), daemon=True).start()

    @staticmethod
    def forward(source, sink, left, damaged=None):
        passed = 0
        try:
            while left is None or left > 0:
                data = source.recv(65536 if left is None else min(left, 65536))
                if not data:
                    break
                if damaged is not None and passed <= damaged < passed + len(data):
                    at = damaged - passed
                    data = data[:at] + bytes([data[at] ^ 0xA5]) + data[at + 1 :]
                passed += len(data)
                sink.sendall(data)
                left = None if left is None else left - len(data)
        except OSError:
            pass
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


QUICK = SshLimits(pause=0.05, banner=1.0, login=2.0)


def through(cut, host, tmp_path, gate=None, **changed):
    path = tmp_path / "known_hosts"
    path.write_text(line(f"[127.0.0.1]:{cut.listener.getsockname()[1]}", KEY))
    settings = {"password": PASSWORD, **changed}
    at = SshEndpoint("esx01", "127.0.0.1", cut.listener.getsockname()[1], "root", path, **settings)
    return EsxiSsh(at, QUICK, gate=gate)


@pytest.mark.parametrize("at", [*range(4, 40, 4), 60, 120, 400, 900, 1100, 1400])
@pytest.mark.parametrize("changes", [False, True])
def test_a_byte_that_is_damaged_on_its_way_is_a_broken_connection(host, tmp_path, at, changes):
    """Wherever it is: in the banner, the key exchange or what is encrypted; paramiko raises all sorts of errors."""
    cut = CutHost(host.port, *[None] * 9, damaged=at)
    try:
        with through(cut, host, tmp_path) as shell:
            assert shell.run(["true"], 2, changes=changes) == CommandOutput(0, "ran true\n", "")
    except OutcomeUnknown:
        assert changes
        assert host.commands
    except (Unreachable, Denied):
        assert not (changes and host.commands), "a change that was sent is in doubt"
    assert host.attempts <= 3


@pytest.mark.parametrize("limit", [0, 10, 200, 900])
def test_a_handshake_that_breaks_is_begun_again(host, tmp_path, limit):
    cut = CutHost(host.port, limit, limit)
    with through(cut, host, tmp_path) as shell:
        assert shell.run(["true"], 5).stdout == "ran true\n"
    assert (cut.connections, host.attempts) == (3, 1)
    gone = CutHost(host.port, limit, limit, limit)
    with pytest.raises(Unreachable, match=r"no SSH handshake: .+"):
        through(gone, host, tmp_path).connect()
    assert gone.connections == 3


@pytest.mark.parametrize("slept", [20.0, 0.1])
def test_a_handshake_during_which_the_machine_slept_is_begun_again(connect, monkeypatch, slept):
    """What nobody waited for is not taken for a host that does not answer."""
    now, begin, passed = time.monotonic, paramiko.Transport.start_client, []

    def sleeping(transport, *given, **named):
        if passed:
            return begin(transport, *given, **named)
        passed.append(SshLimits().banner + slept)
        raise paramiko.SSHException("No existing session")

    monkeypatch.setattr(paramiko.Transport, "start_client", sleeping)
    monkeypatch.setattr(time, "monotonic", lambda: now() + sum(passed))
    with connect() as shell, pytest.raises(Unreachable) if slept < 1 else contextlib.nullcontext():
        assert shell.run(["true"], 60).stdout == "ran true\n"


class Silent:
    """A connection on which a login ends in some way."""

    def __init__(self, error):
        self.error = error

    def auth_none(self, _):
        raise paramiko.BadAuthenticationType("no", ["password"])

    def auth_password(self, *_, **__):
        raise self.error

    def is_authenticated(self):
        return False

    def is_active(self):
        return False


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (paramiko.AuthenticationException("Authentication failed."), True),
        (paramiko.AuthenticationException("Authentication failed: transport shut down or saw EOF"), False),
        (paramiko.AuthenticationException("Authentication timeout."), False),
        (paramiko.SSHException("No existing session"), False),
        (EOFError(), False),
        (ConnectionResetError(104, "Connection reset by peer"), False),
    ],
)
def test_only_a_no_is_a_refusal_also_when_the_host_hangs_up_at_once(host, connect, error, refused):
    shell = connect()
    with pytest.raises(Denied if refused else Unreachable) as caught:
        shell._login(Silent(error))
    assert ("does not accept" in caught.value.message) == refused


@pytest.mark.parametrize(("slept", "broken"), [(20.0, True), (0.1, False)])
def test_a_login_during_which_the_machine_slept_broke_off(connect, monkeypatch, slept, broken):
    now, passed = time.monotonic, []

    class Sleeping(Silent):
        def auth_none(self, name):
            passed.append(SshLimits().login + slept)
            return super().auth_none(name)

    monkeypatch.setattr(time, "monotonic", lambda: now() + sum(passed))
    with pytest.raises(Unreachable) as caught:
        connect()._login(Sleeping(paramiko.AuthenticationException("Authentication timeout.")))
    assert isinstance(caught.value, ConnectionBroken) == broken


def test_a_login_that_breaks_off_is_not_tried_again_with_a_credential_nobody_knows(host, tmp_path, monkeypatch):
    tried = []

    def broken(self, transport):
        tried.append(transport)
        if len(tried) == 1:
            raise_broken(self)
        return real(self, transport)

    def raise_broken(shell):
        real_login = Silent(EOFError())
        return real(shell, real_login)

    real = EsxiSsh._login
    monkeypatch.setattr(EsxiSsh, "_login", broken)
    cut, gate = CutHost(host.port), LoginGate()
    with pytest.raises(Unreachable, match="broke off: the connection was closed"):
        through(cut, host, tmp_path, gate).connect()
    assert len(tried) == 1
    with through(cut, host, tmp_path, gate) as shell:
        shell.connect()  # now it is known to be right
    tried.clear()
    with through(cut, host, tmp_path, gate) as shell:
        assert shell.run(["true"], 5).status == 0
    assert len(tried) == 2


def test_a_connection_that_broke_between_two_commands_is_made_again(host, tmp_path):
    cut = CutHost(host.port)
    with through(cut, host, tmp_path) as shell:
        shell.run(["true"], 5)
        shell._transport.sock.shutdown(socket.SHUT_RDWR)
        assert shell.run(["true"], 5, changes=True).stdout == "ran true\n"
    assert cut.connections == 2
    assert host.commands == ["true", "true"]
