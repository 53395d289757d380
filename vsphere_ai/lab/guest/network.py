"""`ip`, `rdma link`, `ibv_devinfo`, `ethtool` and the counters of sysfs in a guest.

Formats: iproute2 and rdma-core, samples of spiderpool's docs (mlx5) and of azhpc-images (a virtual function).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from ipaddress import ip_interface

from vsphere_ai.lab.guest.machine import GuestMachine, LabGuestNic
from vsphere_ai.lab.shell.result import ShellResult

STARTED = time.time()
COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
    "excessive_buffer_overrun_errors",
    "local_link_integrity_errors",
)
HW_COUNTERS = ("rnr_nak_retry_err", "local_ack_timeout_err", "out_of_buffer", "out_of_sequence", "roce_slow_restart")
_SIZES = ((4096, 5), (2048, 4), (1024, 3), (512, 2), (256, 1))


def is_down(machine: GuestMachine, nic: LabGuestNic) -> bool:
    """Return whether the link of an interface is down."""
    carrier = nic.pnic is None or nic.pnic.link_up
    state = nic.pnic.rdma.state if nic.pnic is not None and nic.pnic.rdma is not None else "Active"
    return not carrier or state.lower() != "active" or machine.defects.first("rail-down", **machine.on(nic)) is not None


def rdma(machine: GuestMachine, argv: Sequence[str]) -> ShellResult:
    """Answer `rdma link`."""
    if "link" not in argv:
        return ShellResult(1, "", f'Unknown argument "{" ".join(argv)}".\n')
    lines = []
    for nic in (n for n in machine.nics if n.rdma):
        state = "DOWN physical_state DISABLED" if is_down(machine, nic) else "ACTIVE physical_state LINK_UP"
        lines.append(f"link {nic.rdma}/1 state {state} netdev {nic.name} \n")
    return ShellResult(0, "".join(lines))


def devinfo(machine: GuestMachine, _argv: Sequence[str]) -> ShellResult:
    """Answer `ibv_devinfo`."""
    found = [nic for nic in machine.nics if nic.rdma]
    return (
        ShellResult(0, "".join(_device(machine, nic) for nic in found))
        if found
        else ShellResult(1, "No IB devices found\n")
    )


def _device(machine: GuestMachine, nic: LabGuestNic) -> str:
    pvrdma = nic.rdma.startswith("roce")
    vendor, part = ("0x15ad", 2080) if pvrdma else ("0x02c9", 4124)
    down = is_down(machine, nic)
    size, code = next((pair for pair in _SIZES if pair[0] <= nic.mtu - 52), _SIZES[-1])
    guid = nic.mac.replace(":", "")
    rows = {
        "transport": "InfiniBand (0)",
        "fw_ver": "1.0.0" if pvrdma else "20.31.1014",
        "node_guid": f"{guid[:4]}:{guid[4:6]}ff:fe{guid[6:8]}:{guid[8:]}",
        "sys_image_guid": "0000:0000:0000:0000",
        "vendor_id": vendor,
        "vendor_part_id": part,
        "hw_ver": "0x1" if pvrdma else "0x0",
        "board_id": "1" if pvrdma else "MT_0000000223",
        "phys_port_cnt": 1,
    }
    port = {
        "state": "PORT_DOWN (1)" if down else "PORT_ACTIVE (4)",
        "max_mtu": "4096 (5)",
        "active_mtu": f"{size} ({code})",
        "sm_lid": 0,
        "port_lid": 0,
        "port_lmc": "0x00",
        "link_layer": "Ethernet",
    }
    lines = [f"hca_id:\t{nic.rdma}", *(f"\t{name + ':':<32}{value}" for name, value in rows.items()), "\t\tport:\t1"]
    return "\n".join([*lines, *(f"\t\t\t{name + ':':<16}{value}" for name, value in port.items()), "", ""])


def ip(machine: GuestMachine, argv: Sequence[str]) -> ShellResult:
    """Answer `ip -j addr|rule|route`."""
    words = [word for word in argv if not word.startswith("-")]
    what = words[0] if words else ""
    if "-j" not in argv and "-json" not in argv:
        return ShellResult(255, "", "the lab's guests answer `ip -j` only\n")
    if what.startswith("a"):
        return ShellResult(0, json.dumps([_link(machine, n, nic) for n, nic in enumerate(machine.nics, 2)]) + "\n")
    if what.startswith("ru"):
        return ShellResult(0, json.dumps(list(_rules(machine))) + "\n")
    if what.startswith("r"):
        return ShellResult(0, json.dumps(list(_routes(machine))) + "\n")
    return ShellResult(255, "", f'Object "{what}" is unknown, try "ip help".\n')


def _link(machine: GuestMachine, number: int, nic: LabGuestNic) -> dict[str, object]:
    up = not is_down(machine, nic)
    flags = ["BROADCAST", "MULTICAST", "UP", *(["LOWER_UP"] if up else ["NO-CARRIER"])]
    info = [
        {"family": "inet6" if ":" in text else "inet", "local": text, "prefixlen": length, "scope": "global"}
        for text, length in nic.addresses
    ]
    return {
        "ifindex": number,
        "ifname": nic.name,
        "flags": flags,
        "mtu": nic.mtu,
        "operstate": "UP" if up else "DOWN",
        "address": nic.mac,
        "addr_info": info,
    }


def _tables(machine: GuestMachine) -> Iterator[tuple[int, LabGuestNic]]:
    """Yield the routing tables that the guest has written about, each with its interface."""
    for mac, own in machine._said().items():
        found = re.fullmatch(r"table (\d+)", str(own.get("routing", "")))
        nic = next((n for n in machine.nics if n.mac == mac), None)
        if found and nic is not None:
            yield int(found[1]), nic


def _rules(machine: GuestMachine) -> Iterator[dict[str, object]]:
    yield {"priority": 0, "src": "all", "table": "local"}
    for table, nic in _tables(machine):
        missing = machine.defects.every and any(
            d.kind == "rule-missing"
            and d.text("vm", machine.name) == machine.name
            and d.text("nic", nic.name) == nic.name
            for d in machine.defects.every
        )
        if not missing:
            yield from ({"priority": 32000 + table, "src": text, "table": str(table)} for text, _ in nic.addresses)
    yield {"priority": 32766, "src": "all", "table": "main"}
    yield {"priority": 32767, "src": "all", "table": "default"}


def _routes(machine: GuestMachine) -> Iterator[dict[str, object]]:
    for nic in machine.nics:
        for text, length in nic.addresses:
            network = str(ip_interface(f"{text}/{length}").network)
            yield {"dst": network, "dev": nic.name, "protocol": "kernel", "scope": "link", "prefsrc": text}
    for table, nic in _tables(machine):
        yield {"dst": "default", "dev": nic.name, "table": str(table)}


def ethtool(machine: GuestMachine, argv: Sequence[str]) -> ShellResult:
    """Answer `ethtool -S|-i INTERFACE` and `ethtool INTERFACE`."""
    nic = next((n for n in machine.nics if argv and n.name == argv[-1]), None)
    if nic is None:
        return ShellResult(71, "", "netlink error: No such device\n")
    if argv[0] == "-S":
        rows = {"rx_packets": 1000, "tx_packets": 1000, **dict(_counters(machine, nic))}
        return ShellResult(0, "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in rows.items()))
    if argv[0] == "-i":
        return ShellResult(0, f"driver: {nic.driver}\nversion: 5.15.0\nfirmware-version: \n")
    speed = speed_gb(machine, nic)
    return ShellResult(0, f"Settings for {nic.name}:\n\tSpeed: {round(speed * 1000)}Mb/s\n\tDuplex: Full\n")


def speed_gb(machine: GuestMachine, nic: LabGuestNic) -> float:
    """Return what an interface can carry, in Gb/s: the speed of its physical NIC, less what a defect takes of it."""
    if nic.pnic is None:
        return 10.0
    return (nic.pnic.forced_mb or nic.pnic.speed_mb) / 1000 * machine.defects.factor("rail-slow", **machine.on(nic))


def _counters(machine: GuestMachine, nic: LabGuestNic) -> Iterator[tuple[str, int]]:
    """Yield the counters of an RDMA port: those of a defect grow from second to second."""
    since = time.time() - STARTED
    for name in (*COUNTERS, *HW_COUNTERS):
        rates = [d for d in machine.defects.of("counter", **machine.on(nic)) if d.text("name") == name]
        value = sum(round(d.number("rate", 1.0) * since) for d in rates)
        if name == "link_downed":
            value += sum(round(d.number("count", 5)) for d in machine.defects.of("rail-flapping", **machine.on(nic)))
        yield name, value


def pci_paths(machine: GuestMachine) -> str:
    """Answer for each RDMA device of /sys/class/infiniband the path of its PCI device, and MAC addresses."""
    rows = [(nic.rdma, nic.pci) for nic in machine.nics if nic.rdma] + machine.whole_nics
    macs = "".join(f"/sys/class/net/{nic.name} {nic.mac}\n" for nic in machine.nics)
    paths = "".join(
        f"/sys/class/infiniband/{name} /sys/devices/pci0000:00/0000:00:{21 + at:02x}.0/{pci}\n"
        for at, (name, pci) in enumerate(rows)
    )
    return paths + macs


def sysfs(machine: GuestMachine, pattern: str) -> str:
    """Answer ``grep -H .`` of files of /sys/class by their patterns."""
    return "".join(f"{path}:{value}\n" for path, value in _files(machine) if _is_wanted(path, pattern))


def _is_wanted(path: str, patterns: str) -> bool:
    words = re.findall(r"/sys/[\w/*.-]+", patterns)
    return any(re.fullmatch(re.escape(word).replace(r"\*", "[^/]*"), path) for word in words)


def _files(machine: GuestMachine) -> Iterator[tuple[str, object]]:
    for nic in machine.nics:
        flaps = sum(round(d.number("count", 5)) for d in machine.defects.of("rail-flapping", **machine.on(nic)))
        yield f"/sys/class/net/{nic.name}/carrier_changes", 2 * flaps + 2
        yield f"/sys/class/net/{nic.name}/mtu", nic.mtu
        if not nic.rdma:
            continue
        port = f"/sys/class/infiniband/{nic.rdma}/ports/1"
        for name, value in _counters(machine, nic):
            yield f"{port}/{'hw_counters' if name in HW_COUNTERS else 'counters'}/{name}", value
        yield f"{port}/state", "1: DOWN" if is_down(machine, nic) else "4: ACTIVE"
        yield f"{port}/rate", f"{round(speed_gb(machine, nic))} Gb/sec (4X EDR)"
        broken = machine.defects.first("gid", vm=machine.name, nic=nic.name)
        for number, kind in enumerate(("IB/RoCE v1",) if broken else ("IB/RoCE v1", "RoCE v2")):
            yield f"{port}/gid_attrs/types/{number}", kind
            yield f"{port}/gid_attrs/ndevs/{number}", nic.name
            yield f"{port}/gids/{number}", _gid(nic)


def _gid(nic: LabGuestNic) -> str:
    four = next((text for text, _ in nic.addresses if ":" not in text), "0.0.0.0")
    a, b, c, d = (int(part) for part in four.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"
