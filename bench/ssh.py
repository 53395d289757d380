"""What asking many hosts over SSH costs, against paramiko alone in as many threads: real OpenSSH on loopback.

Run it with ``python bench/ssh.py``; it needs ``sshd``. One server stands for all hosts, each with a connection of its
own, one login and the same commands. Both clients check the key of the server, and their figures hold the server's
work as well, which is the same; what counts is the ratio.
"""

from __future__ import annotations

import contextlib
import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko
from common import Case, Figures, Row, Size
from estates import Absent
from run import alone

from vsphere_ai.connect.gate import LoginGate
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshEndpoint

CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
MaxStartups 500
MaxSessions 100
UseDNS no
PermitUserRC no
SetEnv HOME={folder}
"""
"""A home of its own: what a shell reads there as it starts is no part of SSH."""


@contextlib.contextmanager
def server(folder: Path) -> Iterator[int]:
    """Run an OpenSSH server that lets the key ``user`` in; yields its port."""
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(program).exists():
        raise Absent("SSH is not measured: there is no sshd; install the package openssh-server")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder), "utf-8")
    running = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port
    finally:
        running.terminate()
        running.wait()


def ours(folder: Path, port: int, commands: int, gate: LoginGate) -> None:
    at = SshEndpoint("host", "127.0.0.1", port, getpass.getuser(), folder / "known_hosts", key_file=folder / "user")
    with EsxiSsh(at, gate=gate) as shell:
        for _ in range(commands):
            assert shell.run(("true",), 30).status == 0


def bare(folder: Path, port: int, commands: int) -> None:
    client = paramiko.SSHClient()
    client.load_host_keys(str(folder / "known_hosts"))
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = paramiko.Ed25519Key.from_private_key_file(str(folder / "user"))
        client.connect(
            "127.0.0.1", port, getpass.getuser(), pkey=key, sock=sock, look_for_keys=False, allow_agent=False
        )
        for _ in range(commands):
            _, out, _ = client.exec_command("true", timeout=30)
            assert out.channel.recv_exit_status() == 0
        client.close()


def timed(work, hosts: int, threads: int) -> Figures:
    """Do one thing for each host, so many side by side; return wall and CPU seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work) for _ in range(hosts)]:
            done.result()
    return {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu}


COUNTS = {"XS": 4, "S": 50}
"""Hosts that are asked, by the size; 200 of larger ones."""
THREADS, COMMANDS = 16, 3
PARAMIKO, OURS = "paramiko alone, in as many threads", "vsphere-ai"


def measure(size: Size, times: int) -> list[Row]:
    """Ask the hosts with both, in turn."""
    hosts = COUNTS.get(size.name, 200)
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        try:
            port = stack.enter_context(server(folder))
        except Absent as absent:
            absent.report()
            return []
        key = (folder / "host.pub").read_text("utf-8").split()[:2]
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(key)}\nhost {' '.join(key)}\n", "utf-8")

        def by_us() -> Figures:
            gate = LoginGate()
            return timed(lambda: ours(folder, port, COMMANDS, gate), hosts, THREADS)

        works = {PARAMIKO: lambda: timed(lambda: bare(folder, port, COMMANDS), hosts, THREADS), OURS: by_us}
        title = f"{hosts} hosts, {COMMANDS} commands each, {THREADS} at a time"
        case = Case("ssh", title, size, roles={PARAMIKO: "limit", OURS: "ours"})
        bare(folder, port, 1)  # the first use imports what it needs
        return case.compare(works, times)


if __name__ == "__main__":
    alone(__doc__, measure)
