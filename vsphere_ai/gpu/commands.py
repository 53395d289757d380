"""nvidia-smi command lines, built from checked values only."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.model.names.pci_address import normal_pci

FIELDS = (
    "index",
    "pci.bus_id",
    "name",
    "uuid",
    "mig.mode.current",
    "mig.mode.pending",
    "memory.total",
    "driver_version",
)
QUERY_GPUS = ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")
LIST_INSTANCES = ("nvidia-smi", "mig", "-lgi")
LIST_COMPUTE_INSTANCES = ("nvidia-smi", "mig", "-lci")
LIST_PROFILES = ("nvidia-smi", "mig", "-lgip")
LIST_PLACEMENTS = ("nvidia-smi", "mig", "-lgipp")
QUERY_VGPUS = ("nvidia-smi", "vgpu", "-q")


def set_mig_mode(pci: str, enabled: bool) -> tuple[str, ...]:
    """Switch MIG mode of one GPU. Exit status 0 proves nothing: a pending change ends so too; query the mode again."""
    return ("nvidia-smi", "-i", _bus(pci), "-mig", "1" if enabled else "0")


def create_instances(pci: str, places: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Create GPU instances at (profile id, start), each with its default compute instance.

    nvidia-smi works from left to right and does not roll back: after an error the earlier instances stay.
    """
    if not places:
        raise ValueError("no GPU instance to create")
    items = ",".join(f"{_number(profile)}:{_number(start)}" for profile, start in places)
    return ("nvidia-smi", "mig", "-i", _bus(pci), "-cgi", items, "-C")


def destroy_compute_instance(pci: str, gi: int, ci: int) -> tuple[str, ...]:
    """Destroy a compute instance; a GPU instance can only be destroyed when it has none left."""
    return ("nvidia-smi", "mig", "-i", _bus(pci), "-dci", "-gi", _number(gi), "-ci", _number(ci))


def destroy_instance(pci: str, gi: int) -> tuple[str, ...]:
    """Destroy a GPU instance that holds no compute instance."""
    return ("nvidia-smi", "mig", "-i", _bus(pci), "-dgi", "-gi", _number(gi))


def _bus(pci: str) -> str:
    """Without -i every verb hits all GPUs; the index may change when a GPU fails, the bus id does not."""
    domain, _, rest = normal_pci(pci).partition(":")
    return f"{domain:0>8}:{rest}".upper()


def _number(value: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"not a profile id, start or instance id: {value!r}")
    return str(value)
