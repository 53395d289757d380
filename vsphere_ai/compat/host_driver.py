"""Branch of the NVIDIA host driver of a host: as nvidia-smi shows it, else as its package (VIB) is called."""

from __future__ import annotations

from vsphere_ai.compat.rules.driver import host_driver
from vsphere_ai.gpu.live import readable
from vsphere_ai.model.facts import Facts


def branch(facts: Facts) -> int | None:
    """Return the driver branch, e.g. 535; None when neither was read, or when there are several."""
    found = {g.driver_major for g in readable(facts).gpus if g.driver_major is not None}
    if not found:
        found = {driver.branch for vib in facts.get("software") or () if (driver := host_driver(vib))}
    return found.pop() if len(found) == 1 else None
