"""`fleet certificates`; and without TLS, or with certificates that have expired, no command of a fleet connects."""

from __future__ import annotations

import contextlib
import socket
from datetime import UTC, datetime, timedelta

import pytest
from support.dask_fleet import certificate, expired_certificate

from vsphere_ai.app import FleetRun, Shard
from vsphere_ai.security.state_dir import own_folder


@pytest.fixture
def pki(tmp_path):
    return tmp_path / "pki"


def test_the_command_says_when_they_expire_and_replaces_none_unasked(cli, pki):
    assert cli("fleet", "certificates", pki) == 0, cli.err
    expires = datetime.now(UTC) + timedelta(days=90)
    assert f"{pki / 'localhost.pem'}  made, expires {expires:%Y-%m-%d}" in cli.out.replace("\n", "")
    assert str(pki / "ca.key") in cli.err
    before = {path: path.read_bytes() for path in pki.iterdir()}
    assert cli("fleet", "certificates", pki, "worker", "localhost") == 3
    assert cli.error == "fleet.certificate"
    assert "--renew" in cli.err
    assert {path: path.read_bytes() for path in pki.iterdir()} == before, "nothing was made"
    assert cli("fleet", "certificates", pki, "--renew", "--days", "3") == 0
    assert (pki / "ca.pem").read_bytes() == before[pki / "ca.pem"]
    assert (pki / "localhost.key").read_bytes() != before[pki / "localhost.key"]


def test_every_command_of_a_fleet_refuses_an_expired_certificate_before_it_connects(cli, pki, listens):
    names = ("--tls-ca", "--tls-cert", "--tls-key")
    files = [text for pair in zip(names, expired_certificate(pki), strict=True) for text in pair]
    playbook, own = cli.file("- vms: '*'\n  hardware: {version: 19}\n"), inventory(cli)
    for command in (
        ("fleet", "plan", playbook, "-i", own, "--executor", f"dask:tls://{listens.address}"),
        ("fleet", "apply", playbook, "-i", own, "--executor", f"dask:tls://{listens.address}", "--yes"),
        ("fleet", "worker", f"tls://{listens.address}", "-i", own),
    ):
        assert cli(*command, *files) == 4
        assert cli.error == "fleet.certificate"
        assert "has expired" in cli.err
    assert listens.connections() == 0


def inventory(cli):
    return cli.file('vcenters:\n  berlin: {address: 192.0.2.1, username: a, password: "env:P"}\n', "site.yml")


def test_every_command_refuses_a_scheduler_without_tls_before_it_connects(cli, pki, listens):
    """Also where certificates are given, and where the record of a fleet run names it: `status` connects to nothing."""
    names = ("--tls-ca", "--tls-cert", "--tls-key")
    files = [text for pair in zip(names, certificate(pki), strict=True) for text in pair]
    playbook, own = cli.file("- vms: '*'\n  hardware: {version: 19}\n"), inventory(cli)
    saved, bare = cli.file("{}", "fleet.json"), f"tcp://{listens.address}"
    a_record_of(bare)
    for command in (
        ("fleet", "plan", playbook, "-i", own, "--executor", f"dask:{bare}"),
        ("fleet", "apply", playbook, "-i", own, "--executor", f"dask:{bare}", "--yes"),
        ("fleet", "apply", saved, "-i", own, "--executor", f"dask:{bare}", "--yes"),
        ("fleet", "resume", "--executor", f"dask:{bare}"),
        ("fleet", "resume"),
        ("fleet", "worker", bare, "-i", own),
        ("fleet", "worker", bare, "-i", own, "--listen", "127.0.0.1"),
    ):
        for given in ((), files):
            assert cli(*command, *given) == 64, command
            assert cli.error == "usage.tls", command
            assert "vsphere-ai fleet certificates" in cli.err
    assert cli("fleet", "status") == 0, cli.err
    assert "unfinished" in cli.out or "not started" in cli.out
    assert listens.connections() == 0


def a_record_of(address):
    """The record of a fleet run that was to go on over an address, as another program could have written it."""
    shard = Shard(fleet="20261124-120000-ffff", vcenter="berlin", run="20261124-120000-0001", plan={"steps": [1]})
    about = {"fleet": shard.fleet, "started": "2026-11-24T12:00:00Z", "playbook": "x.yml"}
    values = FleetRun(**about, shards=(shard,), executor=f"dask:{address}").as_text()
    folder = own_folder("fleets")
    (folder / f"{shard.fleet}.json").write_text(values, "utf-8")


@pytest.fixture
def listens():
    made = Listens()
    yield made
    made.close()


class Listens:
    """A port of loopback that counts who connects; it answers nothing."""

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def connections(self):
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self._server.accept()[0].close()
                count += 1
        return count

    def close(self):
        self._server.close()
