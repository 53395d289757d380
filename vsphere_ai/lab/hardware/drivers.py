"""Network drivers of a host and the effect of their module options: flow control per priority, pause, the RDMA MTU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from vsphere_ai.lab.hardware.parts import KernelModule, Pnic

PAUSE_BY_DEFAULT = ("nmlx5_core",)
"""Drivers that come up with global pause on; the Intel ones come up without."""
RINGS = {"nmlx5_core": (1024, 8192), "i40en": (1024, 4096)}
"""Entries of both rings a driver comes up with, and the most it takes; other drivers have no such setting."""
COALESCE = {
    "nmlx5_core": {"rx-usecs": 8, "rx-max-frames": 64, "tx-usecs": 16, "tx-max-frames": 32, "adaptive-rx": 1,
                   "adaptive-tx": 0},
}  # fmt: skip
"""Interrupt coalescing a driver comes up with; other drivers have no such setting."""
VERSIONS = {"igbn": "1.4.11.2", "i40en": "1.8.1.136", "nmlx5_core": "4.19.16.10", "bnxtnet": "216.0.50.0"}
"""Versions of the drivers, as their packages have them."""
RDMA_MTUS = (4096, 2048, 1024, 512, 256)
ETHERNET_OVERHEAD = 58  # IP and UDP headers, the InfiniBand transport headers and checks of RoCE v2


class DriverHost(Protocol):
    """What drivers need of a host (see `hardware.host.Host`)."""

    pnics: list[Pnic]
    kernel_modules: dict[str, KernelModule]

    def changing(self) -> AbstractContextManager[None]: ...  # noqa: D102
    def notify(self, what: str) -> None: ...  # noqa: D102


def load(host: DriverHost) -> None:
    """Load the drivers of the NICs with the options that are configured, as a boot does."""
    for nic in host.pnics:
        for name in (nic.driver, nic.rdma.driver if nic.rdma else nic.driver):
            module = host.kernel_modules.setdefault(name, KernelModule(name, used_by=2, size_kb=1696))
            module.running = module.options
    for nic in host.pnics:
        nic.pause_rx = nic.pause_tx = nic.driver in PAUSE_BY_DEFAULT
        first, nic.rings_most = RINGS.get(nic.driver, (0, 0))
        nic.rings = (first, first)
        nic.coalesce = dict(COALESCE[nic.driver]) if nic.driver in COALESCE else None
        nic.passthrough_active = nic.passthrough
        nic.vfs = nic.vfs_at_boot


def set_options(host: DriverHost, name: str, options: str) -> bool:
    """Replace the option string of a module for its next load; return whether it changed, KeyError if unknown."""
    with host.changing():
        module = host.kernel_modules[name]
        changed = module.options != options
        module.options = options
        if changed:
            host.notify("kernel")
        return changed


def pfc_mask(host: DriverHost, nic: Pnic) -> int:
    """Return the priorities with flow control in force on a NIC, as a bit mask; none where both ways differ."""
    module = host.kernel_modules.get(nic.driver)
    running = dict(word.partition("=")[::2] for word in module.running.split()) if module else {}
    try:
        sent, received = int(running.get("pfctx", "0"), 0), int(running.get("pfcrx", "0"), 0)
    except ValueError:
        return 0
    return sent & 0xFF if sent == received else 0


def pause_of(host: DriverHost, nic: Pnic) -> tuple[bool, bool]:
    """Return whether global pause works (received, sent); flow control per priority switches it off."""
    return (False, False) if pfc_mask(host, nic) else (nic.pause_rx, nic.pause_tx)


def set_pause(host: DriverHost, nic: Pnic, rx: bool | None, tx: bool | None) -> bool:
    """Set global pause until the next boot; return whether that changed anything."""
    with host.changing():
        before = (nic.pause_rx, nic.pause_tx)
        nic.pause_rx = before[0] if rx is None else rx
        nic.pause_tx = before[1] if tx is None else tx
        changed = before != (nic.pause_rx, nic.pause_tx)
        if changed:
            host.notify("network")
        return changed


def set_rings(host: DriverHost, nic: Pnic, rx: int | None, tx: int | None) -> bool:
    """Set the rings until the next boot; return whether that changed anything, ValueError for what cannot be."""
    with host.changing():
        wanted = (nic.rings[0] if rx is None else rx, nic.rings[1] if tx is None else tx)
        if not all(1 <= size <= nic.rings_most for size in wanted):
            raise ValueError(f"rings of {wanted[0]} and {wanted[1]} entries")
        changed = wanted != nic.rings
        nic.rings = wanted
        if changed:
            host.notify("network")
        return changed


def set_coalesce(host: DriverHost, nic: Pnic, wanted: dict[str, int]) -> bool:
    """Set interrupt coalescing until the next boot; return whether that changed anything, ValueError without any."""
    with host.changing():
        if nic.coalesce is None:
            raise ValueError("no interrupt coalescing")
        changed = any(nic.coalesce[name] != value for name, value in wanted.items())
        nic.coalesce |= wanted
        if changed:
            host.notify("network")
        return changed


def rdma_mtu(mtu: int) -> int:
    """Return the RDMA MTU over an Ethernet MTU: the largest one that fits with its headers."""
    return next((size for size in RDMA_MTUS if size + ETHERNET_OVERHEAD <= mtu), RDMA_MTUS[-1])
