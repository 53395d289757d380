"""Other users of a machine on which a fleet works: with no certificate of the fleet they run nothing and see nothing.

Each attack is carried out for real, against a scheduler, a worker and a coordinator on loopback; the last test has the
key of the fleet, and shows that the same code would have run.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import fleets
from support.dask_fleet import QUICK, Cluster, certificate, expired_certificate

from vsphere_ai.fleet.address import Address, context, security
from vsphere_ai.fleet.certificates import TlsFiles

pytestmark = pytest.mark.lab
ATTACK = """
import json, os, ssl, sys
from distributed import Client
from distributed.security import Security

address, files, marker, settled = json.loads(sys.argv[1])


class Loose(Security):
    # as one that verifies nothing and shows what it has
    def _get_tls_context(self, tls, purpose):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        if files:
            made.load_cert_chain(*files[1:])
        return made


shown = [None] if address.startswith("tcp") else [Loose()]
for security in shown:
    with Client(address, security=security, timeout=4, set_as_default=False) as client:
        if settled == "scheduler":
            client.run_on_scheduler(os.system, f"touch {marker}")
        elif settled == "worker":
            client.run(os.system, f"touch {marker}")
        else:
            client.submit(os.system, f"touch {marker}", pure=False).result(4)
"""
PAGES = ("/", "/info/main/workers.html", "/json/identity.json", "/metrics", "/api/v1", "/health", "/status")
"""Of Dask's web server."""
FRAMES = b"\x80\x04\x95" + b"cos\nsystem\n(S'touch MARKER'\ntR."
"""What a reader that takes pickles apart would carry out."""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def fleet(cli, make_lab, cluster):
    """A scheduler, a worker of it, and a coordinator in the middle of a run."""
    lab = make_lab(fleets.scenario("berlin", 0.4))
    worker = cluster.worker(cli.file(fleets.inventory({"berlin": lab}), "berlin.yml"))
    worker.until("its certificate expires")
    command = cluster.command("apply", cli.file(fleets.playbook(["berlin"])), "--yes", "--parallel", "1")
    fleets.hold(lab, 1)
    worker.until("epoch 1")
    fleets.struck(lab)
    yield cluster, worker, command
    lab.clear_faults()
    assert command.ended() == 0, command.seen
    assert fleets.effects(lab) == fleets.once("berlin"), "the attacks have changed nothing"


def ports(process):
    """The TCP ports on which a process listens, with their addresses in hexadecimal."""
    own = set()
    for each in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(str(each.readlink()))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process.pid}/net/{table}").read_text("utf-8").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                host, port = words[1].split(":")
                found.append((host, int(port, 16)))
    return found


def attacked(address, files, marker, settled):
    """Run code through Dask; return whether it was run, and how the attempt ended."""
    given = json.dumps([address, [str(each) for each in files], str(marker), settled])
    done = subprocess.run(
        [sys.executable, "-c", ATTACK, given], capture_output=True, text=True, timeout=60, check=False
    )
    return marker.exists(), done.returncode, done.stderr


def test_no_one_else_runs_code_in_a_fleet_on_loopback(fleet, tmp_path):
    cluster, worker, command = fleet
    listening = {name: ports(each) for name, each in
                 (("scheduler", cluster.scheduler), ("worker", worker), ("coordinator", command))}  # fmt: skip
    assert all(host == "0100007F" for each in listening.values() for host, _ in each), "nothing but 127.0.0.1"
    assert {name: len(each) for name, each in listening.items()} == {"scheduler": 2, "worker": 2, "coordinator": 1}, (
        "the port of the fleet, and the web server of Dask without any page"
    )
    own = cluster.tls
    other, expired = certificate(tmp_path / "other"), tmp_path / "expired"
    expired.mkdir(mode=0o700)
    for name in ("ca.pem", "ca.key"):
        (expired / name).write_bytes((own[0].parent / name).read_bytes())
    expired = expired_certificate(expired)
    marker = tmp_path / "PWNED"
    attempts = [
        (address, files, settled)
        for address in (cluster.address, str(worker.seen).split(" at ")[1].split(",")[0])
        for settled, files in (("", ()), ("scheduler", other), ("worker", expired))
    ]
    attempts += [(cluster.address.replace("tls", "tcp"), (), settled) for settled in ("", "scheduler")]
    for address, files, settled in attempts:
        ran, code, why = attacked(address, files, marker, settled)
        assert (ran, code != 0) == (False, True), (address, files, settled)
        assert "Timed out" in why or "SSL" in why or "OSError" in why or "CommClosed" in why, why
    tls = [context(security(Address("127.0.0.1", 1), TlsFiles(*other)), "worker", listens=False)]
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.append(bare)
    for each in tls:
        each.check_hostname, each.verify_mode = False, ssl.CERT_NONE
    for name, each in listening.items():
        for _, port in each:
            for secure in (None, *tls):
                answer = raw(port, secure, FRAMES.replace(b"MARKER", str(marker).encode()))
                assert b"vsphere" not in answer
                assert b"berlin" not in answer
                assert len(answer) < 200, f"{name} answers {answer!r}"
    for port in (port for name in ("scheduler", "worker") for _, port in listening[name]):
        for path in (
            "/",
            "/info/main/workers.html",
            "/json/identity.json",
            "/metrics",
            "/api/v1",
            "/health",
            "/status",
        ):
            answer = raw(port, None, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert b" 200 " not in answer, (path, answer)
    assert not marker.exists()


def raw(port, secure, text):
    """Send something to a port of loopback, with TLS where that is given; return the answer, b"" without one."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 3) as plain:
        plain.settimeout(0.5)
        sock = secure.wrap_socket(plain) if secure else plain
        sock.sendall(text)
        while part := sock.recv(1 << 16):
            answer += part
    return answer


@pytest.mark.parametrize("settled", ["", "scheduler", "worker"])
def test_who_has_a_key_of_the_fleet_runs_code_there(cli, make_lab, cluster, tmp_path, settled):
    """So the attacks above would have been seen to succeed; and so keys are kept as passwords are."""
    lab = make_lab(fleets.scenario("berlin"))
    cluster.worker(cli.file(fleets.inventory({"berlin": lab}), "berlin.yml")).until("its certificate expires")
    marker = tmp_path / "PWNED"
    ran, code, why = attacked(cluster.address, cluster.tls, marker, settled)
    assert (ran, code) == (True, 0), why


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="of Unix")
def test_another_user_reads_no_key(cluster):
    """A real other user, who knows the names of the files."""
    code = "import os, sys\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\nprint(open(sys.argv[1]).read())"
    for path in (cluster.tls[2], cluster.tls[0].with_name("ca.key"), cluster.tls[1]):
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "PermissionError" in done.stderr
        assert "PRIVATE KEY" not in done.stdout


def test_a_worker_begins_nothing_with_a_scheduler_of_others(cli, make_lab, cluster, tmp_path):
    """A stock scheduler with another authority's certificates, and one without TLS, in the place of the fleet's."""
    lab = make_lab(fleets.scenario("berlin"))
    inventory = cli.file(fleets.inventory({"berlin": lab}), "berlin.yml")
    before = cluster.tls
    cluster.scheduler.kill()
    cluster.tls = certificate(tmp_path / "other")
    cluster.start_scheduler()
    cluster.tls = before
    own = ("fleet", "worker", cluster.address, "-i", inventory, *cluster.tls_options)
    assert cli(*own) == 4
    assert cli.error == "fleet.tls"
    assert "no certificate of the fleet's authority" in cli.err
    playbook = cli.file(fleets.playbook(["berlin"]))
    for command in ("plan", "apply"):
        assert cli("fleet", command, playbook, *cluster.place) == 4
        assert cli.error == "fleet.tls"
    bare = cluster.start("-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--dashboard-address", "127.0.0.1:0",
                         "--host", "tcp://127.0.0.1:0")  # fmt: skip
    cluster.address = bare.until(r"Scheduler at:\s+(\S+)")[1].replace("tcp", "tls")
    assert cli("fleet", "plan", playbook, *cluster.place) == 4
    assert cli.error == "fleet.tls"
    assert fleets.effects(lab) == {}


def test_a_worker_waits_for_its_scheduler_while_that_of_others_is_in_its_place(cli, make_lab, cluster, tmp_path):
    lab = make_lab(fleets.scenario("berlin"))
    worker = cluster.worker(cli.file(fleets.inventory({"berlin": lab}), "berlin.yml"))
    worker.until("its certificate expires")
    port, before = int(cluster.address.rpartition(":")[2]), cluster.tls
    cluster.scheduler.kill()
    cluster.tls = certificate(tmp_path / "other")
    cluster.start_scheduler(port)
    worker.until("no certificate of the fleet's authority")
    cluster.scheduler.kill()
    cluster.tls = before
    cluster.start_scheduler(port)
    worker.until(r"(vCenters berlin(.|\n)*){2}")
    time.sleep(0.1)
    assert worker.process.poll() is None
