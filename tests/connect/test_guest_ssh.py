"""SSH to guests: OpenSSH servers on loopback, and servers that mean harm."""
# ruff: noqa: F811 - the fixtures are imported

from __future__ import annotations

import os
import resource
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.gates import LONG, busy, until
from support.guest_sshd import Guests, sshd  # noqa: F401
from support.programs import needs_program
from support.raising import refused
from support.ssh_host import KEY, OTHER, RSA, host, line, say  # noqa: F401

from vsphere_ai.connect.secure_shell.guest_ssh import Done, GuestSettings, GuestSsh, GuestTimedOut
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.connect.secure_shell.ssh import LARGEST_GREETING
from vsphere_ai.connect.secure_shell.ssh_endpoint import ConnectionBroken
from vsphere_ai.errors import Denied, Unreachable
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import plain


def settings(port, tmp_path, known=None, **changed):
    """How to reach a hostile server on loopback."""
    path, key = tmp_path / "known_hosts", tmp_path / "id"
    path.write_text(line(f"[127.0.0.1]:{port}", KEY) if known is None else known)
    RSA.write_private_key_file(str(key))
    return GuestSettings("root", path, **{"key_file": key, "port": port, **changed})


@pytest.fixture
def hostile(host, tmp_path):
    """A connection to a server that behaves as told."""
    host.user_key, host.methods = RSA, "publickey"
    shell = GuestSsh("127.0.0.1", settings(host.port, tmp_path), "trn-03")
    yield shell
    shell.close()


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def processes(mark):
    """The processes of this machine that have a mark in their command line."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue
        if entry.isdigit() and mark.encode() in words:
            found.append(words)
    return found


# -- real servers


def test_a_command_its_input_and_its_code(sshd):
    sshd.start("trn-00")
    with sshd.shell("trn-00") as shell:
        done = shell.run(["sh", "-c", 'cat; echo "$1 $HOME" >&2; exit 3', "sh", "a b'c;$d"], stdin=b"in\xff" * 3)
        assert done == Done(3, "in\N{REPLACEMENT CHARACTER}" * 3, f"a b'c;$d {sshd.servers['trn-00'].home}\n")
        assert done.shown.startswith("a b'c;$d")
        big = os.urandom(700_000)
        assert shell.run(["sha256sum"], stdin=big).out.split()[0] == __import__("hashlib").sha256(big).hexdigest()
        assert shell.run(["true"], stdin=big) == Done(0, "", "")  # it reads nothing of it


def test_no_such_command_is_an_exit_code(sshd):
    sshd.start("trn-00")
    assert sshd.shell("trn-00").run(["ibv_devinfo"]).code == 127


@needs_program("ssh-agent", "ssh-add")
def test_the_keys_of_an_agent(sshd, monkeypatch, tmp_path):
    sshd.start("trn-00")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with refused(Denied, "denied", "agent"):
        sshd.shell("trn-00", key_file=None, agent=True).connect()
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        while not (tmp_path / "agent").exists():
            time.sleep(0.01)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
        for key in (tmp_path / "other", sshd.folder / "id"):
            subprocess.run(["ssh-add", "-q", str(key)], check=True, capture_output=True)
        with sshd.shell("trn-00", key_file=None, agent=True) as shell:
            assert shell.run(["echo", "in"]).out == "in\n"
    finally:
        agent.terminate()
        agent.wait(LONG)


def test_a_command_that_hangs_is_named_and_leaves_nothing_behind(sshd, tmp_path):
    sshd.start("trn-00")
    mark = str(tmp_path / "hangs")
    shell = sshd.shell("trn-00")
    begun = time.monotonic()
    with refused(GuestTimedOut, "guest.timed-out", "trn-00", "`sh -c"):
        shell.run(["sh", "-c", f"trap '' TERM; while :; do sleep 0.2; done; : {mark}"], timeout=1)
    assert time.monotonic() - begun < 5 * busy()
    assert processes(mark), "the guest ends it a little later"
    end = time.monotonic() + LONG
    while processes(mark) and time.monotonic() < end:
        time.sleep(0.1)
    assert processes(mark) == []
    assert shell.run(["echo", "well"]).out == "well\n"
    shell.close()


def test_a_gigabyte_of_output_is_cut_and_its_command_ended(sshd, tmp_path):
    sshd.start("trn-00")
    (tmp_path / "zero").symlink_to("/dev/zero")
    before = memory()
    with sshd.shell("trn-00") as shell:
        done = shell.run(["head", "-c", str(1 << 30), str(tmp_path / "zero")], timeout=60, most=1 << 20)
        assert (done.code, done.truncated, len(done.out)) == (-1, True, 1 << 20)
        end = time.monotonic() + LONG
        while processes(str(tmp_path / "zero")) and time.monotonic() < end:
            time.sleep(0.05)
        assert processes(str(tmp_path / "zero")) == []
        assert shell.run(["echo", "well"]) == Done(0, "well\n", "")
    assert memory() - before < 100


def test_a_login_banner_of_a_real_server_is_taken(sshd, tmp_path):
    (tmp_path / "banner").write_text("\x1b[31mauthorised use only\n" * 100)
    sshd.start("trn-00", f"Banner {tmp_path / 'banner'}")
    with sshd.shell("trn-00") as shell:
        assert shell.run(["echo", "in"]).out == "in\n"


# -- servers that mean harm


@pytest.mark.parametrize("flood", [b"x" * 65536, b"welcome\r\n" * 8192, b"SSH-2.0-x\r\n" + b"\0" * 65536])
def test_a_flood_of_banners_is_bounded(tmp_path, flood):
    sent, stop = [0], threading.Event()

    def serve():
        while not stop.is_set():
            try:
                client, _ = listener.accept()
                while not stop.is_set():
                    sent[0] += client.send(flood)
            except OSError:
                continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        begun, before = time.monotonic(), memory()
        with pytest.raises(Unreachable, match="trn-03: no SSH handshake") as error:
            GuestSsh("127.0.0.1", settings(listener.getsockname()[1], tmp_path), "trn-03").connect()
        assert "host" not in error.value.remedy
        stop.set()
    assert time.monotonic() - begun < 12 * busy()
    assert sent[0] < LARGEST_GREETING + (32 << 20), "what the kernel buffers of three connections is not read"
    assert memory() - before < 60


def test_a_flood_in_a_command_is_bounded_on_both_streams(host, hostile):
    def flood(channel, _command):
        try:
            while not host.release.is_set():
                channel.sendall(b"x" * 65536)
                channel.sendall_stderr(b"y" * 65536)
        except (OSError, EOFError):
            return

    host.answer = flood
    before = memory()
    done = hostile.run(["nvidia-smi"], most=300_000)
    assert done.truncated
    assert len(done.out) + len(done.err) <= 300_000
    assert memory() - before < 60


@pytest.mark.parametrize("how", ["never ends", "exec is not answered", "closes its streams only"])
def test_a_server_that_does_not_end_a_command(host, hostile, how):
    host.frozen_exec = how == "exec is not answered"

    def streams_only(channel, _command):
        channel.shutdown_write()
        host.release.wait(60)

    host.answer = streams_only if how == "closes its streams only" else lambda c, _: host.release.wait(60)
    begun = time.monotonic()
    with pytest.raises(GuestTimedOut, match=r"trn-03: `nvidia-smi -q`.*0\.4 s"):
        hostile.run(["nvidia-smi", "-q"], timeout=0.4)
    assert time.monotonic() - begun < 10 * busy()


def test_a_connection_that_breaks_is_not_a_time_out(host, hostile):
    host.answer = lambda channel, _: channel.get_transport().close()
    with pytest.raises(ConnectionBroken, match="trn-03: `true`"):
        hostile.run(["true"])


def test_escape_sequences_never_reach_the_terminal(host, hostile):
    host.answer = say(
        "a\x1b]0;title\x07b\x1b[2J\x1b[31mc\td\r\n\x1b(0e\x9b31mf\x00\n\x1b]52;c;aGk=\x1b\\g\u202eh", status=2
    )
    done = hostile.run(["dmesg"])
    assert "\x1b]0;title\x07" in done.out, "parsers get what was written"
    assert plain(done.out).split("\n") == [
        "abc    d",
        "e\N{REPLACEMENT CHARACTER}31mf\N{REPLACEMENT CHARACTER}",
        "g\N{REPLACEMENT CHARACTER}h",
    ]
    assert done.shown == "g\N{REPLACEMENT CHARACTER}h"


def test_a_changed_key_is_refused_before_a_login(host, tmp_path):
    known = line(f"[127.0.0.1]:{host.port}", OTHER)
    with refused(Denied, "ssh.host-key", "trn-03"):
        GuestSsh("127.0.0.1", settings(host.port, tmp_path, known), "trn-03").connect()
    assert host.attempts == 0


def test_a_refused_key_says_whose_login_it_was(host, tmp_path):
    host.user_key, host.methods = OTHER, "publickey"
    with pytest.raises(Denied, match="trn-03 does not accept the SSH login of root") as caught:
        GuestSsh("127.0.0.1", settings(host.port, tmp_path), "trn-03").connect()
    assert "authorized_keys" in caught.value.remedy
    assert "ESXi" not in caught.value.remedy


def test_one_silent_guest_of_many_holds_up_no_other(host, tmp_path):
    """The others are logged in while it is silent still."""
    host.user_key, host.methods = RSA, "publickey"
    nodes = [Node(f"trn-{n:02d}", "127.0.0.1") for n in range(20)]
    with ThreadPoolExecutor() as pool, socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        at = {"trn-01": ("127.0.0.1", silent.getsockname()[1])}
        given = settings(host.port, tmp_path, addresses=at, connect_timeout=LONG)
        opened = pool.submit(GuestConnections.to, nodes, given)
        until(lambda: sum(transport.is_authenticated() for transport in tuple(host.transports)) == 19)
        assert not opened.done()
        silent.close()
        with opened.result(LONG) as guests:
            assert set(guests.failed) == {"trn-01"}
            assert len(guests.shells) == 19


def test_a_silent_guest_costs_its_own_deadline(tmp_path):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        given = settings(silent.getsockname()[1], tmp_path, connect_timeout=0.5)
        guests = GuestConnections.to([Node("trn-01", "127.0.0.1")], given)
    assert (guests.shells, set(guests.failed)) == ({}, {"trn-01"})
    assert isinstance(guests.failed["trn-01"], Unreachable)


def test_secrets_are_not_shown(tmp_path):
    assert "hunter" not in repr(GuestSettings("u", tmp_path, passphrase="hunter2"))
