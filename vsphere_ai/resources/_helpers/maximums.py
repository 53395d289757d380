"""Configuration maximums of vSphere, of the table `maximums.yaml`; a version that is newer than it has no limit."""

from __future__ import annotations

from vsphere_ai.model.dated_table import dated_table

_TABLE = dated_table("resources/_helpers/maximums.yaml").values
MOST_ADAPTERS = int(_TABLE["network_adapters"])
"""Network adapters of a VM."""
MOST_UPLINKS = int(_TABLE["uplinks"])
"""Uplinks of a distributed switch on a host."""


def passthrough_devices(hardware: int | None) -> int | None:
    """Return how many devices by DirectPath I/O a VM of a virtual hardware takes; None where that is not known."""
    known = (int(entry["devices"]) for entry in _TABLE["passthrough_devices"] if (hardware or 0) <= entry["hardware"])
    return next(known, None) if hardware is not None else None
