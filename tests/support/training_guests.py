"""Guests for training on one machine: OpenSSH servers, each of which has a /var/tmp of its own."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from support.gates import LONG
from support.guest_sshd import Guests, Sshd, free_port, keygen
from support.programs import uses_program

UNSHARE = shutil.which("unshare")
NETWORKED = ("sshd", "ssh-keygen", "ip", "mpirun")
"""Programs of guests with networks of their own."""
OWN = 'mount -t tmpfs none /var/tmp && mount --bind {bin} /usr/local/bin && exec "$@"'
ALL_REDUCE = """
import os, socket, struct, sys, time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
number = struct.Struct("!q")


def exact(sock):
    found = b""
    while len(found) < number.size:
        part = sock.recv(number.size - len(found))
        if not part:
            sys.exit("a peer is gone")
        found += part
    return number.unpack(found)[0]


def reduced(value):
    if rank == 0:
        with socket.create_server(at) as server:
            peers = [server.accept()[0] for _ in range(world - 1)]
        total = value + sum(map(exact, peers))
        for peer in peers:
            peer.sendall(number.pack(total))
        return total
    while True:
        try:
            with socket.create_connection(at, 5) as sock:
                sock.settimeout(60)
                sock.sendall(number.pack(value))
                return exact(sock)
        except ConnectionRefusedError:
            time.sleep(0.05)


sys.stdout.write(f"rank {rank} sum {reduced(rank + 1)}\\n")
"""


def may_unshare() -> bool:
    return (
        UNSHARE is not None and not subprocess.run([UNSHARE, "-m", "true"], capture_output=True, check=False).returncode
    )


class TrainingGuests(Guests):
    """Guests with a job on them."""

    def argv(self, own: Path) -> list[str]:
        return [str(UNSHARE), "-m", "sh", "-c", self.own_folders(own), "sh", *super().argv(own)]

    def own_folders(self, own: Path) -> str:
        (own / "bin").mkdir(exist_ok=True)
        return OWN.format(bin=shlex.quote(str(own / "bin")))

    def nvidia_smi(self, vm: str, script: str) -> None:
        """Give a guest a program nvidia-smi."""
        path = self.folder / vm / "bin" / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)

    def folder_of(self, vm: str) -> Path:
        """The folder of runs as the guest sees it."""
        return Path(f"/proc/{self.servers[vm].process.pid}/root/var/tmp/vsphere-ai")

    def address(self, vm: str) -> str:
        return "127.0.0.1"

    def job(self, script: str, **more: object) -> Path:
        """A job of two processes on each guest, and an inventory beside it."""
        import yaml

        (self.folder / "train.py").write_text(script)
        (self.folder / "vsphere-ai.yaml").write_text(INVENTORY + self.inventory())
        nodes = [{"name": vm, "address": self.address(vm), "interface": "ens192"} for vm in self.servers]
        ports = {"port": free_port(), "control_port": free_port()}
        given = {
            "training_job": "sum",
            "nodes": nodes,
            "script": str(self.folder / "train.py"),
            "processes_per_node": 2,
        }
        path = self.folder / "job.yml"
        path.write_text(yaml.safe_dump({**given, **ports, "grace": "1s", **more}, sort_keys=False))
        return path


class NetworkedGuests(TrainingGuests):
    """Guests with an address of their own each, on one network, as VMs have them; needs root and iproute2."""

    PORT = 2222
    MORE: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        number = os.getpid() % 250 + 1
        self.links: list[str] = []
        self.bridge, self.network = f"vsai{number}", f"10.213.{number}"
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self.network}.254/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def start(self, vm: str, *options: str) -> Sshd:
        own = self.folder / vm
        (own / "home").mkdir(parents=True)
        keygen(own / "host_key")
        keys = f"AuthorizedKeysFile {own / 'authorized_keys'} {own / 'home' / '.ssh' / 'authorized_keys'}"
        shutil.copy(self.folder / "id.pub", own / "authorized_keys")
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.configure(own, self.PORT, (keys, *options), "0.0.0.0")
        argv = [
            str(UNSHARE),
            "-m",
            "-n",
            "-u",
            *self.MORE,
            "sh",
            "-c",
            f"{OWN_NETWORK}; {self.own_folders(own)}",
            vm,
            *Guests.argv(self, own),
        ]
        with (own / "log").open("wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        number = len(self.servers) + 1
        until = time.monotonic() + LONG
        while os.readlink(f"/proc/{process.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            assert time.monotonic() < until
            time.sleep(0.01)
        link = f"{self.bridge}v{next(LINKS)}"  # the kernel takes a while to remove those of guests that are gone
        self.links.append(link)
        inside = ("nsenter", "-t", str(process.pid), "-n", "ip")
        ip(
            "link",
            "add",
            link,
            "type",
            "veth",
            "peer",
            "name",
            "ens192",
            "netns",
            str(process.pid),
        )
        ip("link", "set", link, "master", self.bridge, "up")
        for words in (["addr", "add", f"{self.network}.{number}/24", "dev", "ens192"], ["link", "set", "lo", "up"],
                      ["link", "set", "ens192", "up"]):  # fmt: skip
            subprocess.run([*inside, *words], check=True, capture_output=True)
        self.servers[vm] = Sshd(vm, own, self.PORT, process)
        self._known(vm, number)
        return self.servers[vm]

    def _known(self, vm: str, number: int) -> None:
        kind, text, *_ = (self.folder / vm / "host_key.pub").read_text().split()
        with (self.folder / "known_hosts").open("a") as file:
            file.write(f"[{self.network}.{number}]:{self.PORT} {kind} {text}\n")
        until = time.monotonic() + LONG
        while True:
            try:
                with socket.create_connection((f"{self.network}.{number}", self.PORT), 1):
                    return
            except OSError:
                assert time.monotonic() < until, (self.folder / vm / "log").read_text()
                time.sleep(0.02)

    def inventory(self) -> str:
        return (
            f"guests:\n  username: {getpass.getuser()}\n  key_file: {self.folder / 'id'}\n"
            f"  known_hosts: {self.folder / 'known_hosts'}\n  port: {self.PORT}\n"
        )

    def address(self, vm: str) -> str:
        return f"{self.network}.{list(self.servers).index(vm) + 1}"

    def processes_in(self, vm: str) -> list[str]:
        """The programs that run in a guest, beside its OpenSSH server."""
        return [name for _, name in self._inside(vm) if not name.startswith("sshd")]

    def cut(self, vm: str) -> None:
        """End a guest with all that is in it, as when its host fails."""
        if self.servers[vm].process.poll() is None:
            for pid, _ in self._inside(vm):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.servers[vm].process.wait(LONG)

    def close(self) -> None:
        """End the guests with all that is in them: sessions whose network is gone first would wait for ever."""
        for vm in self.servers:
            self.cut(vm)
        for link in (*self.links, self.bridge):
            with suppress(subprocess.CalledProcessError):  # the kernel may have removed it with its network
                ip("link", "del", link)

    def _inside(self, vm: str) -> list[tuple[int, str]]:
        own = os.readlink(f"/proc/{self.servers[vm].process.pid}/ns/net")
        assert own != os.readlink("/proc/self/ns/net")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(entry / "ns/net") == own:
                    found.append((int(entry.name), (entry / "comm").read_text().strip()))
        return found


class SeparateGuests(NetworkedGuests):
    """Guests that do not see each other's processes either."""

    MORE = ("-p", "--fork", "--kill-child", "--mount-proc")


LINKS = count(1)
OWN_NETWORK = 'hostname "$0"'


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


INVENTORY = "vcenters: {none: {address: 127.0.0.1, username: u, password: 'env:NONE'}}\n"


def processes_of(run: str) -> set[int]:
    """The processes of this machine that carry the name of a run, or are supervisors of one."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"VSPHERE_AI_RUN={run}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def supervisors(guests: TrainingGuests, vm: str) -> list[int]:
    """The supervisors of runs on a guest, also of those that are over."""
    return [json.loads(p.read_text())["supervisor"] for p in guests.folder_of(vm).glob("*/state.json")]


def gone(run: str, within: float = 20) -> bool:
    until = time.monotonic() + within
    while processes_of(run):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
@uses_program("sshd", "ssh-keygen")
def guests(tmp_path):
    if not may_unshare():
        pytest.skip("this account cannot have a mount namespace")
    made = TrainingGuests(tmp_path)
    yield made
    end(made)


@pytest.fixture
@uses_program(*NETWORKED)
def networked(tmp_path):
    yield from with_networks(NetworkedGuests, tmp_path)


@pytest.fixture
@uses_program(*NETWORKED)
def separate(tmp_path):
    yield from with_networks(SeparateGuests, tmp_path)


def with_networks(kind, tmp_path):
    try:
        made = kind(tmp_path)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this account cannot make networks")
    yield made
    made.close()


def end(made: TrainingGuests) -> None:
    """End what runs on guests, then the guests."""
    for vm in made.servers:
        for pid in supervisors(made, vm):
            with suppress(OSError):
                if b"python3" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGTERM)
    for server in made.servers.values():
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(LONG)
