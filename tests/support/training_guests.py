"""Guests for training on one machine: OpenSSH servers, each of which has a /var/tmp of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.guest_sshd import SSHD, Guests, free_port

UNSHARE = shutil.which("unshare")
OWN = 'mount -t tmpfs none /var/tmp && exec "$@"'
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


print("rank", rank, "sum", reduced(rank + 1), flush=True)
"""


def may_unshare() -> bool:
    return (
        UNSHARE is not None and not subprocess.run([UNSHARE, "-m", "true"], capture_output=True, check=False).returncode
    )


class TrainingGuests(Guests):
    """Guests with a job on them."""

    def _spawn(self, own: Path, port: int, options: tuple[str, ...]) -> subprocess.Popen[bytes]:
        super()._spawn(own, port, options).kill()  # it wrote the configuration
        with (own / "log").open("wb") as log:
            argv = [str(UNSHARE), "-m", "sh", "-c", OWN, "sh", str(SSHD), "-D", "-e", "-f", str(own / "config")]
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def folder_of(self, vm: str) -> Path:
        """The folder of runs as the guest sees it."""
        return Path(f"/proc/{self.servers[vm].process.pid}/root/var/tmp/vsphere-ai")

    def job(self, script: str, **more: object) -> Path:
        """A job of two processes on each guest, and an inventory beside it."""
        import yaml

        (self.folder / "train.py").write_text(script)
        (self.folder / "vsphere-ai.yaml").write_text(INVENTORY + self.inventory())
        nodes = [{"name": vm, "address": "127.0.0.1"} for vm in self.servers]
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
def guests(tmp_path):
    if SSHD is None:
        pytest.skip("no OpenSSH server here: apt-get install openssh-server")
    if not may_unshare():
        pytest.skip("this account cannot have a mount namespace")
    made = TrainingGuests(tmp_path)
    yield made
    for vm in made.servers:
        for pid in supervisors(made, vm):
            with suppress(OSError):
                if b"python3" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGTERM)
    for server in made.servers.values():
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(10)
