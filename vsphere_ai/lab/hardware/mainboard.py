"""Processors and memory of a simulated host, and what ESXi keeps of both for itself."""

from __future__ import annotations

from dataclasses import dataclass

PACKAGES = 2
GENERATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "broadwell": ("Intel(R) Xeon(R) CPU E5-2697A v4 @ 2.60GHz", ("LM", "NX", "AES", "AVX", "AVX2", "BMI2", "RTM")),
    "skylake": ("Intel(R) Xeon(R) Platinum 8170 CPU @ 2.60GHz", ("AVX512F", "AVX512DQ", "AVX512BW", "PKU")),
    "cascadelake": ("Intel(R) Xeon(R) Gold 6240 CPU @ 2.60GHz", ("AVX512VNNI",)),
    "icelake": ("Intel(R) Xeon(R) Gold 6348 CPU @ 2.60GHz", ("SHA", "VAES", "GFNI")),
    "sapphirerapids": ("Intel(R) Xeon(R) Platinum 8462Y+ @ 2.60GHz", ("AMX_BF16", "AMX_INT8")),
}
"""Generations from old to new: the name of a processor, and the features that each adds to those before it.

Of some forty features that vCenter lists for a VM these differ between generations (Intel's instruction set reference).
"""
OFFLINE = ("LM",)
"""What a VM that is off needs of a processor: seen of two recorded VMs."""


def features(generation: str) -> tuple[str, ...]:
    """Return the features of a generation of processors."""
    names = [*GENERATIONS]
    older = names[: names.index(generation) + 1]
    return tuple(each for name in older for each in GENERATIONS[name][1])


def level(wanted: set[str]) -> str:
    """Return the oldest generation that has these features, the newest where none has all of them."""
    return next((name for name in GENERATIONS if wanted <= {*features(name)}), [*GENERATIONS][-1])


@dataclass(frozen=True)
class Mainboard:
    """Cores, logical processors (`threads`), their clock, and the memory; with `system_...` ESXi itself runs.

    `evc` is the generation that EVC of the cluster makes of the processors, empty without EVC. `missing` are features
    that the firmware has switched off.
    """

    cores: int = 64
    threads: int = 128
    mhz: int = 2600
    memory_mb: int = 1 << 20
    system_memory_mb: int = 0
    system_mhz: int = 0
    generation: str = "icelake"
    evc: str = ""
    missing: tuple[str, ...] = ()

    @property
    def own_features(self) -> tuple[str, ...]:
        """The features of the processors."""
        return tuple(each for each in features(self.generation) if each not in self.missing)

    @property
    def shown_features(self) -> tuple[str, ...]:
        """The features that VMs see: those of the EVC mode, where the cluster has one."""
        allowed = features(self.evc) if self.evc else self.own_features
        return tuple(each for each in self.own_features if each in allowed)

    @property
    def memory_for_vms(self) -> int:
        """The memory that VMs can reserve, in MB."""
        return max(0, self.memory_mb - self.system_memory_mb)

    @property
    def mhz_for_vms(self) -> int:
        """The MHz that VMs can reserve; threads add nothing."""
        return max(0, self.cores * self.mhz - self.system_mhz)
