"""SSH against a small server: host keys, logins, deadlines and broken connections."""
# ruff: noqa: F811 - the fixtures are imported

from __future__ import annotations

import socket
import threading
import time

import paramiko
import pytest
from support.gates import busy
from support.raising import refused
from support.ssh_host import KEY, OTHER, PASSWORD, RSA, connect, host, line, say  # noqa: F401

from vsphere_ai.connect.gate import LoginGate
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.hostkeys import fingerprint
from vsphere_ai.connect.secure_shell.ssh import LARGEST_OUTPUT, WEAK, fetch_host_key
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshEndpoint, SshLimits, SshRefused
from vsphere_ai.errors import Denied, OutcomeUnknown, Unreachable
from vsphere_ai.model.facts import CommandOutput


def test_a_command_gives_status_and_both_streams(host, connect):
    host.answer = say("out ü\n", "err\n", 3)
    with connect() as shell:
        assert shell.run(["nvidia-smi", "-q", "a b'c"], 5) == CommandOutput(3, "out ü\n", "err\n")
        assert shell.run(("true",), 5).status == 3
    assert host.commands[0] == "nvidia-smi -q 'a b'\"'\"'c'"
    assert host.connections == 1


@pytest.mark.parametrize(
    "methods", ["publickey,keyboard-interactive", "publickey,password", "password,keyboard-interactive"]
)
def test_a_password_is_given_the_way_the_host_takes_it_once(host, connect, methods):
    host.methods = methods
    connect().run(["true"], 5)
    assert host.attempts == 1


@pytest.mark.parametrize("methods", ["publickey,keyboard-interactive", "password,keyboard-interactive"])
def test_a_wrong_password_is_tried_once(host, connect, methods):
    host.methods = methods
    with refused(Denied, "login.refused", "esx01", "root"):
        connect(password="wrong").connect()
    assert host.attempts == 1


def test_a_host_without_passwords_says_what_it_takes(host, connect):
    host.methods = "publickey"
    with refused(Denied, "denied", "esx01", "publickey"):
        connect().connect()
    assert host.attempts == 0


@pytest.mark.parametrize("passphrase", [None, "pässphrase"])
def test_a_key_file(host, connect, tmp_path, passphrase):
    host.user_key = RSA
    path = tmp_path / "id_rsa"
    RSA.write_private_key_file(str(path), password=passphrase)
    connect(password=None, key_file=path, passphrase=passphrase).run(["true"], 5)
    assert host.attempts == 1
    with pytest.raises(Denied, match="cannot be used"):
        connect(password=None, key_file=tmp_path / "absent").connect()
    if passphrase:
        with pytest.raises(Denied, match="cannot be used"):
            connect(password=None, key_file=path, passphrase="other").connect()


@pytest.mark.parametrize("form", ["address", "hashed", "host name", "after junk", "beside another type"])
def test_a_known_key_is_accepted(host, connect, form):
    name = f"[127.0.0.1]:{host.port}"
    texts = {
        "address": line(name, KEY),
        "hashed": line(paramiko.HostKeys.hash_host(name), KEY),
        "host name": line(f"[esx01]:{host.port}", KEY),
        "after junk": f"# comment\n\n{name} ecdsa-sha2-nistp256 notbase64\n@cert-authority * x y\njunk\n"
        + line(name, KEY),
        "beside another type": line(name, RSA) + line(name, KEY),
    }
    connect(known=texts[form]).run(["true"], 5)


@pytest.mark.parametrize(
    "form", ["unknown", "other port", "changed", "other type only", "revoked", "authority", "empty"]
)
def test_any_other_key_is_refused_before_a_login(host, connect, form):
    name = f"[127.0.0.1]:{host.port}"
    texts = {
        "unknown": line("[10.0.0.1]:22", KEY),
        "other port": line("127.0.0.1", KEY),
        "changed": line(name, OTHER),
        "other type only": line(name, RSA),
        "revoked": line(name, KEY) + line(name, KEY, "@revoked "),
        "authority": line(name, KEY, "@cert-authority "),
        "empty": "",
    }
    with pytest.raises(Denied) as caught:
        connect(known=texts[form]).connect()
    assert host.attempts == 0
    assert fingerprint(KEY) in caught.value.message
    if form in ("unknown", "other port", "authority", "empty"):
        assert "vsphere-ai trust host esx01" in caught.value.remedy
    if form == "changed":
        assert fingerprint(OTHER) in caught.value.message


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_is_denied(host, connect, tmp_path, content):
    shell = connect()
    path = tmp_path / "known_hosts"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with refused(Denied, "denied", "known_hosts"):
        shell.connect()
    assert host.connections == 0


@pytest.mark.parametrize(("changes", "error"), [(False, Unreachable), (True, OutcomeUnknown)])
@pytest.mark.parametrize(
    "how",
    ["never ends", "exec is not answered", "ends without a status", "connection breaks", "closes its streams only"],
)
def test_a_command_whose_end_is_not_seen(host, connect, how, changes, error):
    def hold(channel, _command):
        channel.sendall(b"begun")
        host.release.wait(60)

    def streams_only(channel, _command):
        channel.shutdown_write()
        host.release.wait(60)

    def cut(channel, _command):
        channel.get_transport().close()

    host.answer = {
        "never ends": hold,
        "ends without a status": lambda c, _: c.close(),
        "connection breaks": cut,
        "closes its streams only": streams_only,
    }.get(how)
    host.frozen_exec = how == "exec is not answered"
    shell = connect()
    begun = time.monotonic()
    with pytest.raises(error, match="esx01: `reboot -d 0`"):
        shell.run(["reboot", "-d", "0"], 0.4, changes=changes)
    assert time.monotonic() - begun < 30 * busy(), "the host is silent for a minute"
    assert len(host.commands) == 1


def test_the_connection_is_made_again_after_it_broke(host, connect):
    host.answer = lambda channel, _: channel.get_transport().close()
    shell = connect()
    with pytest.raises(Unreachable):
        shell.run(["true"], 5)
    host.answer = None
    assert shell.run(["true"], 5).stdout == "ran true\n"
    assert host.connections == 2


def test_endless_output_is_cut(host, connect):
    def flood(channel, _command):
        try:
            while not host.release.is_set():
                channel.sendall(b"x" * 65536)
        except (OSError, EOFError):
            return

    host.answer = flood
    with refused(Unreachable, "unreachable", f" {LARGEST_OUTPUT >> 20} MiB"):
        connect().run(["yes"], 30)


def test_much_on_both_streams_does_not_block(host, connect):
    def both(channel, _command):
        for _ in range(20):
            channel.sendall_stderr(b"e" * 50_000)
            channel.sendall(b"o" * 50_000)
        channel.send_exit_status(0)
        channel.close()

    host.answer = both
    output = connect().run(["dmesg"], 20)
    assert (len(output.stdout), len(output.stderr)) == (1_000_000, 1_000_000)


def test_a_stopped_service_is_told_from_a_silent_host(connect, tmp_path):
    known = tmp_path / "k"
    known.write_text("")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(SshRefused) as caught:
            EsxiSsh(SshEndpoint("esx01", "127.0.0.1", port, "root", known, password="p")).connect()
        assert "TSM-SSH" in caught.value.remedy
        with pytest.raises(SshRefused):
            fetch_host_key("127.0.0.1", port)


@pytest.mark.parametrize("greeting", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_a_port_without_ssh_is_unreachable_in_time(tmp_path, greeting):
    known = tmp_path / "k"
    known.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            client, _ = listener.accept()
            if greeting is not None:
                client.sendall(greeting)
                client.close()
            else:
                held.append(client)

        held = []
        threading.Thread(target=serve, daemon=True).start()
        begun = time.monotonic()
        endpoint = SshEndpoint("esx01", "127.0.0.1", listener.getsockname()[1], "root", known, password="p")
        with pytest.raises(Unreachable, match="no SSH handshake"):
            EsxiSsh(endpoint, SshLimits(banner=0.5, connect=60.0, login=60.0)).connect()
        assert time.monotonic() - begun < 12 * busy(), "paramiko's own limit is 15 s, and the others are a minute"


def test_the_key_of_a_host_can_be_shown_before_it_is_trusted(host):
    assert fetch_host_key("127.0.0.1", host.port) == KEY
    assert host.attempts == 0


def test_one_refused_credential_is_not_tried_on_another_host(host, connect):
    gate = LoginGate()
    for _ in range(3):
        with pytest.raises(Denied):
            connect(gate=gate, password="wrong").connect()
    assert host.attempts == 1
    connect(gate=gate).connect()
    assert host.attempts == 2


def test_weak_algorithms_are_not_offered(host, connect):
    shell = connect()
    shell.connect()
    options = shell._transport.get_security_options()
    offered = {*shell._transport.preferred_ciphers, *shell._transport.preferred_macs, *shell._transport.preferred_kex}
    assert not offered & {name for names in WEAK.values() for name in names}
    assert not any("cbc" in name or "md5" in name or "sha1" in name for name in offered)
    assert options.key_types


def test_secrets_are_not_shown(tmp_path):
    shown = repr(SshEndpoint("h", "a", 22, "root", tmp_path, password="hunter2", passphrase="hunter3"))
    assert "hunter" not in shown
