"""Faults of commands on a host, and of hosts themselves, as a paramiko client meets them."""

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import paramiko
import pytest
from support.gates import LONG, struck

ESX = "esx02.lab.local"
SET = "esxcli system settings advanced set -o /Net/PVRDMAVmknic -s vmk2"


@pytest.fixture
def login(lab):
    """Open SSH connections to the host; host keys must be those of the lab's known_hosts."""
    password = (lab.directory / "ssh_password").read_text(encoding="utf-8").strip()
    made = []

    def connect(timeout=5.0):
        address = next(h["ssh"]["address"] for h in lab.get("/lab/farm")["hosts"] if h["name"] == ESX)
        client = paramiko.SSHClient()
        client.load_host_keys(str(lab.directory / "known_hosts"))
        made.append(client)
        client.connect(
            "127.0.0.1",
            int(address.rpartition(":")[2]),
            "root",
            password,
            allow_agent=False,
            look_for_keys=False,
            timeout=timeout,
            banner_timeout=timeout,
            auth_timeout=timeout,
        )
        return client

    yield connect
    for client in made:
        client.close()


def run(client, line, timeout=5.0):
    _, out, err = client.exec_command(line, timeout=timeout)
    return out.read().decode(errors="replace"), err.read().decode(), out.channel.recv_exit_status()


def vmknic(lab):
    return next(h for h in lab.get("/lab/farm")["hosts"] if h["name"] == ESX)["pvrdma"]["vmknic"]


def host(lab):
    return next(h for h in lab.get("/lab/farm")["hosts"] if h["name"] == ESX)


def wait_for(true, seconds=LONG):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("word", ["drop", "reset", "hang"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_command_whose_answer_never_comes(lab, login, word, when):
    lab.set_faults([{"on": "ssh: advanced set", "when": when, "do": word}])
    client = login()
    if word == "hang":
        with pytest.raises(TimeoutError):
            run(client, SET, timeout=0.4)
    else:
        with contextlib.suppress(paramiko.SSHException, OSError):
            assert run(client, SET) == ("", "", -1)  # paramiko's word for: no exit status came
        wait_for(lambda: not client.get_transport().is_active())
    assert vmknic(lab) == ("vmk2" if when == "after" else "")
    assert run(login(), "echo alive")[0] == "alive\n"


def test_a_lost_reply_and_half_an_answer(lab, login):
    lab.set_faults([{"on": "ssh: advanced set", "do": "lost-reply"}])
    with contextlib.suppress(paramiko.SSHException, OSError):
        assert run(login(), SET)[2] == -1
    assert vmknic(lab) == "vmk2"
    whole = run(login(), "nvidia-smi -L")[0]
    lab.set_faults([{"on": "ssh: nvidia-smi", "when": "mid-body", "do": "drop"}])
    with contextlib.suppress(paramiko.SSHException, OSError):
        out, _, status = run(login(), "nvidia-smi -L")
        assert status == -1
        assert whole.startswith(out)
        assert len(out) < len(whole)


def test_output_that_is_spoilt(lab, login):
    client = login()
    whole = run(client, "nvidia-smi -L")[0]
    lab.set_faults([{"on": "ssh: nvidia-smi", "when": "after", "do": "truncate"}])
    assert run(client, "nvidia-smi -L") == (whole[: len(whole) // 2], "", 0)
    lab.set_faults([{"on": "ssh: nvidia-smi", "when": "after", "do": "malformed"}])
    assert "GPU" not in run(client, "nvidia-smi -L")[0]
    assert run(client, "echo other commands are well")[2] == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_exit_status(lab, login, when):
    lab.set_faults([{"on": "ssh: advanced set", "when": when, "do": {"exit": 19}}])
    assert run(login(), SET) == ("", "", 19)
    assert vmknic(lab) == ("vmk2" if when == "after" else "")


@pytest.mark.parametrize("when", ["before", "after", "mid-body"])
def test_a_slow_command(lab, login, when):
    lab.set_faults([{"on": "ssh: vmware", "when": when, "do": {"delay": "300ms"}}])
    client = login()
    began = time.monotonic()
    assert run(client, "vmware -v") == ("VMware ESXi 7.0.2 build-17867351\n", "", 0)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("when", ["before", "after", "mid-body"])
def test_a_command_that_is_held(lab, login, when):
    lab.set_faults([{"on": "ssh: advanced set", "when": when, "do": "hold"}])
    client = login()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, client, SET)
        struck(lab, 1)
        if when == "before":
            assert vmknic(lab) == ""
        else:
            wait_for(lambda: vmknic(lab) == "vmk2")
        assert not done.done()
        lab.release_fault(1)
        assert done.result()[2] == 0
    assert vmknic(lab) == "vmk2"


def test_a_connection_whose_banner_is_held(lab, login):
    lab.set_faults([{"on": "ssh-connect", "target": "esx02*", "do": "hold"}])
    with ThreadPoolExecutor(1) as pool:
        client = pool.submit(login, timeout=60)
        struck(lab, 1)
        assert not client.done()
        lab.release_fault(1)
        assert run(client.result(), "echo in")[0] == "in\n"


@pytest.mark.parametrize("word", ["drop", "reset", "hang"])
def test_a_connection_that_gets_no_banner(lab, login, word):
    lab.set_faults([{"on": "ssh-connect", "target": "esx02*", "nth": 1, "do": word}])
    with pytest.raises((paramiko.SSHException, EOFError, OSError)):
        login(timeout=0.5)
    assert run(login(), "echo in")[0] == "in\n"


def test_lines_on_standard_input_are_commands_too(lab, login):
    lab.set_faults([{"on": "ssh: advanced set", "do": "drop"}])
    client = login()
    channel = client.get_transport().open_session()
    channel.invoke_shell()
    channel.sendall(f"{SET}\necho later\n".encode())
    channel.shutdown_write()
    wait_for(lambda: not client.get_transport().is_active())
    assert vmknic(lab) == ""


@pytest.mark.parametrize("on", ["ssh: true", "CurrentTime"])
def test_another_host_key(lab, login, soap, on):
    rule = {"key-swap": "esx02*"} if on == "CurrentTime" else "key-swap"
    lab.set_faults([{"on": on, "nth": 1, "do": rule}])
    if on == "CurrentTime":
        soap.instance.CurrentTime()
    else:
        assert run(login(), "true")[2] == 0
    with pytest.raises(paramiko.BadHostKeyException):
        login()
    lab.post("/lab/reset")
    login()


def test_power_that_fails_and_comes_back(lab, login, soap):
    before = host(lab)["boot_time"]
    lab.set_faults([{"on": "ssh: advanced set", "nth": 1, "do": "power-loss"}])
    with contextlib.suppress(paramiko.SSHException, OSError):
        assert run(login(), SET)[2] == -1
    soap.until(lambda: host(lab)["boot_time"] > before and host(lab)["state"] == "connected")
    assert soap.vm("train-03").runtime.powerState == "poweredOff"
    assert vmknic(lab) == ""


def test_power_that_fails_after_the_effect(lab, login, soap):
    before = host(lab)["boot_time"]
    lab.set_faults([{"on": "ssh: advanced set", "nth": 1, "when": "after", "do": "power-loss"}])
    with contextlib.suppress(paramiko.SSHException, OSError):
        run(login(), SET)
    soap.until(lambda: host(lab)["boot_time"] > before)
    assert vmknic(lab) == "vmk2"


def test_a_host_that_never_returns(lab, soap):
    lab.set_faults([{"on": "RebootHost_Task", "target": "esx02*", "do": "host-never-returns"}])
    esx = soap.host("esx02")
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    soap.wait(esx.EnterMaintenanceMode_Task(0))
    soap.wait(esx.RebootHost_Task(False))
    soap.until(lambda: esx.runtime.connectionState == "notResponding")
    time.sleep(1.0)  # it boots in 0.4 s
    assert esx.runtime.connectionState == "notResponding"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(host(lab)["ssh"]["address"].rpartition(":")[2])), timeout=1)


def test_a_gpu_that_a_boot_does_not_find(lab, soap, login):
    lab.set_faults([{"on": "RebootHost_Task", "nth": 1, "do": {"gpu-missing": "0000:3b:00.0"}}])
    esx = soap.host("esx02")
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    soap.wait(esx.EnterMaintenanceMode_Task(0))
    seen = []
    for _ in range(2):
        boot = esx.runtime.bootTime
        soap.wait(esx.RebootHost_Task(False))
        soap.until(lambda boot=boot: esx.runtime.connectionState == "connected" and esx.runtime.bootTime > boot)
        esx.configManager.serviceSystem.StartService("TSM-SSH")
        devices = [d.id for d in esx.hardware.pciDevice if d.vendorId == 0x10DE]
        passthrough = {i.id for i in esx.config.pciPassthruInfo} & {"0000:3b:00.0", "0000:86:00.0"}
        listed = run(login(), "nvidia-smi -L")[0].splitlines()
        graphics = [g.pciId for g in esx.configManager.graphicsManager.graphicsInfo]
        seen.append((devices, passthrough, graphics, [line.partition(":")[0] for line in listed]))
    both = ["0000:3b:00.0", "0000:86:00.0"]
    assert seen == [
        (both[1:], set(both[1:]), both[1:], ["GPU 0"]),
        (both, set(both), both, ["GPU 0", "GPU 1"]),
    ]
