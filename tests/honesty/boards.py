"""GPU boards of the random farms, in this test's own words: nothing here is taken from the catalogue of the product.

Source: NVIDIA vGPU documentation, "Virtual GPU Types for Supported GPUs"; NVIDIA MIG User Guide, profiles per board.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Board:
    """A board: its key in a scenario, the PCI device, how its vGPU types begin, what it takes to switch MIG.

    `sliced`: frame buffer in GB -> vGPUs of that size per GPU. `mig`: vGPU type -> (MIG profile, instances per GPU).
    """

    key: str
    device: str
    stem: str
    driver: str
    sliced: dict[int, int]
    mig: dict[str, tuple[str, int]]
    mig_reboots: bool = False

    def types(self, *, mig: bool) -> dict[str, int]:
        """vGPU type -> how many a GPU carries, by MIG mode."""
        if mig:
            return {f"{self.stem}-{name}": most for name, (_, most) in self.mig.items()}
        return {f"{self.stem}-{gb}c": most for gb, most in self.sliced.items()}


A100_40 = {"3-20c": ("3g.20gb", 2), "2-10c": ("2g.10gb", 3), "1-5c": ("1g.5gb", 7)}
A100_80 = {"3-40c": ("3g.40gb", 2), "2-20c": ("2g.20gb", 3), "1-10c": ("1g.10gb", 7)}
A30 = {"2-12c": ("2g.12gb", 2), "1-6c": ("1g.6gb", 4)}
HALVES_40, HALVES_80 = {40: 1, 20: 2, 10: 4}, {80: 1, 40: 2, 20: 4}
BOARDS = (
    Board("a100-40gb", "20f1", "grid_a100", "470.256.02", HALVES_40, A100_40, mig_reboots=True),
    Board("a100-40gb", "20b0", "grid_a100x", "470.256.02", HALVES_40, A100_40, mig_reboots=True),
    Board("a100-80gb", "20b5", "grid_a100d", "535.183.01", HALVES_80, A100_80, mig_reboots=True),
    Board("a100-80gb", "20b2", "grid_a100dx", "535.183.01", HALVES_80, A100_80, mig_reboots=True),
    Board("a30-24gb", "20b7", "nvidia_a30", "535.183.01", {24: 1, 12: 2, 6: 4}, A30, mig_reboots=True),
    Board("h100-80gb-pcie", "2331", "nvidia_h100", "550.54.16", HALVES_80, A100_80),
    Board("a40-48gb", "2235", "nvidia_a40", "535.183.01", {48: 1, 24: 2, 12: 4}, {}),
    Board("l40-48gb", "26b9", "nvidia_l40s", "550.54.16", {48: 1, 24: 2, 12: 4}, {}),
    Board("t4-16gb", "1eb8", "grid_t4", "470.256.02", {16: 1, 8: 2, 4: 4}, {}),
)
DIVISIBLE = tuple(b for b in BOARDS if b.mig)
OTHER_PRODUCT = {
    "grid_a100": "grid_a100x",
    "grid_a100x": "grid_a100",
    "grid_a100d": "grid_a100dx",
    "grid_a100dx": "grid_a100d",
    "nvidia_h100": "nvidia_h100xm",
    "nvidia_l40s": "nvidia_l40",
}
"""The vGPU types of a sibling on another card: same memory, another product, and not to be had on this one."""
