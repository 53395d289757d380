"""OpenSSH servers on loopback that stand for guests; tests import the fixture `sshd`. Debian: openssh-server.

Each server has its own folder, host key and port; the account of the tests logs in with the key of the fixture. `HOME`
of the sessions is a folder of the server, so that nothing of the machine's own account is read or written.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.gates import LONG
from support.programs import path_of, uses_program
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings, GuestSsh
from vsphere_ai.model.nodes import Node

SSHD = path_of("sshd")


@dataclass
class Sshd:
    """A running server. `vm` is the name of the VM whose guest it stands for."""

    vm: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def key_line(self) -> str:
        kind, text, *_ = (self.folder / "host_key.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {kind} {text}\n"

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(LONG)


class Guests:
    """The guests of a test: `start` one per VM, then `settings()` for connections and `nodes` for launchers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.servers = folder, {}
        keygen(folder / "id")
        (folder / "known_hosts").write_text("")

    def start(self, vm: str, *options: str) -> Sshd:
        """Start a server; `options` are lines of its configuration."""
        own = self.folder / vm
        (own / "home").mkdir(parents=True)
        keygen(own / "host_key")
        shutil.copy(self.folder / "id.pub", own / "authorized_keys")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # its separated process lives in it
        for _ in range(5):
            port = free_port()
            server = Sshd(vm, own, port, self._spawn(own, port, options))
            if listens(server):
                break
        else:
            raise AssertionError((own / "log").read_text())
        self.servers[vm] = server
        with (self.folder / "known_hosts").open("a") as file:
            file.write(server.key_line)
        return server

    def _spawn(self, own: Path, port: int, options: tuple[str, ...]) -> subprocess.Popen[bytes]:
        self.configure(own, port, options)
        with (own / "log").open("wb") as log:
            return subprocess.Popen(self.argv(own), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def argv(self, own: Path) -> list[str]:
        return [str(SSHD), "-D", "-e", "-f", str(own / "config")]

    def configure(self, own: Path, port: int, options: tuple[str, ...], listen: str = "127.0.0.1") -> None:
        lines = [
            *options,
            f"Port {port}",
            f"ListenAddress {listen}",
            f"HostKey {own / 'host_key'}",
            f"AuthorizedKeysFile {own / 'authorized_keys'}",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            f"SetEnv HOME={own / 'home'}",
            "MaxStartups 200",
        ]
        (own / "config").write_text("\n".join(lines) + "\n")

    def settings(self, **changed) -> GuestSettings:
        """How the tool reaches them."""
        at = {vm: ("127.0.0.1", server.port) for vm, server in self.servers.items()}
        given = {"key_file": self.folder / "id", "addresses": at, **changed}
        return GuestSettings(getpass.getuser(), self.folder / "known_hosts", **given)

    def inventory(self) -> str:
        """The same as the section `guests:` of an inventory."""
        at = "".join(f"\n    {vm}: 127.0.0.1:{server.port}" for vm, server in self.servers.items())
        return (
            f"guests:\n  username: {getpass.getuser()}\n  key_file: {self.folder / 'id'}\n"
            f"  known_hosts: {self.folder / 'known_hosts'}\n  addresses:{at}\n"
        )

    def shell(self, vm: str, **changed) -> GuestSsh:
        return GuestSsh("127.0.0.1", self.settings(**changed), vm)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(vm, "127.0.0.1", host=f"esx-{n}") for n, vm in enumerate(self.servers, 1))


@pytest.fixture
@uses_program("sshd", "ssh-keygen")
def sshd(tmp_path):
    guests = Guests(tmp_path)
    yield guests
    for server in guests.servers.values():
        server.stop()


def keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, capture_output=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def listens(server: Sshd) -> bool:
    for _ in range(200):
        if server.process.poll() is not None:
            return False
        try:
            with socket.create_connection(("127.0.0.1", server.port), 1):
                return True
        except OSError:
            time.sleep(0.02)
    return False
