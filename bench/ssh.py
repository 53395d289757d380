"""What asking many hosts over SSH costs, against paramiko alone in as many threads: real OpenSSH on loopback.

Run it with ``python bench/ssh.py``; it needs ``sshd``. One server stands for all hosts, each with a connection of its
own, one login and the same commands. Both clients check the key of the server, and their figures hold the server's
work as well, which is the same; what counts is the ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko

from vsphere_ai.connect.esxi import Ssh
from vsphere_ai.connect.gate import LoginGate
from vsphere_ai.connect.ssh_endpoint import SshEndpoint

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
"""


@contextlib.contextmanager
def server(folder: Path) -> Iterator[int]:
    """Run an OpenSSH server that lets the key ``user`` in; yields its port."""
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(program).exists():
        raise SystemExit("there is no sshd: install the package openssh-server")
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
    with Ssh(at, gate=gate) as shell:
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


def timed(work, hosts: int, threads: int) -> tuple[float, float]:
    """Do one thing for each host, so many side by side; return wall and CPU seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work) for _ in range(hosts)]:
            done.result()
    return time.perf_counter() - began, time.process_time() - cpu


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=200, help="connections")
    parser.add_argument("--threads", type=int, default=16, help="at a time")
    parser.add_argument("--commands", type=int, default=3, help="commands on each")
    parser.add_argument("--times", type=int, default=3, help="runs of each, in turn; the median is shown")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name, server(Path(name)) as port:
        folder = Path(name)
        key = (folder / "host.pub").read_text("utf-8").split()[:2]
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(key)}\nhost {' '.join(key)}\n", "utf-8")
        figures: dict[str, list[tuple[float, float]]] = {"paramiko": [], "vsphere-ai": []}
        for _ in range(given.times):
            gate = LoginGate()
            work = {
                "paramiko": lambda: bare(folder, port, given.commands),
                "vsphere-ai": lambda gate=gate: ours(folder, port, given.commands, gate),
            }
            for client, each in work.items():
                figures[client].append(timed(each, given.hosts, given.threads))
    wall = {client: statistics.median(w for w, _ in found) for client, found in figures.items()}
    for client, found in figures.items():
        cpu = statistics.median(c for _, c in found)
        print(f"{client:12} {wall[client]:6.2f} s, {cpu:5.2f} s of CPU: {given.hosts} hosts, {given.commands} commands")
    print(f"{wall['vsphere-ai'] / wall['paramiko']:.2f} x paramiko in {given.threads} threads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
