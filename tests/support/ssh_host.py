"""A small SSH server that behaves as told, and connections to it; tests import its fixtures."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import paramiko
import pytest

from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshEndpoint

KEY = paramiko.ECDSAKey.generate()
OTHER = paramiko.ECDSAKey.generate()
RSA = paramiko.RSAKey.generate(2048)
PASSWORD = "geheim ü<&"


@dataclass
class FakeHost(paramiko.ServerInterface):
    """Behaves as told; counts what it was asked."""

    key: paramiko.PKey = KEY
    methods: str = "publickey,keyboard-interactive"
    answer: Callable[[paramiko.Channel, str], None] | None = None
    frozen_exec: bool = False
    password: str = PASSWORD
    user_key: paramiko.PKey | None = None
    attempts: int = 0
    connections: int = 0
    commands: list[str] = field(default_factory=list)
    port: int = 0
    release: threading.Event = field(default_factory=threading.Event)
    transports: list[paramiko.Transport] = field(default_factory=list)

    def get_allowed_auths(self, username):
        return self.methods

    def _judge(self, given):
        self.attempts += 1
        return paramiko.AUTH_SUCCESSFUL if given == self.password else paramiko.AUTH_FAILED

    def check_auth_password(self, username, password):
        return self._judge(password) if "password" in self.methods.split(",") else paramiko.AUTH_FAILED

    def check_auth_interactive(self, username, submethods):
        return paramiko.InteractiveQuery("", "", ("Password: ", False))

    def check_auth_interactive_response(self, responses):
        return self._judge(responses[0])

    def check_auth_publickey(self, username, key):
        self.attempts += 1
        good = self.user_key is not None and key.get_base64() == self.user_key.get_base64()
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        self.commands.append(command.decode())
        if self.frozen_exec:
            self.release.wait(20)
            return False
        threading.Thread(target=self._run, args=(channel, command.decode()), daemon=True).start()
        return True

    def _run(self, channel, command):
        time.sleep(0.01)  # the reply to the request has to leave first
        (self.answer or say(f"ran {command}\n"))(channel, command)


def say(out="", err="", status=0):
    def answer(channel, _command):
        channel.sendall(out.encode())
        channel.sendall_stderr(err.encode())
        channel.send_exit_status(status)
        channel.close()

    return answer


@pytest.fixture
def host() -> Iterator[FakeHost]:
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    fake = FakeHost()
    listener = socket.create_server(("127.0.0.1", 0))
    fake.port = listener.getsockname()[1]

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            fake.connections += 1
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = paramiko.Transport(client)
            transport.add_server_key(fake.key)
            fake.transports.append(transport)
            try:
                transport.start_server(server=fake, event=threading.Event())
            except (paramiko.SSHException, EOFError):
                continue

    threading.Thread(target=serve, daemon=True).start()
    yield fake
    fake.release.set()
    listener.close()
    for transport in fake.transports:
        transport.close()


@pytest.fixture
def connect(host, tmp_path):
    """Make a connection to the host; by default its key is known."""
    shells = []

    def make(known=None, gate=None, limits=None, **changed):
        path = tmp_path / "known_hosts"
        line = f"[127.0.0.1]:{host.port} {KEY.get_name()} {KEY.get_base64()}\n"
        path.write_text(line if known is None else known)
        settings = {"password": PASSWORD, "known_hosts": path, **changed}
        endpoint = SshEndpoint(host="esx01", address="127.0.0.1", port=host.port, username="root", **settings)
        shells.append(EsxiSsh(endpoint, limits, gate=gate))
        return shells[-1]

    yield make
    for shell in shells:
        shell.close()


def line(name, key, mark=""):
    return f"{mark}{name} {key.get_name()} {key.get_base64()}\n"
