"""Release branches of NVIDIA's vGPU software, and which guest drivers work with which vGPU manager.

From the release notes of NVIDIA Virtual GPU Software (19.0 for VMware vSphere: "Compatible NVIDIA vGPU Manager and
Guest VM Driver Releases").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from vsphere_ai.model.dated_table import dated_table

SPREAD = 5
"""Windows drivers of a branch count on from its number: 527 and 529 are of R525, 538 is of R535, 553 of R550."""


@dataclass(frozen=True)
class DriverBranch:
    """A release branch: driver number (535), vGPU software release (16), long-term support or not."""

    driver: int
    release: int
    long_term: bool = False

    def __str__(self) -> str:
        return f"R{self.driver} (vGPU {self.release})"


@cache
def branches() -> tuple[DriverBranch, ...]:
    """Return the branches of the table, the oldest first."""
    return tuple(DriverBranch(**entry) for entry in dated_table("compat/vgpu_branches.yaml").values["branches"])


def branch_of(driver: str) -> DriverBranch | None:
    """Return the branch of a driver version such as ``535.54.03`` or ``527.15``; None for one of no vGPU release."""
    major = driver.partition(".")[0]
    number = int(major) if major.isascii() and major.isdecimal() else 0
    return next((b for b in branches() if b.driver <= number < b.driver + SPREAD), None)


def works_with(host: DriverBranch, guest: DriverBranch) -> str:
    """Return why a guest driver works with a host's vGPU manager; empty when that combination is not supported."""
    if guest == host:
        return "the same branch as the host's"
    earlier = [b for b in branches() if b.release < host.release]
    if earlier and guest == earlier[-1]:
        return "the branch before the host's"
    long_term = [b for b in earlier if b.long_term]
    if host.long_term and long_term and guest == long_term[-1]:
        return "the long-term support branch before the host's"
    return ""
