"""The lab's SSH server with real clients: paramiko always, OpenSSH where it is installed."""

import os
import socket
import stat
import subprocess
import threading
import time

import paramiko
import pytest
from support.gates import LONG
from support.programs import needs_program

from vsphere_ai.lab.hardware import parts
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.sshd import SshServer

PASSWORD = "VMware1!"


@pytest.fixture
def host():
    machine = LabHost(
        "esx01.lab.local",
        Ledger(),
        gpus=[LabGpu.of(0, "0000:3b:00.0", "a100-40gb", device_id=0x20F1)],
        vibs=[parts.driver_vib("470.256.02")],
        boot_seconds=0.3,
        shutdown_seconds=0.05,
    )
    machine.set_service("TSM-SSH", running=True)
    yield machine
    machine.close()


@pytest.fixture
def server(host):
    running = SshServer(host, password=PASSWORD).start()
    yield running
    running.close()


def client(server, password=PASSWORD, **options):
    made = paramiko.SSHClient()
    made.get_host_keys().add(f"[127.0.0.1]:{server.port}", server.key.get_name(), server.key)
    made.connect(
        "127.0.0.1", server.port, "root", password, allow_agent=False, look_for_keys=False, timeout=5, **options
    )
    made.get_transport().sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def run(connection, line):
    _, out, err = connection.exec_command(line, timeout=5)
    return out.read().decode(), err.read().decode(), out.channel.recv_exit_status()


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except ConnectionRefusedError:
        return True
    return False


def wait_for(condition, seconds=LONG):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)


def test_command_output_and_status(server):
    with client(server) as connection:
        assert run(connection, "vmware -v") == ("VMware ESXi 7.0.2 build-17867351\n", "", 0)
        assert run(connection, "docker ps") == ("", "sh: docker: not found\n", 127)


def test_fast_commands_never_lose_their_channel(server):
    """paramiko closes the channel too early if a command starts before its request is acknowledged."""
    with client(server) as connection:
        (transport,) = server._transports
        assert transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "without it each command takes 44 ms"
        assert all(run(connection, f"echo {n}") == (f"{n}\n", "", 0) for n in range(60))


def test_commands_run_side_by_side(server):
    with client(server) as connection:
        found = []
        work = [threading.Thread(target=lambda n=n: found.append(run(connection, f"echo {n}")[0])) for n in range(8)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert sorted(found) == [f"{n}\n" for n in range(8)]


def test_keyboard_interactive_asks_like_esxi(server):
    server.methods = "keyboard-interactive"
    asked = []
    transport = paramiko.Transport(("127.0.0.1", server.port))
    transport.start_client(timeout=5)
    transport.auth_interactive("root", lambda title, text, prompts: [asked.append(p) or PASSWORD for p in prompts])
    assert transport.is_authenticated()
    assert asked == [("(root@esx01.lab.local) Password: ", False)]
    transport.close()
    with client(server) as connection:
        assert run(connection, "true")[2] == 0


def test_wrong_password_is_refused_and_five_lock_the_account(server):
    for _ in range(4):
        with pytest.raises(paramiko.AuthenticationException):
            client(server, "wrong")
    assert server.failures >= 4
    server.methods = "password"
    server.failures = 4
    with pytest.raises(paramiko.AuthenticationException):
        client(server, "wrong")
    with pytest.raises(paramiko.AuthenticationException):
        client(server)
    assert server.failures == 5
    assert server.locked_until > time.monotonic() + 800
    server.locked_until = 0.0
    before = server.login_attempts
    client(server).close()
    assert server.login_attempts == before + 1


def test_a_public_key_logs_in_once_it_is_authorized(server, host):
    key = paramiko.RSAKey.generate(2048)
    with pytest.raises(paramiko.AuthenticationException):
        client(server, None, pkey=key)
    server.authorized_keys.add(key.get_base64())
    client(server, None, pkey=key).close()
    host.lockdown_mode = "lockdownNormal"
    with pytest.raises(paramiko.AuthenticationException):
        client(server, None, pkey=key)
    assert server.login_attempts == 0


def test_a_terminal_echoes_edits_and_prompts(server):
    with client(server) as connection:
        channel = connection.invoke_shell()
        channel.settimeout(5)
        channel.sendall(b"vmx\x7fware -x\x03hostname\rexit\r")
        shown = b""
        while data := channel.recv(4096):
            shown += data
        text = shown.decode()
        assert text.startswith("The time and date of this login have been sent to the system logs.\r\n")
        assert "[root@esx01:~] vmx\b \bware -x^C\r\n[root@esx01:~] hostname\r\nesx01.lab.local\r\n" in text
        assert channel.recv_exit_status() == 0


def test_ctrl_d_leaves_the_terminal(server):
    with client(server) as connection:
        channel = connection.invoke_shell()
        channel.settimeout(5)
        channel.sendall(b"false\r\x04")
        while channel.recv(4096):
            pass
        assert channel.recv_exit_status() == 1


def test_a_client_that_leaves_its_terminal_ends_the_session(server):
    with client(server) as connection:
        connection.invoke_shell()
    wait_for(lambda: server.sessions == 0)


def test_a_good_login_resets_the_count_of_failures(server):
    server.methods = "password"
    for _ in range(2):
        for _ in range(4):
            with pytest.raises(paramiko.AuthenticationException):
                client(server, "wrong")
        client(server).close()
    assert server.locked_until == 0.0


@pytest.mark.parametrize("mode", ["lockdownNormal", "lockdownStrict"])
def test_lockdown_mode_refuses_all_but_exceptions(server, host, mode):
    host.lockdown_mode = mode
    with pytest.raises(paramiko.AuthenticationException):
        client(server)
    host.lockdown_exceptions.add("root")
    client(server).close()


def test_a_stopped_service_refuses_connections_and_leaves_sessions_alone(server, host):
    with client(server) as connection:
        host.set_service("TSM-SSH", running=False)
        assert refuses(server.port)
        assert run(connection, "echo still here")[0] == "still here\n"
        host.set_service("TSM-SSH", running=True)
        assert run(connection, "echo again")[0] == "again\n"
    client(server).close()


def test_the_firewall_closes_the_port(server, host):
    host.set_firewall("sshServer", False)
    assert refuses(server.port)
    host.set_firewall("sshServer", True)
    client(server).close()


def test_the_port_can_be_closed_and_opened_many_times(server, host):
    for _ in range(20):
        host.set_service("TSM-SSH", running=False)
        assert refuses(server.port)
        host.set_service("TSM-SSH", running=True)
        assert not refuses(server.port)


def test_reboot_from_the_shell_ends_sessions_and_the_service(server, host):
    with client(server) as connection:
        assert run(connection, "reboot") == ("", "", 0)
        wait_for(lambda: not connection.get_transport().is_active())
    assert refuses(server.port)
    wait_for(lambda: host.up)
    assert refuses(server.port), "SSH was started by hand and its policy is off"
    host.set_service("TSM-SSH", running=True)
    client(server).close()
    assert [e.call for e in host.ledger.entries()] == ["reboot"]


def test_policy_on_brings_ssh_back_after_a_reboot(server, host):
    host.set_service_policy("TSM-SSH", "on")
    host.reboot()
    wait_for(lambda: refuses(server.port))
    wait_for(lambda: not refuses(server.port))
    client(server).close()


def test_host_key_is_kept_with_the_file_and_private(host, tmp_path):
    path = tmp_path / "ssh_host_ed25519_key"
    first = SshServer(host, password=PASSWORD, key_file=path)
    line = first.known_hosts_line()
    port, reserved = first.port, first.hand_over()
    first.close()
    second = SshServer(host, password=PASSWORD, key_file=path, reserved=reserved)
    assert second.known_hosts_line() == line
    assert line.startswith(f"[127.0.0.1]:{port} ssh-ed25519 ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second.close()
    third = SshServer(host, password=PASSWORD)
    assert third.key.get_base64() not in line
    third.close()


def test_a_closed_server_keeps_its_port_for_the_next(host):
    first = SshServer(host, password=PASSWORD).start()
    client(first).close()
    reserved = first.hand_over()
    first.close()
    assert refuses(first.port)
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("127.0.0.1", first.port))
    second = SshServer(host, password=PASSWORD, reserved=reserved).start()
    assert second.port == first.port
    client(second).close()
    host.set_service("TSM-SSH", running=False)
    assert refuses(second.port)
    second.close()


def test_a_half_open_client_does_not_hold_up_others(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=2), client(server) as connection:
        assert run(connection, "true")[2] == 0


openssh = needs_program("ssh")


def ssh(server, tmp_path, *words, text=None):
    (tmp_path / "known_hosts").write_text(server.known_hosts_line() + "\n")
    asker = tmp_path / "askpass"
    asker.write_text(f"#!/bin/sh\necho '{PASSWORD}'\n")
    asker.chmod(0o700)
    command = [
        "ssh", "-F", "none", "-p", str(server.port), "-o", f"UserKnownHostsFile={tmp_path / 'known_hosts'}",
        "-o", "StrictHostKeyChecking=yes", "-o", "PubkeyAuthentication=no", "root@127.0.0.1", *words,
    ]  # fmt: skip
    environment = {**os.environ, "SSH_ASKPASS": str(asker), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
    return subprocess.run(
        command, env=environment, input=text, capture_output=True, text=True, timeout=LONG, check=False
    )


@openssh
def test_openssh_runs_a_command(server, tmp_path):
    done = ssh(server, tmp_path, "nvidia-smi", "--query-gpu=name", "--format=csv,noheader", text="")
    assert (done.returncode, done.stdout) == (0, "NVIDIA A100-PCIE-40GB\n")
    assert ssh(server, tmp_path, "false", text="").returncode == 1


@openssh
def test_openssh_feeds_a_shell(server, tmp_path):
    done = ssh(server, tmp_path, text="hostname\nvmware -l\nfalse\n")
    assert (done.returncode, done.stdout) == (1, "esx01.lab.local\nVMware ESXi 7.0 Update 2\n")
