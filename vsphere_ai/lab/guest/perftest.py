"""`ib_write_bw` and `ib_read_bw` of perftest: a server waits for its client, which prints the table.

Layout: linux-rdma/perftest, src/perftest_resources.h (the columns ``#bytes #iterations BW peak ...``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vsphere_ai.lab.guest.machine import GuestMachine, LabGuestNic
from vsphere_ai.lab.guest.network import is_down, speed_gb
from vsphere_ai.lab.shell.result import ShellResult

EFFICIENCY = 0.975
_TAKES = ("-d", "-x", "-D", "-s", "-n", "-p", "-q", "-i", "-m", "--use_cuda", "-t", "-R")


def main(machine: GuestMachine, argv: Sequence[str], find: Callable[[str], GuestMachine | None]) -> ShellResult:
    """Answer one call; with the name of a server it is a client, else a server, which here ends at once."""
    options, peers, words = {}, [], list(argv)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            peers.append(word)
        elif word in _TAKES and words:
            options[word] = words.pop(0)
    nic = _nic(machine, options.get("-d", ""))
    if nic is None:
        return ShellResult(
            1, "", f" IB device {options.get('-d', '')} not found\n Unable to find the Infiniband/RoCE device\n"
        )
    if is_down(machine, nic):
        return ShellResult(1, "", " Port number 1 state is Down\n Couldn't set the link layer\n")
    if not peers:
        return ShellResult(
            0, "\n************************************\n* Waiting for client to connect... *\n" + "*" * 36 + "\n"
        )
    peer = find(peers[0])
    if peer is None:
        return ShellResult(1, "", f"Couldn't connect to {peers[0]}:18515\nUnable to init the socket connection\n")
    other = next((n for n in peer.nics if n.rdma and n.pnic and nic.pnic and n.pnic.name == nic.pnic.name), None)
    other = other or next((n for n in peer.nics if n.rdma), None)
    if other is None or is_down(peer, other):
        return ShellResult(1, "", "Failed to exchange data between server and clients\n")
    gbits = min(speed_gb(machine, nic), speed_gb(peer, other)) * EFFICIENCY
    gbits *= machine.defects.between(machine.host.name, peer.host.name)
    size = int(options.get("-s", "65536"))
    rows = [
        "-" * 87,
        f"                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : {nic.rdma}",
        " Number of qps   : 1\t\tTransport type : IB\n Connection type : RC\t\tUsing SRQ      : OFF",
        f" Mtu             : {4096 if nic.mtu >= 4200 else 1024}[B]\n Link type       : Ethernet",
        "-" * 87,
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
        f" {size:<10} {5000:<14} {gbits * 1.002:<18.2f} {gbits:<20.2f} {gbits * 1e3 / 8 / size:.6f}",
        "-" * 87,
    ]
    return ShellResult(0, "\n".join(rows) + "\n")


def _nic(machine: GuestMachine, device: str) -> LabGuestNic | None:
    own = [nic for nic in machine.nics if nic.rdma]
    return next((nic for nic in own if nic.rdma == device), None) if device else next(iter(own), None)
