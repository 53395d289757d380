"""CPU time of planning addresses: 1,000 VMs with IPv4 and IPv6 in pools of exactly 1,000 addresses each, then released.

Ten sets of 100 VMs ask one after another, as ten runs would; between
two of them the ledger is written to text and read again, as vCenter keeps it. What is compared with measures something
else: see the note that is printed.
"""

from __future__ import annotations

import time
import zlib

from common import Case, Row, Size
from run import alone

from vsphere_ai.addresses.holding import AddressLedger
from vsphere_ai.addresses.leasing import all_leases, lease, release
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest

SETS, VMS = 10, 100
POOLS = {
    "v4": AddressPool(
        subnet="10.0.0.0/22", ranges=("10.0.0.10-10.0.3.243",), exclude=("10.0.1.0", "10.0.1.255"), quarantine=0
    ),
    "v6": AddressPool(subnet="fd00:1::/64", ranges=("fd00:1::1-fd00:1::3e8",)),
}
NOTE = """\
Spiderpool's figures (docs/concepts/ipam-performance.md, 1,000 pods on 10 VMs, dual stack): 207 s with as many
addresses as pods, 182 s with some to spare. They include scheduling and starting every pod; the time above is that of
choosing and keeping the addresses alone, without a vCenter and without a VM. Read them side by side, do not divide."""


def filled() -> tuple[AddressLedger, int]:
    """Return the ledger after all sets have their addresses, and how many addresses were given twice."""
    text, nic = "", NicRequest("mgmt", ("v4", "v6"))
    for number in range(SETS):
        found = lease(read_ledger(text), PoolSettings(POOLS, number), [SetRequest(f"set{number}", VMS, (nic,))])
        if found.problems:
            raise SystemExit(found.problems[0].message)
        text = ledger_text(found.ledger)
    ledger = read_ledger(text)
    given = [each.address for each in all_leases(ledger, POOLS)]
    return ledger, len(given) - len(set(given))


def once() -> dict[str, float]:
    """Lease and release all; return the CPU time, and what must be nothing: given twice, left over, still held."""
    began = time.process_time()
    ledger, twice = filled()
    spent = time.process_time() - began
    held = sum(holding.count for holding in ledger.holdings.values())
    left = sum(sum(r.size for r in pool.usable()) for pool in POOLS.values()) - held
    text = ledger_text(ledger)
    for number in range(SETS):
        ledger = release(ledger, PoolSettings(POOLS, 1_000 + number), f"set{number}")
    kept = len(ledger.tidied(POOLS, 10_000).holdings)
    if twice or left or kept:
        raise SystemExit(f"given twice: {twice}; left over: {left}; still held after the release: {kept}")
    return {"cpu": spent, "bytes of the ledger": len(text), "compressed": len(zlib.compress(text.encode(), 9))}


def measure(size: Size, times: int) -> list[Row]:
    """Return the row; the size of the estate does not matter."""
    case = Case("ipam", f"{SETS * VMS:,} VMs, IPv4 and IPv6, as many addresses as they need", size, "cpu")
    return [case.row("vsphere-ai", [once() for _ in range(times)])]


if __name__ == "__main__":
    alone(f"{__doc__}\n{NOTE}", measure)
