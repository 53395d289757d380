"""What a guest runs at the end of its first boot, carried out: two network namespaces, and a fake vmware-rpctool."""

from __future__ import annotations

import ast
import hashlib
import ipaddress
import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
import yaml
from support.programs import needs_program

from vsphere_ai.guests.cloud_init import Guest, User, userdata
from vsphere_ai.guests.netplan import GuestNic
from vsphere_ai.guests.ready import READY, ProbeAnswer, verdict

MGMT, RAIL, OTHER, ROUTER = "00:50:56:00:00:01", "00:50:56:00:00:02", "00:50:56:00:00:99", "00:50:56:00:00:fe"
NICS = (
    GuestNic("mgmt", MGMT, ("10.0.0.11/24", "fd00::11/64"), gateways=("10.0.0.1", "fd00::1"), primary=True),
    GuestNic("rail1", RAIL, ("172.16.1.11/24", "172.16.1.12/24"), 1400, ("172.16.1.1", "172.16.1.2")),
    GuestNic("rail2", "00:50:56:00:00:03", ("172.16.2.11/24",)),
)
GUEST = Guest("trn-01", "id", NICS, (User("ops", ("ssh-ed25519 A",)),), generation=7)
# the guest has a NIC per veth pair; the network behind it has gateways, and on demand another holder of an address
WIRE = f"""
set -e
echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
ip link add mgmt address {MGMT} type veth peer name far1 address {ROUTER}
ip link add rail1 mtu 1400 address {RAIL} type veth peer name far2 address {OTHER} mtu 1400
unshare -n sleep 60 & far=$!
trap 'kill $far' EXIT
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
behind() {{ nsenter -t $far -n "$@"; }}
ip link set far1 netns $far
ip link set far2 netns $far
behind ip link set far1 up
behind ip link set far2 up
behind ip addr add 10.0.0.1/24 dev far1
behind ip addr add fd00::1/64 dev far1 nodad
behind ip addr add 172.16.1.1/24 dev far2
ip link set lo up
ip link set mgmt up
ip link set rail1 up
ip addr add 10.0.0.11/24 dev mgmt
ip addr add fd00::11/64 dev mgmt nodad
ip addr add 172.16.1.11/24 dev rail1
ip addr add 172.16.1.12/24 dev rail1
ip rule add from 172.16.1.11 lookup 101 priority 2101
ip rule add from 172.16.1.12 lookup 101 priority 2101
"""
RPCTOOL = '#!/bin/sh\nprintf "%s" "$1" > "$(dirname "$0")/said"\n'


@pytest.fixture
def guest(tmp_path):
    """The files of a guest as cloud-init writes them, below a folder of the test, and a program to talk to ESXi."""
    for file in yaml.safe_load(userdata(GUEST))["write_files"]:
        (tmp_path / os.path.basename(file["path"])).write_text(file["content"], "utf-8")
    tool = tmp_path / "vmware-rpctool"
    tool.write_text(RPCTOOL, "utf-8")
    tool.chmod(0o755)
    return tmp_path


def said(guest):
    key, _, value = (guest / "said").read_text("utf-8").removeprefix("info-set ").partition(" ")
    assert key == READY
    return verdict(value)


def first_boot(guest, *more):
    """Run the last command of a first boot in a network of its own; `more` is done to the network before."""
    alone = [
        "unshare",
        "--user",
        "--map-root-user",
        "--net",
        "--mount",
        "--kill-child",
        "--fork",
        "--pid",
        "--mount-proc",
    ]
    if subprocess.run(
        [*alone, "ip", "link", "add", "try1", "type", "veth"], capture_output=True, timeout=30
    ).returncode:
        pytest.skip("this machine gives no network namespace with a veth pair")
    script = "\n".join([WIRE, *more, f"PATH={guest}:$PATH sh {guest}/ready.sh"])
    done = subprocess.run([*alone, "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return said(guest)


@needs_program("ip")
def test_free_addresses_and_gateways_are_found_and_announced(guest):
    capture = f"""
cat > {guest}/sniff.py <<'END'
import socket, sys, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.settimeout(0.2)
end = time.monotonic() + 12
with open(sys.argv[1], "w") as file:
    while time.monotonic() < end:
        try:
            frame, at = link.recvfrom(2048)
        except OSError:
            continue
        if at[2] != socket.PACKET_OUTGOING:
            print(at[0], frame.hex(), file=file, flush=True)
END
behind {sys.executable} {guest}/sniff.py {guest}/frames & sleep 0.5"""
    found = first_boot(guest, capture)
    mgmt, rail = found.nics[MGMT], found.nics[RAIL]
    assert found.generation == 7
    assert found.not_probed == ""
    if (own := Path("/etc/machine-id")).is_file():
        assert found.machine == hashlib.sha256(own.read_bytes().strip()).hexdigest()[:8]
    assert (mgmt.name, mgmt.mtu, mgmt.routing) == ("mgmt", 1500, "main")
    assert mgmt.addresses == {"10.0.0.11": ProbeAnswer("free"), "fd00::11": ProbeAnswer("free")}
    assert mgmt.gateways == {"10.0.0.1": ProbeAnswer("answered", ROUTER), "fd00::1": ProbeAnswer("answered", ROUTER)}
    assert (rail.mtu, rail.routing) == (1400, "table 101")
    assert rail.gateways == {"172.16.1.1": ProbeAnswer("answered", OTHER), "172.16.1.2": ProbeAnswer("silent")}
    missing = found.nics["00:50:56:00:00:03"]
    assert missing.name == ""
    assert missing.addresses == {"172.16.2.11": ProbeAnswer("not probed", reason="no interface has this MAC address")}
    assert missing.routing == "no rule from 172.16.2.11 lookup 102"
    sent = [line.split()[1] for line in (guest / "frames").read_text("utf-8").splitlines()]
    assert [kind for kind in map(meaning, sent) if kind] == [
        *["probe 10.0.0.11"] * 3,
        *["probe fd00::11"] * 3,
        *["probe 172.16.1.11"] * 3,
        *["probe 172.16.1.12"] * 3,
        "10.0.0.11 asks for 10.0.0.1",
        "fd00::11 asks for fd00::1",
        "172.16.1.11 asks for 172.16.1.1",
        *["172.16.1.11 asks for 172.16.1.2"] * 3,
        *["announce 10.0.0.11"] * 2,
        *["announce fd00::11"] * 2,
        *["announce 172.16.1.11"] * 2,
        *["announce 172.16.1.12"] * 2,
    ]


def meaning(frame):
    """What a frame of the guest says, read by the test's own eyes; the kernel's own traffic is left out."""
    raw = bytes.fromhex(frame)
    mac = raw[6:12].hex(":")
    if mac not in (MGMT, RAIL):
        return ""
    if raw[12:14] == b"\x08\x06":
        assert raw[:6] == b"\xff" * 6
        assert raw[14:22] == bytes.fromhex("0001080006040001")
        assert raw[22:28].hex(":") == mac
        sender, target = (str(ipaddress.ip_address(raw[at : at + 4])) for at in (28, 38))
    elif raw[12:14] == b"\x86\xdd" and raw[20] == 58 and raw[54] in (135, 136):
        length = int.from_bytes(raw[18:20], "big")
        total = sum(int.from_bytes(raw[at : at + 2], "big") for at in range(22, 54 + length, 2)) + length + 58
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        assert total == 0xFFFF, "a checksum that a receiver refuses"
        assert raw[21] == 255, "RFC 4861: another hop limit is dropped"
        sender, target = (str(ipaddress.ip_address(raw[at : at + 16])) for at in (22, 62))
        if raw[54] == 136:
            assert raw[:6].hex(":") == "33:33:00:00:00:01"
            assert (raw[58], raw[78:86]) == (0x20, b"\x02\x01" + raw[6:12])
            assert sender == target
        elif target.startswith("fe80") or sender.startswith("fe80"):
            return ""
        else:
            assert raw[:6].hex(":") == f"33:33:ff:{raw[75:78].hex(':')}"
    else:
        return ""
    if sender in ("0.0.0.0", "::"):
        return f"probe {target}"
    return f"announce {target}" if sender == target else f"{sender} asks for {target}"


@needs_program("ip")
def test_an_address_that_another_station_has_is_a_conflict_with_it_and_is_taken_off(guest):
    found = first_boot(
        guest,
        "behind ip addr add 10.0.0.11/32 dev far1",
        "behind ip addr add fd00::11/128 dev far1 nodad",
        "behind ip addr add 172.16.1.12/32 dev far2",
        f"PATH={guest}:$PATH sh {guest}/ready.sh",
        f"ip -o addr > {guest}/left",
        f"cp {guest}/said {guest}/first",
    )
    # the command was run twice: the second time what was taken off is absent
    assert found.nics[MGMT].addresses == {"10.0.0.11": ProbeAnswer("absent"), "fd00::11": ProbeAnswer("absent")}
    (guest / "said").write_text((guest / "first").read_text("utf-8"), "utf-8")
    first = said(guest)
    mgmt, rail = first.nics[MGMT], first.nics[RAIL]
    assert mgmt.addresses == {"10.0.0.11": ProbeAnswer("conflict", ROUTER), "fd00::11": ProbeAnswer("conflict", ROUTER)}
    assert {answer.word for answer in mgmt.gateways.values()} == {"not probed"}, "no question from a foreign address"
    assert rail.addresses == {"172.16.1.11": ProbeAnswer("free"), "172.16.1.12": ProbeAnswer("conflict", OTHER)}
    left = (guest / "left").read_text("utf-8")
    assert "172.16.1.11/24" in left
    assert not any(gone in left for gone in ("10.0.0.11/", "fd00::11/", "172.16.1.12/"))


@needs_program("ip")
def test_an_address_that_the_kernel_found_to_be_a_duplicate_is_a_conflict(guest):
    found = first_boot(
        guest,
        "behind ip addr add fd00::12/64 dev far1 nodad",
        "ip addr del fd00::11/64 dev mgmt",
        "echo 1 > /proc/sys/net/ipv6/conf/mgmt/accept_dad",
        f"sed -i s/fd00::11/fd00::12/ {guest}/nics.json",
        "ip addr add fd00::12/64 dev mgmt",
    )
    assert found.nics[MGMT].addresses["fd00::12"] == ProbeAnswer("conflict", ROUTER)


@needs_program("ip")
def test_what_the_renderer_dropped_is_named(guest):
    found = first_boot(
        guest, "ip rule del from 172.16.1.12", "ip addr del 172.16.1.11/24 dev rail1", "ip link set mgmt down"
    )
    assert found.nics[RAIL].routing == "no rule from 172.16.1.12 lookup 101"
    assert found.nics[RAIL].addresses["172.16.1.11"] == ProbeAnswer("absent")
    assert found.nics[MGMT].addresses["10.0.0.11"] == ProbeAnswer("not probed", reason="the link is down")


@pytest.mark.parametrize(
    ("python", "reason"), [("", "no Python interpreter"), ("#!/bin/sh\ntest $1 = -c", "the probe failed")]
)
def test_without_a_probe_the_guest_says_so(guest, tmp_path, python, reason):
    """A PATH of the test's own, with the programs that the script uses and a python3 that does not work."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sed", "dirname"):
        (programs / name).symlink_to(shutil.which(name))
    if python:
        (programs / "python3").write_text(python, "utf-8")
        (programs / "python3").chmod(0o755)
    script = guest / "ready.sh"
    script.write_text(script.read_text("utf-8").replace("PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin\n", ""), "utf-8")
    path = f"{guest}:{programs}"
    subprocess.run(["/bin/sh", script], env={"PATH": path}, check=True, timeout=30)
    found = said(guest)
    assert (found.generation, found.not_probed, found.nics) == (7, reason, {})


def test_the_command_is_posix_shell_and_the_probe_runs_on_old_interpreters():
    files = resources.files("vsphere_ai.guests") / "first_boot"
    with resources.as_file(files / "ready.sh") as script:
        subprocess.run(["sh", "-n", script], check=True, timeout=30)
    tree = ast.parse((files / "probe.py.txt").read_text("utf-8"), feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {
        "base64",
        "glob",
        "hashlib",
        "json",
        "re",
        "select",
        "socket",
        "struct",
        "subprocess",
        "sys",
        "time",
    }
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))


def test_the_programs_are_given_with_their_parameters():
    files = {os.path.basename(each["path"]): each["content"] for each in yaml.safe_load(userdata(GUEST))["write_files"]}
    assert set(files) == {"nics.json", "ready.sh", "probe.py", "vsphere-ai-ready.sh"}
    found = json.loads(files["nics.json"])
    assert found["generation"] == 7
    assert [(nic["mac"], nic["table"]) for nic in found["nics"]] == [(MGMT, None), (RAIL, 101), (NICS[2].mac, 102)]
